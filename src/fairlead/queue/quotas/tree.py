"""The tree of queues, from objects that come and go in any order.

A queue whose parent is missing, that is part of a cycle, or that is too deep, is at the top for the
time being, with a problem: its units wait with that sentence, and what they hold stays counted.
"""

from collections import Counter
from collections.abc import Iterator, KeysView, Mapping

from fairlead.model.queues import GPUS_OF_MODEL, QueueSpec
from fairlead.queue.quotas.shape import TreeShape

_NONE: Counter[str] = Counter()


class QueueTree:
    """Queues by key. What follows from their parents is computed when it is asked for."""

    def __init__(self) -> None:
        self._specs: dict[str, QueueSpec] = {}
        self.shape = TreeShape(self._specs)
        #: Those that have budgets, that limit the GPUs of a model, that list namespaces.
        self.budgeted: set[str] = set()
        self.limiting_models: set[str] = set()
        self.listing_namespaces: set[str] = set()
        #: Those that keep a part of their guarantee while it is not used.
        self.keeping: set[str] = set()
        #: How many guarantees and limits list each resource.
        self.listed: Counter[str] = Counter()
        #: What the queues that name a parent are guaranteed together, and keep together.
        self._guaranteed: dict[str, Counter[str]] = {}
        self._not_lent: dict[str, Counter[str]] = {}
        #: Grows with each change.
        self.revision = 0
        self.problem = self.shape.problem
        self.children = self.shape.children
        self.lineage = self.shape.lineage
        self.last_lineage = self.shape.last_lineage
        self.moved_since = self.shape.moved_since

    def __bool__(self) -> bool:
        return bool(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def __contains__(self, key: str) -> bool:
        return key in self._specs

    def __iter__(self) -> Iterator[str]:
        """A parent before its children, and these by name."""
        return self.beneath("")

    def beneath(self, key: str) -> Iterator[str]:
        """In the same order, without itself."""
        left = self.children(key)[::-1]
        while left:
            next_ = left.pop()
            yield next_
            left += self.children(next_)[::-1]

    @property
    def version(self) -> int:
        """Grows when a lineage may have changed."""
        return self.shape.version

    def keys(self) -> KeysView[str]:
        """In no order."""
        return self._specs.keys()

    def get(self, key: str) -> QueueSpec | None:
        return self._specs.get(key)

    def put(self, spec: QueueSpec) -> bool:
        """Whether the shape of the tree may have changed."""
        old = self._specs.get(spec.key)
        self._specs[spec.key] = spec
        self._forget(spec.key)
        if spec.budgets:
            self.budgeted.add(spec.key)
        if any(name.startswith(GPUS_OF_MODEL) for name, _ in spec.limit):
            self.limiting_models.add(spec.key)
        if spec.namespaces is not None:
            self.listing_namespaces.add(spec.key)
        if spec.not_lent:
            self.keeping.add(spec.key)
        self._count(old, -1)
        self._count(spec, +1)
        return self.shape.put(old, spec)

    def remove(self, key: str) -> QueueSpec | None:
        old = self._specs.pop(key, None)
        self._forget(key)
        self._count(old, -1)
        if old is not None:
            self.shape.put(old, None)
        return old

    def _forget(self, key: str) -> None:
        for keys in (
            self.budgeted,
            self.limiting_models,
            self.listing_namespaces,
            self.keeping,
        ):
            keys.discard(key)

    def _count(self, spec: QueueSpec | None, sign: int) -> None:
        if spec is None:
            return
        self.revision += 1
        names = (name for name, _ in (*spec.guaranteed, *spec.limit))
        _add(self.listed, dict.fromkeys(names, sign))
        for sums, amounts in (self._guaranteed, spec.guaranteed), (self._not_lent, spec.not_lent):
            if amounts:
                below = sums.setdefault(spec.parent, Counter())
                _add(below, {name: sign * amount for name, amount in amounts})
                if not below:
                    del sums[spec.parent]

    def not_lent_below(self, key: str) -> Mapping[str, int]:
        """What the queues that name this parent keep together. To be read only."""
        return self._not_lent.get(key, _NONE)

    def guaranteed_below(self, key: str) -> Mapping[str, int]:
        """What the queues that name this parent are guaranteed together. To be read only."""
        return self._guaranteed.get(key, _NONE)

    def problem_with(self, spec: QueueSpec) -> str:
        """The problem that a queue would have in this tree. Only those above it are looked at."""
        near, above = {spec.key: spec}, self._specs.get(spec.parent)
        while above is not None and above.key not in near:
            near[above.key] = above
            above = self._specs.get(above.parent)
        shape = TreeShape(near)
        for each in near.values():
            shape.put(None, each)
        return shape.problem(spec.key)

    def level(self, key: str) -> int:
        """How many queues are above it."""
        return len(self.lineage(key)) - 1


def _add(sums: Counter[str], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total = sums.get(name, 0) + amount
        if total:
            sums[name] = total
        else:
            sums.pop(name, None)
