"""What is guaranteed to one queue and not lent to others (Volcano's `guarantee`).

A queue may use what its parent may use, less what is kept for its siblings, whether these use it or
not; as Volcano's plugins compute it (`realCapability`).
"""

from collections.abc import Callable, Mapping
from math import inf

from fairlead.queue.quotas.tree import QueueTree


class NotLent:
    def __init__(self, tree: QueueTree, totals: Callable[[], Mapping[str, float]]) -> None:
        """`totals`: what the cluster has for queues."""
        self._tree = tree
        self._totals = totals

    def __bool__(self) -> bool:
        return bool(self._tree.keeping)

    def most(self, key: str, resource: str) -> float:
        """That the queue may use because of what is kept for others; infinite if nothing is."""
        most = self._totals().get(resource, inf)
        for each in reversed(self._tree.lineage(key)):
            spec = self._tree.get(each)
            if spec is None:
                continue
            kept = self._tree.not_lent_below(spec.parent).get(resource, 0)
            own = dict(spec.not_lent).get(resource, 0)
            if kept > own:
                most = max(0.0, most - kept) + own
            most = min(most, dict(spec.limit).get(resource, inf))
        return most

    def is_kept_from(self, key: str, resource: str) -> int:
        """How much is kept for siblings of the queue, and of those above it."""
        found = 0
        for each in self._tree.lineage(key):
            spec = self._tree.get(each)
            if spec is not None:
                below = self._tree.not_lent_below(spec.parent).get(resource, 0)
                found += below - dict(spec.not_lent).get(resource, 0)
        return found
