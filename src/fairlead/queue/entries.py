"""A unit in the queue, and what the queue remembers about it."""

from enum import IntEnum, auto

from fairlead.cluster.aspects import NOTHING, Aspect
from fairlead.model.lazy_dataclass import dataclass
from fairlead.queue.units import EquivalenceClass, Unit


class Pool(IntEnum):
    ACTIVE = auto()  #: to be tried next
    BACKOFF = auto()  #: to be tried when its time has come
    WAITING = auto()  #: nothing fits until something changes
    GATED = auto()  #: its scheduling gates are not lifted yet, or it is still gathering its pods
    NONE = auto()  #: in no pool: being tried or bound


@dataclass(slots=True, eq=False)
class Entry:
    """A unit of scheduling in the queue: since when, in which pool, and how often it was tried."""

    unit: Unit
    #: When it last entered the queue: a unit that failed goes behind its equals.
    queued_s: float
    #: When it first could have been scheduled.
    first_queued_s: float
    pool: Pool = Pool.NONE
    attempts: int = 0
    refusals: int = 0
    #: Failures in a row without a verdict: a denied bind, an API server that is unreachable.
    errors: int = 0
    due_s: float = 0.0
    #: What could end its wait, and the class with which it waits.
    woken_by: Aspect = NOTHING
    equivalence_class: EquivalenceClass | None = None
    #: The queue of a team that held it back, while it waits; None: none did.
    held_back_by: str | None = None
    #: The reason with which a queue last held it back, as it was announced; empty: none did.
    held_back_as: str = ""
    #: How long it runs, as was expected when it was last refused; None: no start is planned for any
    #: unit.
    run_s: float | None = None
    #: The one heap entry that stands for it; older ones are void.
    ticket: int = -1

    @property
    def needs_no_room(self) -> bool:
        """Whether it waits, and only time or an edit can end that.

        No room is held or made for it meanwhile.
        """
        return self.pool is Pool.WAITING and self.held_back_by is None and not self.woken_by
