"""What is asked of the solver about a gang: kinds of pods, patterns of them, classes of nodes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.cluster import Cluster
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.solver import (
    NodeClass,
    PatternUse,
    SolverQuestion,
    pattern_costs,
)
from fairlead.model.topology import HOSTNAME
from fairlead.placement.faults import fault_of
from fairlead.placement.gang_costs import cost_levels, levels_of
from fairlead.placement.gang_room import GangRoom
from fairlead.placement.place import Placement
from fairlead.plugins.goals import GoalLevel

#: Kinds of pods, and patterns of them.
MOST_KINDS = 8
_MOST_PATTERNS = 512
#: Patterns times nodes, and patterns of all classes together.
_MOST_LOOKED_AT = 1_250_000
_MOST_VARIABLES = 20_000
#: Costs are compared in this many digits.
_DIGITS = 9

Table = npt.NDArray[np.int64]
#: By kind of pod, level and row.
_Costs = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AskedGang:
    """A question, and what it was made of."""

    question: SolverQuestion
    #: Pods by kind, and names of nodes by class.
    kinds: tuple[tuple[Pod, ...], ...]
    nodes: tuple[tuple[str, ...], ...]
    #: Classes of nodes with the GPU model that the gang prefers.
    preferred: frozenset[int]

    def places(self, answer: Sequence[PatternUse]) -> dict[str, str]:
        """The node of each pod, by uid."""
        left = [list(reversed(pods)) for pods in self.kinds]
        names = [list(reversed(each)) for each in self.nodes]
        found: dict[str, str] = {}
        for use in answer:
            for _ in range(use.nodes):
                node = names[use.node_class].pop()
                for kind, pods in enumerate(self.question.patterns[use.pattern]):
                    found |= {left[kind].pop().uid: node for _ in range(pods)}
        return found

    def costs(self, places: Mapping[str, str]) -> tuple[float, ...] | None:
        """What these nodes cost by level; None if that is not known of one of them."""
        kind_of = {pod.uid: kind for kind, pods in enumerate(self.kinds) for pod in pods}
        class_of = {name: number for number, names in enumerate(self.nodes) for name in names}
        if not (places.keys() == kind_of.keys() and class_of.keys() >= set(places.values())):
            return None
        taken: dict[str, Counter[int]] = {}
        for uid, node in places.items():
            taken.setdefault(node, Counter())[kind_of[uid]] += 1
        total = np.zeros(len(self.question.levels))
        for node, pods in taken.items():
            pattern = [pods[kind] for kind in range(len(self.kinds))]
            total += pattern_costs(self.question.classes[class_of[node]], pattern)
        return tuple(total.tolist())

    def least(self) -> tuple[float, ...]:
        """No nodes can cost less, by level."""
        each = np.array([node_class.costs for node_class in self.question.classes])
        total: npt.NDArray[np.float64] = each.min(axis=0) @ np.array(self.question.counts)
        return tuple(total.tolist())

    def within_preferred(self) -> "AskedGang":
        """The same question about the preferred classes alone."""
        kept = sorted(self.preferred)
        classes = tuple(self.question.classes[each] for each in kept)
        nodes = tuple(self.nodes[each] for each in kept)
        return replace(self, question=replace(self.question, classes=classes), nodes=nodes)

    def better_than(self, cutoff: tuple[float, ...] | None) -> "AskedGang":
        return replace(self, question=replace(self.question, cutoff=cutoff))


def ask(
    gang: str,
    number: int,
    pods: Sequence[Pod],
    cluster: Cluster,
    placements: Mapping[str, Placement],
    budget_s: float,
    preferred: NodeMask | None = None,
) -> AskedGang | None:
    """None if there is too much to look at, or nothing to choose. Raises PluginFault."""
    if not pods:
        return None
    room = GangRoom(cluster)
    room.leave_to_nominated(pods[0])
    kinds: dict[PodRequest, list[Pod]] = {}
    for pod in pods:
        kinds.setdefault(room.know(pod, placements[pod.scheduler]), []).append(pod)
        if len(kinds) > MOST_KINDS:
            return None
    levels = levels_of(placements[pods[0].scheduler])
    if len(kinds) < 2 and not any(level.counts_once for level in levels):
        return None
    builder = _Builder(kinds, room, cluster, placements, levels)
    patterns = builder.patterns()
    if not patterns or len(patterns) * cluster.columns.size > _MOST_LOOKED_AT:
        return None
    classes, nodes, inside = builder.classes(patterns, preferred)
    if sum(len(each.patterns) for each in classes) > _MOST_VARIABLES:
        return None
    question = SolverQuestion(
        gang, number, budget_s, tuple(map(len, kinds.values())), patterns, classes,
        cost_levels(levels, len(pods)),
    )  # fmt: skip
    return AskedGang(question, tuple(map(tuple, kinds.values())), nodes, inside)


class _Builder:
    def __init__(
        self,
        kinds: Mapping[PodRequest, list[Pod]],
        room: GangRoom,
        cluster: Cluster,
        placements: Mapping[str, Placement],
        levels: Sequence[GoalLevel],
    ) -> None:
        self._cluster = cluster
        requests = list(kinds)
        rows = np.arange(cluster.columns.size)
        self._room: Table = np.array([room.of(request) for request in requests])
        self._free, self._needs = room.amounts(requests, rows)
        most = self._room.max(axis=1, initial=0).tolist()
        self._most = [
            min(len(kinds[request]), room_for, 1 if _is_alone(request) else room_for)
            for request, room_for in zip(requests, most, strict=True)
        ]
        counted = [
            _counted(placements[pods[0].scheduler], pods[0], levels, cluster)
            for pods in kinds.values()
        ]
        shape = len(requests), len(levels), len(rows)
        self._costs: _Costs = np.array([costs for costs, _ in counted]).reshape(shape)
        self._once: _Costs = np.array([once for _, once in counted]).reshape(shape)

    def patterns(self) -> tuple[tuple[int, ...], ...]:
        return patterns_of(self._most, self._needs, self._free.max(axis=1, initial=0))

    def classes(
        self, patterns: tuple[tuple[int, ...], ...], preferred: NodeMask | None
    ) -> tuple[tuple[NodeClass, ...], tuple[tuple[str, ...], ...], frozenset[int]]:
        """Nodes that take the same patterns at the same costs, their names, and which to prefer."""
        fits = np.array([self._fits(np.array(pattern)) for pattern in patterns])
        keys, by_key = np.packbits(fits, axis=0).T, dict[tuple[object, ...], list[int]]()
        for row in np.flatnonzero(fits.any(axis=0)).tolist():
            costs = self._costs[:, :, row].tobytes(), self._once[:, :, row].tobytes()
            inside = preferred is None or bool(preferred[row])
            by_key.setdefault((keys[row].tobytes(), *costs, inside), []).append(row)
        classes = tuple(self._class(fits, rows) for rows in by_key.values())
        name = self._cluster.node_at
        names = tuple(tuple(name(row).name for row in rows) for rows in by_key.values())
        return classes, names, frozenset(n for n, key in enumerate(by_key) if key[-1])

    def _class(self, fits: NodeMask, rows: list[int]) -> NodeClass:
        row = rows[0]
        return NodeClass(
            len(rows),
            tuple(np.flatnonzero(fits[:, row]).tolist()),
            tuple(map(tuple, self._costs[:, :, row].T.tolist())),
            tuple(map(tuple, self._once[:, :, row].T.tolist())),
        )

    def _fits(self, pattern: PerNode) -> NodeMask:
        fits: NodeMask = np.ones(self._room.shape[1], dtype=np.bool_)
        for room, pods in zip(self._room, pattern.tolist(), strict=True):
            if pods:
                fits = fits & (room >= pods)
        for free, needed in zip(self._free, (pattern @ self._needs).tolist(), strict=True):
            if needed:
                fits = fits & (free >= needed)
        return fits


def patterns_of(most: Sequence[int], needs: Table, largest: PerNode) -> tuple[tuple[int, ...], ...]:
    """Pods of each kind that some node might take together; none if there are too many."""
    found: list[tuple[int, ...]] = [()]
    for kind, up_to in enumerate(most):
        used = np.array(found, dtype=np.int64).reshape(len(found), kind) @ needs[:kind]
        asked = needs[kind] > 0
        left = (largest - used)[:, asked] // needs[kind][asked]
        added = left.min(axis=1, initial=up_to)
        if (added + 1).sum() > _MOST_PATTERNS:
            return ()
        pairs = zip(found, added.tolist(), strict=True)
        found = [(*start, pods) for start, last in pairs for pods in range(last + 1)]
    return tuple(each for each in found if any(each))


def _is_alone(request: PodRequest) -> bool:
    """Whether its rules may keep pods like it off its node."""
    return any(term.topology_key == HOSTNAME for term in request.anti_affinity)


def _counted(
    placement: Placement, pod: Pod, levels: Sequence[GoalLevel], cluster: Cluster
) -> tuple[list[_Costs], list[_Costs]]:
    """What a pod counts, and what is counted once for a node, by level and row."""
    request, nodes = placement.request(pod), cluster.nodes
    try:
        both = [level.by_pod_and_node(request, nodes) for level in levels]
    except Exception as error:
        raise fault_of(error, placement.profile) from error
    return [_rounded(each) for each, _ in both], [_rounded(once) for _, once in both]


def _rounded(counted: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.nan_to_num(counted).round(_DIGITS)
