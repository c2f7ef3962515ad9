"""What is free for the pods of a gang, less what a plan has given to some of them already."""

from collections.abc import Sequence

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode, Rows
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.pod_room import pod_room
from fairlead.model.gpus import WHOLE
from fairlead.model.nodes import GPU
from fairlead.model.pods import Amounts, Pod, PodRequest
from fairlead.model.quantities import PODS
from fairlead.placement.faults import fault_of
from fairlead.placement.place import Placement
from fairlead.placement.unequal_pods import AmountTable
from fairlead.placement.views import REFUSED, View
from fairlead.plugins.node_resources_fit import NodeResourcesFit

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
        self._most: dict[PodRequest, PerNode] = {}
        self._needs: dict[PodRequest, Amounts] = {}
        self._penalty: dict[PodRequest, PerNode] = {}
        self._free: dict[str, PerNode] = {}
        self.given: Given = {}

    def know(self, pod: Pod, placement: Placement) -> PodRequest:
        """The request of the pod, which the other methods take. Raises PluginFault."""
        try:
            view = placement.view(pod)
        except Exception as error:
            raise fault_of(error, placement.profile) from error
        if view.request not in self._most:
            self._know(view, placement)
        return view.request

    def of(self, request: PodRequest) -> PerNode:
        """How many more such pods each row has room for."""
        room = self._most[request]
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
        rules = placement.profile.filters
        fit = next(
            (rule for rule in rules if isinstance(rule, NodeResourcesFit)), NodeResourcesFit()
        )
        amounts = tuple(
            (name, n) for name, n in request.resources if n > 0 and not fit.ignores(name)
        )
        room = pod_room(request, amounts, view.chosen_gpus, nodes)
        left = view.left & (not view.pre_filter_message)
        if self._cluster.open_rows is not None:
            left = left & self._cluster.open_rows
        self._most[request] = np.where(left, np.maximum(room, 1), 0)
        self._penalty[request] = _penalty(view, left)
        milli = _gpus_milli(request)
        self._needs[request] = (*amounts, (_MILLI, milli)) if milli else amounts

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
            self._free[resource] = free
        return free


def _gpus_milli(request: PodRequest) -> int:
    ask = request.gpu_request
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
