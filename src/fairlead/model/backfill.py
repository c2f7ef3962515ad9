"""Planned starts and backfill: units that wait get a start and a place in the future."""

from enum import Enum

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.start_terms import EASY_TERMS, SHORT_FIRST_TERMS, StartTerms


class BackfillMode(Enum):
    """For how many waiting units a start is planned."""

    NONE = "none"  #: for none: any unit that fits starts
    EASY = "easy"  #: for the first one: others start earlier if they do not delay it
    CONSERVATIVE = "conservative"  #: for many: others start earlier if they delay none of these
    #: Units by their service, the smallest first; for the first one that has waited for long, which
    #: others may put off a little.
    SHORT_FIRST = "short-first"

    @property
    def rule(self) -> StartTerms:
        """What others must leave to a planned unit."""
        return SHORT_FIRST_TERMS if self is BackfillMode.SHORT_FIRST else EASY_TERMS


class FillerRule(Enum):
    """Which units may fill room for any time, because they are evicted when it is needed."""

    NONE = "none"
    MARKED = "marked"  #: those of lower priority that say so
    PREEMPTIBLE = "preemptible"  #: all of lower priority


#: On a pod: "true" means that it may be evicted when a unit starts as planned.
FILLER = "fairlead.dev/filler"


@dataclass(frozen=True, slots=True)
class BackfillTerms:
    """How starts are planned. The names and the meaning are those of Slurm's parameters."""

    mode: BackfillMode = BackfillMode.NONE
    #: Units with a planned start, at most, if the mode is conservative.
    depth: int = 50
    #: No start is planned further ahead.
    window_s: float = 86_400.0
    #: Ends that are so near to each other count as one; a start may be so late before it is planned
    #: again. Twice as long for each doubling of the time until then.
    resolution_s: float = 60.0
    #: Added to the run time of a unit that starts early: it takes time to start and to end.
    margin_s: float = 0.0
    #: Whether estimates count where there is no bound.
    estimates: bool = True
    #: How long a running pod is taken to run of which nothing is known; None: for ever.
    unknown_s: float | None = None
    #: How long room is held after the planned start, at most.
    hold_s: float = 3600.0
    fillers: FillerRule = FillerRule.MARKED
    #: Whether units that started before a planned one, because they said that they end in time, are
    #: evicted for it when they run longer.
    evicts_overruns: bool = True
    #: Whether a unit that would delay a planned start on the best nodes may start on others. In the
    #: literature it waits.
    other_places: bool = True


NO_BACKFILL = BackfillTerms()


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """When and where a waiting unit starts, if running units end as they are expected to."""

    unit_key: str
    #: On the clock of the engine.
    start_s: float
    #: None: it is not known how long it runs.
    end_s: float | None
    #: The node of each pod, by uid.
    nodes: tuple[tuple[str, str], ...]
    #: Uids of the pods whose end it waits for.
    basis: tuple[str, ...] = ()
    #: Whether all of these are ended by then: the start is no estimate.
    bounded: bool = False
