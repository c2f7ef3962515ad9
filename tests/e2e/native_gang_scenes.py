"""Cases of native gangs as data: what is there, what happens, and who has a node at the end.

Every case is played twice, by kube-scheduler and by Fairlead; both must give the same answer.
Nodes have 4 CPUs unless they say otherwise; pods take one CPU unless they say otherwise.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Members:
    """Pods of one group."""

    group: str
    count: int
    cpu: str = "1"
    spec: dict[str, Any] = field(default_factory=dict)
    #: Names begin with it.
    name: str = ""

    @property
    def names(self) -> list[str]:
        return [f"{self.name or self.group}-{number}" for number in range(self.count)]


@dataclass(frozen=True)
class Group:
    name: str
    minimum: int | None
    spec: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Gone:
    """Pods that are deleted."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Ungated:
    """Pods that lose their gates."""

    names: tuple[str, ...]


Step = Members | Group | Gone | Ungated


@dataclass(frozen=True)
class Case:
    #: CPUs of each node.
    nodes: tuple[int, ...]
    steps: tuple[Step, ...]
    #: How many members of each group have a node at the end.
    bound: dict[str, int]
    #: The condition of each group at the end: its status and reason; None: no condition.
    conditions: dict[str, tuple[str, str] | None] = field(default_factory=dict)
    #: The rack of each node.
    racks: str = ""


SCHEDULED, REFUSED = ("True", "Scheduled"), ("False", "Unschedulable")
IN_ONE_RACK = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
GATED = {"schedulingGates": [{"name": "example.com/gate"}]}

CASES: dict[str, Case] = {
    "a gang that fits is placed": Case(
        (4,), (Group("g", 3), Members("g", 3)), {"g": 3}, {"g": SCHEDULED}
    ),
    "pods come before their group": Case(
        (4,), (Members("g", 3), Group("g", 3)), {"g": 3}, {"g": SCHEDULED}
    ),
    "a gang on several nodes": Case(
        (2, 2, 2), (Group("g", 6), Members("g", 6)), {"g": 6}, {"g": SCHEDULED}
    ),
    "fewer pods than the minimum wait": Case(
        (8,), (Group("g", 4), Members("g", 3)), {"g": 0}, {"g": None}
    ),
    "pods without their group wait": Case((8,), (Members("g", 3),), {"g": 0}),
    "a gang that does not fit is refused whole": Case(
        (4,), (Group("g", 6), Members("g", 6)), {"g": 0}, {"g": REFUSED}
    ),
    "more pods than fit, but as many as it needs": Case(
        (4,), (Group("g", 3), Members("g", 6)), {"g": 4}, {"g": SCHEDULED}
    ),
    "one member is too large": Case(
        (4, 4),
        (Group("g", 3), Members("g", 2), Members("g", 1, cpu="16", name="large")),
        {"g": 0},
        {"g": REFUSED},
    ),
    "one member above the minimum is too large": Case(
        (4, 4),
        (Group("g", 2), Members("g", 2), Members("g", 1, cpu="16", name="large")),
        {"g": 2},
        {"g": SCHEDULED},
    ),
    "a basic group needs no number": Case(
        (4,), (Group("g", None), Members("g", 6)), {"g": 4}, {"g": SCHEDULED}
    ),
    "a basic group of which nothing fits": Case(
        (1,), (Group("g", None), Members("g", 2, cpu="4")), {"g": 0}, {"g": REFUSED}
    ),
    "a gang of one": Case((4,), (Group("g", 1), Members("g", 1)), {"g": 1}, {"g": SCHEDULED}),
    # Of the condition both say something else: kube-scheduler 1.36 tries the others meanwhile.
    "gated members hold the gang back": Case(
        (8,),
        (Group("g", 3), Members("g", 2), Members("g", 1, spec=GATED, name="gated")),
        {"g": 0},
    ),
    "it is placed when the last gate is lifted": Case(
        (8,),
        (
            Group("g", 3), Members("g", 2), Members("g", 1, spec=GATED, name="gated"),
            Ungated(("gated-0",)),
        ),
        {"g": 3},
        {"g": SCHEDULED},
    ),
    "two gangs, room for one": Case(
        (4,),
        (Group("a", 4), Members("a", 4), Group("b", 4), Members("b", 4)),
        {"a": 4, "b": 0},
        {"a": SCHEDULED, "b": REFUSED},
    ),
    "a small gang passes a large one that waits": Case(
        (4,),
        (Group("a", 6), Members("a", 6), Group("b", 2), Members("b", 2)),
        {"a": 0, "b": 2},
        {"a": REFUSED, "b": SCHEDULED},
    ),
    "room that is freed goes to the gang that waits": Case(
        (4,),
        (
            Group("a", 2), Members("a", 2), Group("b", 4), Members("b", 4),
            Gone(("a-0", "a-1")),
        ),
        {"b": 4},
        {"b": SCHEDULED},
    ),
    "late members of a gang that runs are placed": Case(
        (4,),
        (Group("g", 2), Members("g", 2), Members("g", 1, name="late")),
        {"g": 3},
        {"g": SCHEDULED},
    ),
    "late members that do not fit wait, and the others stay": Case(
        (4,),
        (Group("g", 2), Members("g", 2), Members("g", 4, name="late")),
        {"g": 4},
        {"g": SCHEDULED},
    ),
    "a member of a gang that runs is replaced": Case(
        (4,),
        (
            Group("g", 3), Members("g", 3), Gone(("g-1",)), Members("g", 1, name="new"),
        ),
        {"g": 3},
        {"g": SCHEDULED},
    ),
    "a selector that no node has": Case(
        (4, 4),
        (Group("g", 2), Members("g", 2, spec={"nodeSelector": {"nowhere": "1"}})),
        {"g": 0},
        {"g": REFUSED},
    ),
    "a gang in one rack": Case(
        (1, 3, 1, 1), (Group("g", 4, IN_ONE_RACK), Members("g", 4)), {"g": 4}, {"g": SCHEDULED},
        racks="abba",
    ),
    "no rack has room for the gang, all racks together have": Case(
        (2, 2, 2), (Group("g", 4, IN_ONE_RACK), Members("g", 4)), {"g": 0}, {"g": REFUSED},
        racks="abc",
    ),
    "late members go to the rack of the others": Case(
        (4, 8),
        (
            Group("g", 2, IN_ONE_RACK), Members("g", 2, spec={"nodeSelector": {"rack": "a"}}),
            Members("g", 4, name="late"),
        ),
        {"g": 4},
        {"g": SCHEDULED},
        racks="ab",
    ),
    "nodes without a rack are not used": Case(
        (8,), (Group("g", 2, IN_ONE_RACK), Members("g", 2)), {"g": 0},
    ),
}  # fmt: skip
