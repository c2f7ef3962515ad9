"""First in, first out; a job that finds no room blocks all jobs behind it."""

from fairlead.sim.virtual.policies.fifo import arrival
from fairlead.sim.virtual.policies.policy import SimPolicy

FIFO_STRICT = SimPolicy(
    "fifo-strict", "by arrival; a job that finds no room blocks the others", "nothing", arrival,
    strict=True,
)  # fmt: skip
