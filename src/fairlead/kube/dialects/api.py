"""What a dialect is: one way to ask for GPUs, to list them, and to say who got which.

Each dialect is one file. It reads what a pod asks for, reads the cards of a node, reads what a
bound pod was given, and writes what the device plugin on the node must be told. Nothing here
decides anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from fairlead.model.gpus import GpuAsk, Grant, Inventory
from fairlead.model.pods import Pod

Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Asking:
    """What a pod says: resources by container, and its annotations."""

    #: What each container asks for, in order; sidecars among them.
    containers: Sequence[Amounts] = ()
    #: What each init container asks for that ends before the others start.
    init: Sequence[Amounts] = ()
    names: Sequence[str] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Offering:
    """What a node says about itself."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    allocatable: Amounts


class Dialect(Protocol):
    name: ClassVar[str]
    #: Annotations of pods that it reads, those of requests and of assignments.
    keys: ClassVar[tuple[str, ...]]
    #: Resources that are its own and that no node need list as allocatable.
    resources: ClassVar[tuple[str, ...]]

    def ask(self, asking: Asking) -> GpuAsk | None:
        """What the pod asks for in this dialect; None if it does not speak it.

        Raises FairleadError with a sentence for its author if it makes no sense.
        """
        ...

    def inventory(self, offering: Offering) -> Inventory | None:
        """The node's cards, if it lists them in this dialect."""
        ...

    def grant(self, annotations: Mapping[str, str]) -> Grant | None:
        """What a bound pod was given, as its annotations say."""
        ...

    def tell(self, pod: Pod, node: str, grant: Grant) -> Mapping[str, str]:
        """The annotations that its device plugin reads."""
        ...
