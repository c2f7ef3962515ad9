"""First in, first out with EASY backfill: others start earlier if the first one is not delayed."""

from fairlead.sim.virtual.policies.fifo import arrival
from fairlead.sim.virtual.policies.policy import EASY, SimPolicy

FIFO_EASY = SimPolicy(
    "fifo-easy", "by arrival; others start early if they do not delay the first", "exact", arrival,
    backfill=EASY,
)  # fmt: skip
