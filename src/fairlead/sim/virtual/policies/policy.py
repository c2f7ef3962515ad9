"""What a policy of the simulator decides: the order of jobs, and what happens around it."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from fairlead.model.backfill import NO_BACKFILL, BackfillMode, BackfillTerms
from fairlead.queue.starts.terms import StartTerms

if TYPE_CHECKING:
    from fairlead.sim.virtual.cluster import VirtualCluster
    from fairlead.sim.virtual.runs import JobRun

#: Exact: all ends of running jobs are looked at, however far ahead.
EASY = BackfillTerms(BackfillMode.EASY, window_s=inf, resolution_s=0.0)

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
    #: The job with the smallest comes first; equal ones in the order in which they came.
    key: Callable[["JobRun"], float]
    #: Where jobs go, unless the user says: "first-fit", or the name of a score or profile.
    placement: str = BEST_FIT
    #: A job that finds no room keeps all jobs behind it waiting.
    strict: bool = False
    #: By what rule jobs are given to the engine, one after the other; None: as they come.
    starts: StartTerms | None = None
    #: Which planned starts the engine makes and protects.
    backfill: BackfillTerms = NO_BACKFILL
    #: Called whenever jobs came or ended, before the engine decides.
    interrupt: Callable[["VirtualCluster"], None] | None = None
