"""What scores that go by readings have in common: which GPUs the pod could get, and the best."""

import math

import numpy as np

from fairlead.cluster.arrays import NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.devices import GpuMask
from fairlead.cluster.nodes import Nodes
from fairlead.model.errors import ConfigError
from fairlead.model.nodes import GPU
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import GpuScores
from fairlead.plugins.gaps import Gaps, gaps

#: Which GPUs are free, and what they are doing.
READS = Aspect.LOAD | Aspect.DEVICES | Aspect.USAGE | Aspect.ALLOCATABLE


def of_best_gpus(points: GpuScores, request: PodRequest, nodes: Nodes) -> NodeScores:
    """The points of the GPUs that the pod would get if it got the best; 0 where it gets none."""
    found = gaps(request, nodes)
    if found is None:
        return np.zeros(len(nodes))
    some = np.where(could_get(found, nodes), points, 0.0)
    best = -np.sort(-some, axis=1)[:, : found.gpus]
    scores: NodeScores = best.sum(axis=1) / found.gpus
    return scores


def could_get(found: Gaps, nodes: Nodes) -> GpuMask:
    """The GPUs in question. Where they are only counted, any of them may be the free ones."""
    known = nodes.gpus.known()[:, None]
    if known.all():
        return found.usable
    slots = np.arange(found.usable.shape[1])
    some_free = np.any(found.usable, axis=1, keepdims=True)
    counted = (slots < nodes.allocatable(GPU)[:, None]) & some_free
    could: GpuMask = np.where(known, found.usable, counted)
    return could


def positive(plugin: object, *names: str) -> None:
    """Refuses options below nothing, and all of them at nothing."""
    values = [getattr(plugin, name) for name in names]
    if not (all(0 <= value < math.inf for value in values) and any(values)):
        options = ", ".join(names)
        raise ConfigError(f"write zero or more for each of {options}, and not zero for all of them")


def share(plugin: object, name: str) -> None:
    """Refuses an option that is no share of the time."""
    value = getattr(plugin, name)
    if not 0 < value <= 1:
        raise ConfigError(f"{name} is {value}; write a share of the time above 0 and up to 1")
