"""The goals that Fairlead brings along: money, lost time, watts, carbon and time to fetch data."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeMask, NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.nodes import Nodes
from fairlead.model.errors import ConfigError
from fairlead.model.goals import GoalUnit
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.node_figures import Figure
from fairlead.model.pods import PodRequest
from fairlead.model.quantities import CPU
from fairlead.plugins.api import Goal
from fairlead.plugins.fetch_time import FetchTime
from fairlead.plugins.gaps import gpu_count
from fairlead.plugins.node_share import OfNodeShare

_TAKEN = Aspect.ALLOCATABLE | Aspect.DEVICES
_W_PER_KW = 1000.0


def _unused(nodes: Nodes, below: float) -> NodeMask:
    """Nodes that no pod uses; without GPUs: of whose cpu less than this part is requested."""
    gpus, (free, _) = gpu_count(nodes), nodes.free_gpus()
    cpu = nodes.requested(CPU) < below * nodes.allocatable(CPU)
    unused: NodeMask = np.where(gpus > 0, free >= gpus * WHOLE, cpu)
    return unused


@dataclass(frozen=True, slots=True)
class PodCost(OfNodeShare):
    """The part of the node's price that the pod takes."""

    name: ClassVar[str] = "Cost"
    unit: ClassVar[GoalUnit] = GoalUnit.MONEY
    reads: ClassVar[Aspect] = _TAKEN | Aspect.FIGURES

    def count_share(self, share: NodeScores, nodes: Nodes) -> NodeScores:
        return nodes.figure(Figure.PRICE) * share


@dataclass(frozen=True, slots=True)
class UnusedCost(OfNodeShare):
    """The rest of the price of a node that no other pod uses, and that could be removed."""

    #: A node without GPUs is unused if less than this part of its cpu is requested.
    unused_below: float = 0.1
    once_per_node: ClassVar[bool] = True
    name: ClassVar[str] = "UnusedCost"
    unit: ClassVar[GoalUnit] = GoalUnit.MONEY
    reads: ClassVar[Aspect] = _TAKEN | Aspect.FIGURES | Aspect.USAGE

    def count_share(self, share: NodeScores, nodes: Nodes) -> NodeScores:
        rest = nodes.figure(Figure.PRICE) * (1.0 - share)
        return np.where(_unused(nodes, self.unused_below), rest, 0.0)


@dataclass(frozen=True, slots=True)
class LostTime:
    """What interruptions of spot capacity cost a pod: how often, and what each of them loses."""

    interruptions_per_hour: float = 0.05
    lost_s: float = 600.0
    name: ClassVar[str] = "LostTime"
    unit: ClassVar[GoalUnit] = GoalUnit.TIME_LOST
    reads: ClassVar[Aspect] = Aspect.LABELS

    def count(self, request: PodRequest, nodes: Nodes) -> NodeScores:
        return np.where(nodes.spot(), self.interruptions_per_hour * self.lost_s, 0.0)


@dataclass(frozen=True, slots=True)
class Watts(OfNodeShare):
    """The part of the node's power that the pod takes."""

    name: ClassVar[str] = "Watts"
    unit: ClassVar[GoalUnit] = GoalUnit.POWER
    reads: ClassVar[Aspect] = _TAKEN | Aspect.FIGURES

    def count_share(self, share: NodeScores, nodes: Nodes) -> NodeScores:
        return nodes.figure(Figure.WATTS) * share


@dataclass(frozen=True, slots=True)
class UnusedWatts(OfNodeShare):
    """The rest of the power of a node that no other pod uses: what it draws for being awake."""

    #: The part of the node's power that it draws without pods.
    idle: float = 0.3
    unused_below: float = 0.1
    once_per_node: ClassVar[bool] = True
    name: ClassVar[str] = "UnusedWatts"
    unit: ClassVar[GoalUnit] = GoalUnit.POWER
    reads: ClassVar[Aspect] = _TAKEN | Aspect.FIGURES | Aspect.USAGE

    def __post_init__(self) -> None:
        if not 0 <= self.idle <= 1:
            raise ConfigError(f"idle is {self.idle}; write a part of the node's power, 0 to 1")

    def count_share(self, share: NodeScores, nodes: Nodes) -> NodeScores:
        rest = nodes.figure(Figure.WATTS) * (1.0 - share) * self.idle
        return np.where(_unused(nodes, self.unused_below), rest, 0.0)


@dataclass(frozen=True, slots=True)
class Carbon(OfNodeShare):
    """What generating that power emits, where the node is."""

    #: Power of the whole site for each watt of its nodes.
    pue: float = 1.2
    name: ClassVar[str] = "Carbon"
    unit: ClassVar[GoalUnit] = GoalUnit.CARBON
    reads: ClassVar[Aspect] = _TAKEN | Aspect.FIGURES

    def count_share(self, share: NodeScores, nodes: Nodes) -> NodeScores:
        kilowatts = nodes.figure(Figure.WATTS) * share / _W_PER_KW
        return kilowatts * nodes.figure(Figure.CARBON) * self.pue


GOALS: Mapping[str, type[Goal]] = {
    kind.name: kind
    for kind in (PodCost, UnusedCost, LostTime, Watts, UnusedWatts, Carbon, FetchTime)
}
