"""Free GPUs by node, now and when running jobs end."""

from bisect import insort
from collections.abc import Iterator, Sequence

#: GPUs of nodes, by the number of the node.
Parts = tuple[tuple[int, int], ...]


class GpuRoom:
    """Nodes with one number of GPUs each. A job is on one node if its GPUs are there."""

    def __init__(self, nodes: int, gpus_of_node: int) -> None:
        self.gpus_of_node = gpus_of_node
        self.free = [gpus_of_node] * nodes
        self.total = nodes * gpus_of_node
        self.total_free = self.total
        #: Running jobs by their end.
        self._running: list[tuple[float, int, Parts]] = []
        #: Counts starts and ends.
        self.changes = 0

    def start(self, number: int, parts: Parts, end_s: float) -> None:
        insort(self._running, (end_s, number, parts))
        self._take(parts, 1)

    def end(self, number: int, end_s: float) -> None:
        """`end_s` as it was given at the start."""
        at = next(at for at, each in self._from(end_s) if each[1] == number)
        self._take(self._running.pop(at)[2], -1)

    def _from(self, end_s: float) -> Iterator[tuple[int, tuple[float, int, Parts]]]:
        low, high = 0, len(self._running)
        while low < high:
            middle = (low + high) // 2
            if self._running[middle][0] < end_s:
                low = middle + 1
            else:
                high = middle
        return ((at, self._running[at]) for at in range(low, len(self._running)))

    def _take(self, parts: Parts, sign: int) -> None:
        for node, gpus in parts:
            self.free[node] -= sign * gpus
            self.total_free -= sign * gpus
        self.changes += 1

    # -- where a job fits --------------------------------------------------------------------

    def best_fit(self, gpus: int, free: Sequence[int] | None = None) -> Parts | None:
        """The node with the fewest free GPUs, or whole nodes and a rest; None: it fits nowhere."""
        left = self.free if free is None else free
        whole, rest = divmod(gpus, self.gpus_of_node) if gpus > self.gpus_of_node else (0, gpus)
        nodes = [at for at, each in enumerate(left) if each == self.gpus_of_node][:whole]
        if len(nodes) < whole:
            return None
        parts = tuple((node, self.gpus_of_node) for node in nodes)
        if not rest:
            return parts
        fitting = ((each, at) for at, each in enumerate(left) if each >= rest and at not in nodes)
        found = min(fitting, default=None)
        return None if found is None else (*parts, (found[1], rest))

    def first_room(self, gpus: int, now_s: float) -> tuple[float, list[int]] | None:
        """When so many GPUs are free together, and what is free then; None: never.

        Jobs that should have ended are taken to end now.
        """
        free, found_s = list(self.free), None
        for end_s, _, parts in self._running:
            if found_s is not None and end_s > found_s:
                break
            for node, count in parts:
                free[node] += count
            if found_s is None and self._fits(gpus, free, parts):
                found_s = max(end_s, now_s)
        return None if found_s is None else (found_s, free)

    def _fits(self, gpus: int, free: Sequence[int], changed: Parts) -> bool:
        """Whether it fits now that these nodes have more free GPUs."""
        if gpus <= self.gpus_of_node:
            return any(free[node] >= gpus for node, _ in changed)
        return free.count(self.gpus_of_node) >= gpus // self.gpus_of_node and bool(
            self.best_fit(gpus, free)
        )
