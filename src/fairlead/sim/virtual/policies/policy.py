"""What a policy of the simulator decides: the order of jobs, and what happens around it."""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from fairlead.model.backfill import NO_BACKFILL, BackfillMode, BackfillTerms
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.queues import UnitOrder

if TYPE_CHECKING:
    from fairlead.sim.virtual.cluster import VirtualCluster
    from fairlead.sim.virtual.runs import JobRun

#: Exact: all ends of running jobs are looked at, however far ahead, and a job that would delay the
#: first one on the best nodes waits, as in the literature.
EASY = BackfillTerms(
    BackfillMode.EASY,
    window_s=inf,
    resolution_s=0.0,
    hold_s=inf,
    evicts_overruns=False,
    other_places=False,
)
SHORT_FIRST_STARTS = replace(EASY, mode=BackfillMode.SHORT_FIRST)

FIRST_FIT = "first-fit"
BEST_FIT = "BestFit"


@dataclass(frozen=True, slots=True)
class SimPolicy:
    """The engine decides where jobs go, by a profile."""

    name: str
    #: One sentence for users.
    about: str
    #: What it knows about run times: "nothing", "estimate" or "exact".
    knows: str
    #: The job with the smallest comes first; equal ones in the order in which they came. Not for a
    #: mode of backfill that has an order of its own.
    key: Callable[["JobRun"], float]
    #: Where jobs go, unless the user says: "first-fit", or the name of a score or profile.
    placement: str = BEST_FIT
    #: A job that finds no room keeps all jobs behind it waiting.
    strict: bool = False
    #: Which planned starts the engine makes and protects.
    backfill: BackfillTerms = NO_BACKFILL
    #: All jobs are in a queue with this order; None: there is no queue.
    queue_order: UnitOrder | None = None

    @property
    def orders(self) -> bool:
        """Whether jobs come by `key`: the engine has no order of its own."""
        return self.backfill.mode is not BackfillMode.SHORT_FIRST and self.queue_order is None

    #: Called whenever jobs came or ended, before the engine decides.
    interrupt: Callable[["VirtualCluster"], None] | None = None
