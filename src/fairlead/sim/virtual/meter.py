"""How the GPUs of a simulated cluster are used over time."""

from collections.abc import Iterable

from fairlead.model.nodes import GPU, Node


class GpuMeter:
    """Sums over time."""

    def __init__(self, start_s: float = 0.0) -> None:
        self.gpus_of_node: dict[str, int] = {}
        self.total_gpus = 0
        self.used_gpus = 0.0
        #: GPU seconds that pods held.
        self.used_gpu_s = 0.0
        #: Node seconds on nodes with GPUs of which some, and not all, were held.
        self.partly_used_node_s = 0.0
        self.last_s = start_s
        self._used: dict[str, float] = {}
        self._partly_used = 0

    def add_node(self, node: Node, published: int = 0) -> None:
        """`published`: its GPUs that a driver publishes for claims."""
        counted = dict(node.allocatable).get(GPU, 0)
        gpus = max(published, len(node.inventory.gpus) if node.inventory else counted)
        self.total_gpus += gpus - self.gpus_of_node.get(node.name, 0)
        self.gpus_of_node[node.name] = gpus

    def started(self, held: Iterable[tuple[str, float]]) -> None:
        """GPUs that the pods of a job hold from now on, with their nodes."""
        for node, gpus in held:
            self._change(node, gpus)

    def stopped(self, held: Iterable[tuple[str, float]]) -> None:
        for node, gpus in held:
            self._change(node, -gpus)

    def _change(self, node: str, gpus: float) -> None:
        before = self._used.get(node, 0.0)
        after = self._used[node] = max(0.0, round(before + gpus, 6))
        self.used_gpus += gpus
        has = self.gpus_of_node.get(node, 0)
        self._partly_used += (0 < after < has) - (0 < before < has)

    def advance(self, now_s: float) -> None:
        """Time passes."""
        passed = now_s - self.last_s
        self.used_gpu_s += passed * self.used_gpus
        self.partly_used_node_s += passed * self._partly_used
        self.last_s = now_s
