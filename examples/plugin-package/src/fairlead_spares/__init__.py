"""A filter that keeps some GPUs of every node free."""

from dataclasses import dataclass
from typing import ClassVar

from fairlead.plugin import GPU, Aspect, NodeMask, Nodes, PodRequest


@dataclass(frozen=True, slots=True)
class KeepsSpares:
    """Rejects nodes that would have fewer free GPUs than `spares`."""

    spares: int = 1
    name: ClassVar[str] = "KeepsSpares"
    reads: ClassVar[Aspect] = Aspect.USAGE | Aspect.ALLOCATABLE
    refusal: ClassVar[str] = "node(s) would have no spare GPU"
    resolvable: ClassVar[bool] = True

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        need = request.amount(GPU)
        if not need:
            return nodes.all()
        return nodes.free(GPU) - need >= self.spares

    def detail(self, request: PodRequest, node: Nodes) -> str:
        """The amounts, for `fairlead explain`."""
        free = node.free_here(GPU)
        return f"requested {request.amount(GPU)} {GPU}, {free} free, {self.spares} to spare"
