"""nodeSelector and required node affinity."""

from dataclasses import dataclass
from typing import ClassVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.node_terms import any_term
from fairlead.cluster.nodes import Nodes
from fairlead.model.pods import PodRequest


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    name: ClassVar[str] = "NodeAffinity"
    reads: ClassVar[Aspect] = Aspect.LABELS
    refusal: ClassVar[str] = "node(s) didn't match Pod's node affinity/selector"
    curable: ClassVar[bool] = False

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        matched = nodes.all()
        for key, value in request.node_selector:
            matched &= nodes.label_in(key, (value,))
        if request.node_terms is not None:
            matched &= any_term(request.node_terms, nodes)
        return matched
