"""What is free for the pods of a gang, less what a plan has given to some of them already."""

from collections.abc import Sequence

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode, Rows
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.pod_room import pod_room
from fairlead.cluster.priority_sums import AmountsByRow
from fairlead.model.extended import has_class
from fairlead.model.gpus import WHOLE
from fairlead.model.nodes import GPU
from fairlead.model.pods import Amounts, Pod, PodRequest
from fairlead.model.quantities import PODS
from fairlead.placement.faults import fault_of
from fairlead.placement.place import Placement
from fairlead.placement.unequal_pods import AmountTable
from fairlead.placement.views import REFUSED, View

#: In place of a resource: thousandths of GPUs, for requests that are not counted as one.
_MILLI = ""
#: Steps between the best and the worst node by score.
_SCORE_STEPS = 15

#: Pods of each request that a plan has given to rows.
Given = dict[PodRequest, PerNode]


class GangRoom:
    """By request. The cluster must not change meanwhile."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._size = cluster.columns.size
        #: For each request, the one that stands for all that have the same room.
        self._same: dict[PodRequest, PodRequest] = {}
        self._alike: dict[tuple[Amounts, int, int], PodRequest] = {}
        self._most: dict[PodRequest, PerNode] = {}
        self._needs: dict[PodRequest, Amounts] = {}
        self._penalty: dict[PodRequest, PerNode] = {}
        self._free: dict[str, PerNode] = {}
        #: Rows with nominated pods that the gang must respect, and what these request.
        self._nominated: tuple[Rows, AmountsByRow] | None = None
        self.given: Given = {}

    def know(self, pod: Pod, placement: Placement) -> PodRequest:
        """The request of the pod, or one with the same room. Raises PluginFault.

        The other methods take it.
        """
        try:
            request = placement.settled_request(pod)
            if request not in self._same:
                self._know(placement.view(pod), placement)
        except Exception as error:
            raise fault_of(error, placement.profile) from error
        return self._same[request]

    def leave_to_nominated(self, pod: Pod) -> None:
        """What is nominated for others than the pod and its gang is not free in `amounts`."""
        self._nominated = self._cluster.nominations.amounts_against(pod)

    @property
    def is_current(self) -> bool:
        """Whether it has a place for every node of the cluster."""
        return self._size == self._cluster.columns.size

    def coarsen(self, most: int) -> bool:
        """Requests that are near each other become one, the largest; whether there were more."""
        if len(self._most) <= most:
            return False
        order = sorted(self._most, key=self._by_size, reverse=True)
        each = -(-len(order) // most)
        first: dict[PodRequest, PodRequest] = {}
        for start in range(0, len(order), each):
            together = order[start : start + each]
            self._merge(together)
            first |= dict.fromkeys(together, together[0])
        self._same = {request: first[same] for request, same in self._same.items()}
        return True

    def _by_size(self, request: PodRequest) -> tuple[int, tuple[int, int]]:
        return self.gpus_of(request), request.scored

    def _merge(self, together: Sequence[PodRequest]) -> None:
        needs: dict[str, int] = {}
        for request in together:
            for name, amount in self._needs.pop(request):
                needs[name] = max(amount, needs.get(name, 0))
        most = [self._most.pop(request) for request in together]
        penalty = [self._penalty.pop(request) for request in together]
        self._needs[together[0]] = tuple(needs.items())
        self._most[together[0]] = np.minimum.reduce(most)
        self._penalty[together[0]] = np.maximum.reduce(penalty)

    def of(self, request: PodRequest) -> PerNode:
        """How many more such pods each row has room for."""
        room, open_rows = self._most[request], self._cluster.open_rows
        if open_rows is not None:
            room = np.where(open_rows, room, 0)
        if not self.given:
            return room
        if request in self.given:
            room = room - self.given[request]
        for resource, need in self._needs[request]:
            room = np.minimum(room, self._left(resource) // need)
        return np.maximum(room, 0)

    def give(self, request: PodRequest, counts: PerNode) -> None:
        before = self.given.get(request)
        self.given = {**self.given, request: counts if before is None else before + counts}

    def limit(self, request: PodRequest, row: int, most: int) -> None:
        """No more than so many fit there, as it turned out."""
        self._most[request][row] = min(most, int(self._most[request][row]))

    def penalty(self, request: PodRequest) -> PerNode:
        """0 for the nodes that scores prefer."""
        return self._penalty[request]

    def amounts(
        self, requests: Sequence[PodRequest], rows: Rows
    ) -> tuple[AmountTable, AmountTable]:
        """What is free on the rows, by resource, and what such pods take of it."""
        names = sorted({name for request in requests for name, _ in self._needs[request]} | {PODS})
        needs = [{PODS: 1, **dict(self._needs[request])} for request in requests]
        free = np.array([self._left(name)[rows] for name in names], dtype=np.int64)
        return free, np.array([[need.get(n, 0) for n in names] for need in needs], dtype=np.int64)

    def gpus_milli(self) -> PerNode:
        """Thousandths of GPUs that are free on each row, whatever the plan gives."""
        return self._amount(_MILLI)

    def gpus_of(self, request: PodRequest) -> int:
        """Thousandths of GPUs that such a pod takes."""
        return dict(self._needs[request]).get(_MILLI, 0)

    def _know(self, view: View, placement: Placement) -> None:
        request, nodes = view.request, self._cluster.nodes
        amounts = placement.amounts(request)
        room = pod_room(request, amounts, view.chosen_gpus, nodes)
        left = view.left & (not view.pre_filter_message)
        members = self._cluster.extended_members
        if members is not None and (rows := members.rows_of(request)) is not None:
            left = left & rows
        milli = _gpus_milli(request)
        needs = (*amounts, (_MILLI, milli)) if milli else amounts
        most, penalty = np.where(left, np.maximum(room, 1), 0), _penalty(view, left)
        same = self._same[request] = self._alike.setdefault(
            (needs, hash(most.tobytes()), hash(penalty.tobytes())), request
        )
        if same is request:
            self._most[request], self._penalty[request] = most, penalty
            self._needs[request] = needs

    def _left(self, resource: str) -> PerNode:
        left = self._amount(resource)
        for request, counts in self.given.items():
            need = {PODS: 1, **dict(self._needs[request])}.get(resource, 0)
            if need:
                left = left - need * counts
        return np.maximum(left, 0)

    def _amount(self, resource: str) -> PerNode:
        free = self._free.get(resource)
        if free is None:
            nodes = self._cluster.nodes
            free = nodes.free_gpus()[0] if resource == _MILLI else nodes.free(resource)
            self._free[resource] = free = self._without_nominated(resource, free)
        return free

    def _without_nominated(self, resource: str, free: PerNode) -> PerNode:
        name, each = (GPU, WHOLE) if resource == _MILLI else (resource, 1)
        index = self._cluster.columns.resource_index.get(name)
        if self._nominated is None or index is None:
            return free
        rows, amounts = self._nominated
        left = free.copy()
        left[rows] -= each * amounts[index]
        return left


def _gpus_milli(request: PodRequest) -> int:
    ask = request.gpu_request
    if has_class(request.claims, GPU):
        return 0  # devices of a class are not counted here
    if ask is None:
        return WHOLE * request.amount(GPU)
    if ask.profile:
        return 0  # slices of a GPU are counted by its room for them
    return ask.gpus * (WHOLE if ask.whole else ask.milli)


def _penalty(view: View, left: NodeMask) -> PerNode:
    scores = np.where(left, view.total, REFUSED)
    best = scores.max(initial=REFUSED)
    worst = scores[left].min(initial=np.inf)
    if not left.any() or best <= worst:
        return np.zeros(len(left), dtype=np.int64)
    steps = np.zeros(len(left))
    steps[left] = (best - scores[left]) * (_SCORE_STEPS / (best - worst))
    return steps.astype(np.int64)
