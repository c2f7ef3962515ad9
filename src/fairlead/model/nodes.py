"""A node, as far as placing pods on it is concerned."""

from collections.abc import Mapping
from dataclasses import field

from fairlead.model.gpus import Inventory
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Amounts, Taint

GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Image:
    """A container image that a node has already, under all of its names."""

    names: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    uid: str = ""
    version: str = ""
    allocatable: Amounts = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    #: Cordoned (`spec.unschedulable`).
    unschedulable: bool = False
    images: tuple[Image, ...] = ()
    #: What its kubelet declares to be able to do.
    features: tuple[str, ...] = ()
    #: Its GPUs one by one, where they are listed.
    inventory: Inventory | None = None
    #: Why what it says of its GPUs was not understood; its GPUs are counted then, no more.
    gpu_problem: str = ""
    #: GPUs that a device plugin hands out whole, so that they can be reserved; 0 if it does not.
    reservable: int = 0
    #: Its machine, as the cloud names it (`spec.providerID`).
    provider_id: str = ""
    #: Where its exporters are; "" without an InternalIP.
    address: str = ""

    @property
    def key(self) -> str:
        return self.name
