"""A gang on its way: from the decision to the outcome of the last bind."""

from dataclasses import field

from fairlead.engine.gang_trials import MemberPlacement
from fairlead.model.lazy_dataclass import dataclass
from fairlead.queue.entries import Entry
from fairlead.queue.units import Gang

#: Members that are placed, bound or announced in one turn: at most 80 ms.
SLICE = 1000
#: What placing members may cost in one turn (see `Work.spent`).
SLICE_WORK = 25_000


@dataclass(slots=True, eq=False)
class GangFlight:
    """A gang whose members have nodes, until the outcome of every bind is known."""

    entry: Entry
    #: Members that have a node and are not being bound yet, by uid.
    placed: dict[str, MemberPlacement] = field(default_factory=dict)
    #: Those of them whose steps are under way.
    preparing: set[str] = field(default_factory=set)
    #: Whether all members have nodes, and the driver was asked to prepare them.
    asked: bool = False
    binding: set[str] = field(default_factory=set)
    #: Whether binds were written: what is placed then is bound, come what may.
    began: bool = False
    #: Members whose bind did not happen: the node that they had, and why.
    denied: dict[str, tuple[str, str]] = field(default_factory=dict)
    #: Why none of them is bound.
    problem: str = ""

    @property
    def gang(self) -> Gang:
        assert isinstance(self.entry.unit, Gang)
        return self.entry.unit

    @property
    def is_over(self) -> bool:
        return not (self.placed or self.binding)
