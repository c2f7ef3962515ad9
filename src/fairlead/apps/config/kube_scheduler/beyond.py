"""Plugins that a KubeSchedulerConfiguration may name beside kube-scheduler's own: Fairlead's, and
those of older GPU schedulers that Fairlead has an answer to.
"""

from collections.abc import Mapping

from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.gpus import GpuPolicy
from fairlead.plugins.gpu_fit import GpuFit
from fairlead.plugins.registry import SCORES
from fairlead.plugins.scheduling_map import SchedulingMap


@dataclass(frozen=True, slots=True)
class Successor:
    """What becomes of another scheduler's plugin, by extension point."""

    filter: str = ""
    score: str = ""
    gpus: GpuPolicy = GpuPolicy.PACK

    @property
    def points(self) -> dict[str, str]:
        named = {"filter": self.filter, "score": self.score}
        return {point: name for point, name in named.items() if name}


#: By the name that their files have.
SUCCESSORS: Mapping[str, Successor] = {
    "alnaircostsaving": Successor("GpuFit", "GpuPacking"),
    "alnairhighperformance": Successor("GpuFit", "Spread", GpuPolicy.SPREAD),
    "utilsched": Successor(score="UtilSched"),
}


def points_of_ours(kube: frozenset[str]) -> dict[str, frozenset[str]]:
    """Where each plugin works that kube-scheduler, which has these, does not bring along."""
    filters = {kind.name for kind in (GpuFit, SchedulingMap)}
    scores = {kind.name for kind in SCORES} - kube
    found = {name: frozenset({"filter"}) for name in filters}
    found |= {name: frozenset({"score"}) for name in scores}
    found |= {name: frozenset(each.points) for name, each in SUCCESSORS.items()}
    return found


def replaced(name: str, point: str) -> str:
    """The plugin of ours that stands for this one there; the same name if nothing else does."""
    successor = SUCCESSORS.get(name)
    return successor.points.get(point, name) if successor else name


def gpu_policy_of(names: frozenset[str]) -> GpuPolicy:
    """How shares find their GPU in a profile with these plugins."""
    spread = any(SUCCESSORS[name].gpus is GpuPolicy.SPREAD for name in names & SUCCESSORS.keys())
    return GpuPolicy.SPREAD if spread else GpuPolicy.PACK
