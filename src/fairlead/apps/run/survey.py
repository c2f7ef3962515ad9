"""What the reader must know of the cluster: nodes with GPUs, where they are, what they note."""

import asyncio

from fairlead.cluster.cluster import Cluster
from fairlead.model.nodes import GPU, Node
from fairlead.telemetry.sources import alnair

#: Looked at in one go: a fraction of a millisecond.
_NODES_AT_ONCE = 512

Found = tuple[dict[str, str], dict[str, dict[str, str]]]


class Survey:
    """Looks at all nodes, a few at a time so that decisions go on, and logs what is new."""

    def __init__(self, cluster: Cluster, *, notes: bool) -> None:
        """`notes`: also the annotations that a source reads."""
        self._cluster = cluster
        self._with_notes = notes
        self.nodes: dict[str, str] = {}
        self._noted: dict[str, dict[str, str]] = {}

    async def look(self) -> Found | None:
        """Addresses of all nodes with GPUs, and notes that changed; None if all is as before."""
        nodes: dict[str, str] = {}
        notes: dict[str, dict[str, str]] = {}
        there = list(self._cluster.columns.nodes)
        for start in range(0, len(there), _NODES_AT_ONCE):
            for node in there[start : start + _NODES_AT_ONCE]:
                if node is not None and _has_gpus(node):
                    nodes[node.name] = node.address
                    self._note(node, notes)
            await asyncio.sleep(0)
        if nodes == self.nodes and not notes:
            return None
        self.nodes = nodes
        self._noted = {name: told for name, told in self._noted.items() if name in nodes}
        return nodes, notes

    def _note(self, node: Node, notes: dict[str, dict[str, str]]) -> None:
        if not self._with_notes:
            return
        told = alnair.notes(node.annotations)
        if told != self._noted.get(node.name, {}):
            notes[node.name] = self._noted[node.name] = told


def _has_gpus(node: Node) -> bool:
    return node.inventory is not None or any(name == GPU for name, _ in node.allocatable)
