"""A gang: pods that are placed together, in one form for every API that describes such pods."""

from collections.abc import Iterator
from enum import StrEnum

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.run_times import RunTime

#: Groups of one gang, and how deep they are nested.
MOST_GROUPS = 1024
DEEPEST = 8

#: How long a gang that is bound in part is completed before it is released, as in kube-scheduler.
LONGEST_PART_S = 300.0


class Counting(StrEnum):
    """Which members count towards the minimum when one has to be replaced."""

    #: Members with a node, and those that have finished.
    FINISHED = "finished"
    #: Only members that are alive (the native PodGroup).
    ALIVE = "alive"
    #: After the minimum was reached once, members are placed one by one (Koordinator).
    ONCE = "once"


@dataclass(frozen=True, slots=True)
class TopologyRule:
    """Pods of a group belong in one domain of a level of the topology."""

    #: The node label of the level, or the name of a configured level.
    level: str
    required: bool = True
    #: For how long only one domain is tried; then a preferred rule uses as few as possible, and a
    #: required one allows one more for each such time. None: a required rule allows only one, and
    #: a preferred one uses as few as possible from the beginning.
    patience_s: float | None = None
    #: The key of the object that lists the levels, such as "kai/default"; empty: any.
    topology: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A part of a gang: pods (a leaf), or other groups of which a minimum number is satisfied."""

    name: str
    #: Of a leaf the least number of pods, otherwise the least number of satisfied groups.
    minimum: int
    groups: tuple["Group", ...] = ()
    topology: tuple[TopologyRule, ...] = ()
    #: Of a leaf the pods are placed in sets of so many consecutive ranks; 0: no sets.
    set_size: int = 0
    #: The rule of each such set.
    set_topology: tuple[TopologyRule, ...] = ()
    #: All pods below it are evicted together.
    evicted_whole: bool = False


@dataclass(frozen=True, slots=True)
class GroupClaim:
    """An entry of `spec.resourceClaims` of a PodGroup: one claim for all pods that have it, too."""

    entry: str
    #: Of the claim; empty: it is made from the template.
    name: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True)
class GroupClaims:
    """The claims of a PodGroup: they are reserved for the group, and not for each pod."""

    uid: str
    entries: tuple[GroupClaim, ...]


@dataclass(frozen=True, slots=True)
class GangSpec:
    """What the object of a gang says."""

    #: Dialect, namespace and name: "volcano/default/job".
    key: str
    #: How many pods it needs at least, those of its groups included.
    minimum: int
    #: None: the highest of its pods.
    priority: int | None = None
    #: Whether its pods may not have a higher one, either.
    exact_priority: bool = False
    #: The parts that need a minimum, a topology or a name of their own.
    groups: tuple[Group, ...] = ()
    #: How many of these groups must be satisfied; None: all.
    least_groups: int | None = None
    #: The key of the gang that it is a group of; the pods of both are placed together.
    part_of: str = ""
    topology: tuple[TopologyRule, ...] = ()
    #: More pods than this are not placed (elastic gangs); None: all that there are.
    maximum: int | None = None
    #: What must be free in the cluster before any pod is placed.
    least_resources: tuple[tuple[str, int], ...] = ()
    counting: Counting = Counting.FINISHED
    #: Evicted whole, or pod by pod down to the minimum.
    evicted_whole: bool = False
    #: Whether others may be evicted for it, as far as its pods allow it.
    preempts: bool = True
    longest_part_s: float = LONGEST_PART_S
    #: It evicts no others before it has waited so long.
    eviction_delay_s: float = 0.0
    #: With fewer members than the minimum for so long, the others are evicted; None: never.
    stale_after_s: float | None = None
    #: Its controller creates pods only after the status of its object says that there is room. Who
    #: serves this scheduler name decides that; empty: pods are created without.
    admitted_by: str = ""
    #: Its object says that it has run: it needs no admission any more.
    has_run: bool = False
    #: The key of its queue, such as "volcano/default"; empty: that of its pods.
    queue: str = ""
    #: What its object declares about how long its pods run.
    run_time: RunTime | None = None
    #: Claims that its object has for all of its pods.
    claims: GroupClaims | None = None
    #: Set when the object is invalid; its pods wait with this sentence.
    problem: str = ""

    def __hash__(self) -> int:
        """By its key: there may be a thousand groups."""
        return hash(self.key)

    @property
    def name(self) -> str:
        """Namespace and name."""
        return self.key.partition("/")[2] or self.key


def every_rule(spec: GangSpec) -> Iterator[TopologyRule]:
    """The topology rules of a gang and of all of its groups."""
    yield from spec.topology
    left = [*spec.groups]
    while left:
        group = left.pop()
        yield from (*group.topology, *group.set_topology)
        left += group.groups


def named_topologies(spec: GangSpec) -> frozenset[str]:
    """Keys of the objects whose levels the rules of a gang mean."""
    return frozenset(rule.topology for rule in every_rule(spec) if rule.topology)


class GangState(StrEnum):
    """How far a gang has come, for the status of its object."""

    #: Pods are missing, or have scheduling gates.
    GATHERING = "gathering"
    #: There is no room for as many pods as it needs, or a quota does not admit them.
    UNSCHEDULABLE = "unschedulable"
    #: At least the minimum has nodes, or has finished.
    SCHEDULED = "scheduled"
    #: Its object or its pods contradict themselves.
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class GangStatus:
    """What the object of a gang says about it. It has no time: that is for the writer to add."""

    state: GangState
    #: Members that exist, in whatever state.
    members: int
    #: The minimum.
    needed: int
    #: Members with a node that have not finished, and members that have succeeded.
    with_node: int
    finished: int
    message: str = ""
    #: Members that have failed; they are not among the others.
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Membership:
    """What a pod says about its gang."""

    #: The key of its `GangSpec`.
    gang: str
    #: The leaf it belongs to; empty if the gang has no groups.
    group: str = ""
    rank: int | None = None
    #: For gangs without an object: what this pod says of the whole. Members must agree.
    spec: GangSpec | None = None
    #: The key of the object that the pod names, where that is only a part of the gang.
    part: str = ""
