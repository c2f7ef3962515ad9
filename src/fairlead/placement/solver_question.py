"""What is asked of the solver about a gang: kinds of pods, patterns of them, classes of nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.cluster import Cluster
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.solver import NodeClass, PatternUse, SolverQuestion
from fairlead.model.topology import HOSTNAME
from fairlead.placement.gang_room import GangRoom
from fairlead.placement.place import Placement

#: Kinds of pods, and patterns of them.
MOST_KINDS = 8
_MOST_PATTERNS = 512
#: Patterns times nodes, and patterns of all classes together.
_MOST_LOOKED_AT = 1_250_000
_MOST_VARIABLES = 20_000
#: Costs are compared in this many digits.
_DIGITS = 9

Table = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AskedGang:
    """A question, and what it was made of."""

    question: SolverQuestion
    #: Pods by kind, and names of nodes by class.
    kinds: tuple[tuple[Pod, ...], ...]
    nodes: tuple[tuple[str, ...], ...]

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


def ask(
    gang: str,
    number: int,
    pods: Sequence[Pod],
    cluster: Cluster,
    placements: Mapping[str, Placement],
    budget_s: float,
) -> AskedGang | None:
    """None if the pods are equal, or there is too much to look at."""
    room = GangRoom(cluster)
    kinds: dict[PodRequest, list[Pod]] = {}
    for pod in pods:
        kinds.setdefault(room.know(pod, placements[pod.scheduler]), []).append(pod)
        if len(kinds) > MOST_KINDS:
            return None
    if len(kinds) < 2:
        return None
    builder = _Builder(kinds, room, cluster, placements)
    patterns = builder.patterns()
    if not patterns or len(patterns) * cluster.columns.size > _MOST_LOOKED_AT:
        return None
    classes, nodes = builder.classes(patterns)
    if sum(len(each.patterns) for each in classes) > _MOST_VARIABLES:
        return None
    counts = tuple(len(each) for each in kinds.values())
    question = SolverQuestion(gang, number, budget_s, counts, patterns, classes)
    return AskedGang(question, tuple(map(tuple, kinds.values())), nodes)


class _Builder:
    def __init__(
        self,
        kinds: Mapping[PodRequest, list[Pod]],
        room: GangRoom,
        cluster: Cluster,
        placements: Mapping[str, Placement],
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
        self._costs = np.array([
            _cost(placements[kinds[request][0].scheduler], kinds[request][0], cluster)
            for request in requests
        ])  # fmt: skip

    def patterns(self) -> tuple[tuple[int, ...], ...]:
        return patterns_of(self._most, self._needs, self._free.max(axis=1, initial=0))

    def classes(
        self, patterns: tuple[tuple[int, ...], ...]
    ) -> tuple[tuple[NodeClass, ...], tuple[tuple[str, ...], ...]]:
        """Nodes that take the same patterns at the same costs, and their names."""
        fits = np.array([self._fits(np.array(pattern)) for pattern in patterns])
        keys = np.packbits(fits, axis=0).T
        by_key: dict[tuple[bytes, bytes], list[int]] = {}
        for row in np.flatnonzero(fits.any(axis=0)).tolist():
            key = keys[row].tobytes(), self._costs[:, row].tobytes()
            by_key.setdefault(key, []).append(row)
        classes = tuple(
            NodeClass(
                len(rows),
                tuple(np.flatnonzero(fits[:, rows[0]]).tolist()),
                tuple(self._costs[:, rows[0]].tolist()),
            )
            for rows in by_key.values()
        )
        names = self._cluster.node_at
        return classes, tuple(
            tuple(names(row).name for row in rows) for rows in by_key.values()
        )  # fmt: skip

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


def _cost(placement: Placement, pod: Pod, cluster: Cluster) -> npt.NDArray[np.float64]:
    """What the first level of the goals counts for a pod, on each row."""
    goals = placement.profile.goals
    if goals is None or not goals.levels:
        return np.zeros(cluster.columns.size)
    counted = goals.levels[0].total(placement.request(pod), cluster.nodes)
    return np.nan_to_num(np.asarray(counted, dtype=np.float64)).round(_DIGITS)
