"""How much of the free GPUs is of no use to a typical pod, as the FGD paper (ATC'23) counts it."""

from collections import Counter
from collections.abc import Iterable

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.demand import shape_of
from fairlead.model.gpus import WHOLE
from fairlead.model.nodes import Node
from fairlead.model.prices import Basis
from fairlead.sim.virtual.jobs import SimJob


def basis_of(nodes: Iterable[Node], jobs: Iterable[SimJob]) -> Basis:
    """All pods of a trace, as if the cluster had seen them before: they are the typical ones."""
    pods = Counter(
        shape for job in jobs for pod in job.pods if (shape := shape_of(pod.request)) is not None
    )
    listed = (node.inventory for node in nodes if node.inventory)
    gpus = Counter(gpu.model for inventory in listed for gpu in inventory.gpus)
    return Basis(tuple(pods.items()), tuple(gpus.items()))


class FragmentSamples:
    """Looks at most once in so many seconds of virtual time."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._next_s = 0.0
        self._found: list[float] = []

    def look(self, cluster: Cluster, total_gpus: int, now_s: float) -> None:
        if now_s < self._next_s or not total_gpus:
            return
        self._next_s = now_s + self._every_s
        fragments = cluster.nodes.fragments_milli()
        if fragments is not None:
            self._found.append(float(fragments.sum()) / (WHOLE * total_gpus))

    @property
    def mean(self) -> float | None:
        """As a part of all GPUs; None if it was not looked at."""
        return sum(self._found) / len(self._found) if self._found else None
