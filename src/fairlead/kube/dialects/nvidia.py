"""Whole cards and MIG slices as the NVIDIA device plugin counts them: `nvidia.com/gpu`."""

import re
from collections.abc import Mapping
from typing import ClassVar

from fairlead.kube.dialects.api import Amounts, Asking, Offering
from fairlead.model.errors import FairleadError
from fairlead.model.gpus import PLAIN, GpuAsk, Grant, Inventory
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod

_MIG = re.compile(r"nvidia\.com/mig-(?P<profile>\d+g\.\d+gb(?:\.me)?)")


class Nvidia:
    name: ClassVar[str] = PLAIN
    keys: ClassVar[tuple[str, ...]] = ()
    resources: ClassVar[tuple[str, ...]] = ()

    def ask(self, asking: Asking) -> GpuAsk | None:
        slices = {name for part in _parts(asking) for name in part if _MIG.fullmatch(name)}
        cards = most_at_once(asking, GPU)
        if cards and slices:
            raise FairleadError("it asks for whole GPUs and for MIG slices; ask for one kind")
        if cards:
            return GpuAsk(cards)
        if len(slices) > 1:
            raise FairleadError("it asks for MIG slices of several kinds; ask for one kind")
        for name in slices:
            found = _MIG.fullmatch(name)
            count = most_at_once(asking, name)
            if found and count:
                return GpuAsk(count, whole=False, milli=0, profile=found["profile"])
        return None

    def inventory(self, offering: Offering) -> Inventory | None:
        """Counts and labels name no single card."""
        return None

    def grant(self, annotations: Mapping[str, str]) -> Grant | None:
        return None

    def tell(self, pod: Pod, node: str, grant: Grant) -> Mapping[str, str]:
        return {}


def most_at_once(asking: Asking, resource: str) -> int:
    """As Kubernetes counts: containers together, or the greediest init container alone."""
    running = sum(part.get(resource, 0) for part in asking.containers)
    return max(running, *(part.get(resource, 0) for part in asking.init), 0)


def _parts(asking: Asking) -> tuple[Amounts, ...]:
    return (*asking.containers, *asking.init)
