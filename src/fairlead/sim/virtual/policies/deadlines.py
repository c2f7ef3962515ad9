"""By deadline and by slack, as queues of Fairlead order their units."""

from fairlead.model.queues import UnitOrder
from fairlead.sim.virtual.policies.fifo import arrival
from fairlead.sim.virtual.policies.policy import EASY, SimPolicy

DEADLINE = SimPolicy(
    "deadline", "the earliest deadline first", "nothing", arrival, queue_order=UnitOrder.DEADLINE
)
SLACK = SimPolicy(
    "slack", "the least slack first; jobs that are late come last", "exact", arrival,
    queue_order=UnitOrder.SLACK,
)  # fmt: skip
SLACK_EASY = SimPolicy(
    "slack-easy", "the least slack first; others do not delay the first that waits", "exact",
    arrival, backfill=EASY, queue_order=UnitOrder.SLACK,
)  # fmt: skip
