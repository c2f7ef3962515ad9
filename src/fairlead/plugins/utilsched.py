"""What Alnair's UtilSched was designed to do: what there is, what it is doing, what will come.

score = node · Δ + actual · mean of Ψ + expected · mean of Γ          each from 0 to 1

Δ   the mean of: free GPUs (8 are plenty), NVLink between them, the strength of their model
Ψ   of each GPU the pod would get, the mean of: compute idle, memory idle, cpu free, RAM free
Γ   of each such GPU, the mean of: compute and memory that would be left with the pod on it,
    where the same work takes less of a stronger GPU's time
"""

from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.loads import MIDDLING, UNKNOWN, expected_busy
from fairlead.model.machines import strength_of
from fairlead.model.pods import PodField, PodRequest
from fairlead.plugins.api import HIGHEST_SCORE, GpuScores
from fairlead.plugins.gaps import asked_gpus, gpu_count
from fairlead.plugins.measured import READS, of_best_gpus, positive

_PLENTY = 8


@dataclass(frozen=True, slots=True)
class UtilSched:
    """Pods without GPUs stay off nodes with GPUs."""

    node_weight: float = 5.0
    actual_weight: float = 10.0
    expected_weight: float = 3.0
    name: ClassVar[str] = "UtilSched"
    reads: ClassVar[Aspect] = READS
    pod_fields: ClassVar[PodField] = PodField.LOAD

    def __post_init__(self) -> None:
        positive(self, "node_weight", "actual_weight", "expected_weight")

    def rate(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        if asked_gpus(request) is None:
            return np.where(gpu_count(nodes) > 0, 0.0, HIGHEST_SCORE)
        all_weights = self.node_weight + self.actual_weight + self.expected_weight
        of_gpus = of_best_gpus(self.rate_gpus(request, nodes), request, nodes)
        of_node = self.node_weight / 3 * (_free_gpus(nodes) + _joined(request, nodes))
        scores: NodeScores = (of_node + of_gpus) * (HIGHEST_SCORE / all_weights)
        return scores

    def rate_gpus(self, request: PodRequest, nodes: Nodes) -> GpuScores:
        strength = _strength(nodes)
        points: GpuScores = self.node_weight / 3 * strength
        points = points + self.actual_weight * _actual(nodes)
        return points + self.expected_weight * _expected(request, nodes, strength)


def _free_gpus(nodes: Nodes) -> NodeScores:
    free: NodeScores = np.clip(nodes.free_gpus()[0] / (_PLENTY * WHOLE), 0.0, 1.0)
    return free


def _joined(request: PodRequest, nodes: Nodes) -> NodeScores:
    """Whether NVLink joins what the pod would get; all alike for a single GPU."""
    ask = asked_gpus(request)
    if ask is None or not ask.whole or ask.gpus < 2:
        return np.full(len(nodes), MIDDLING)
    return nodes.gpus.joined(ask).astype(np.float64)


def _strength(nodes: Nodes) -> GpuScores:
    gpus = nodes.gpus
    # A GPU of unknown model has the number -1: the last one.
    by_code = np.full(max(gpus.codes().values(), default=-1) + 2, MIDDLING)
    for model, code in gpus.codes().items():
        by_code[code] = strength_of(model)
    strength: GpuScores = by_code[gpus.model()]
    return strength


def _actual(nodes: Nodes) -> GpuScores:
    load = nodes.load
    memory_busy = np.nan_to_num(load.memory_busy(), nan=MIDDLING)
    of_host = _free_share("cpu", nodes) + _free_share("memory", nodes)
    idle: GpuScores = (2.0 - load.busy() - memory_busy + of_host[:, None]) / 4
    return idle


def _free_share(resource: str, nodes: Nodes) -> NodeScores:
    """As pods requested it: hosts are not measured."""
    total = np.maximum(nodes.allocatable(resource), 1)
    free: NodeScores = np.clip(nodes.free(resource) / total, 0.0, 1.0)
    return free


def _expected(request: PodRequest, nodes: Nodes, strength: GpuScores) -> GpuScores:
    load, ask = request.load or UNKNOWN, asked_gpus(request)
    if ask is None:
        return np.zeros_like(strength)
    takes = expected_busy(load) * MIDDLING / strength
    compute = np.clip(1.0 - nodes.load.busiest() - takes, 0.0, 1.0)
    memory = nodes.gpus.memory()
    needs_mib = nodes.gpus.memory_asked(ask) if load.memory_mib is None else load.memory_mib
    used = np.nan_to_num(nodes.load.memory_used(), nan=0.0)
    taken = (np.fmax(used, memory - nodes.gpus.memory_free()) + needs_mib) / np.maximum(memory, 1)
    room = np.where(memory > 0, np.clip(1.0 - taken, 0.0, 1.0), MIDDLING)
    left: GpuScores = (compute + room) / 2
    return left
