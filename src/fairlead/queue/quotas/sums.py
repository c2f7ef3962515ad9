"""Amounts by queue, with those of the queues beneath it."""

from collections import Counter
from collections.abc import Iterator, Mapping

from fairlead.model.machines import is_model
from fairlead.model.pods import Amounts
from fairlead.model.queues import GPUS_OF_MODEL
from fairlead.queue.quotas.tree import QueueTree

_NONE: Counter[str] = Counter()


class TreeSums:
    """Kept step by step. When queues have moved, their own amounts move with them."""

    def __init__(self, tree: QueueTree) -> None:
        self._shape = tree.shape
        self._own: dict[str, Counter[str]] = {}
        self._total: dict[str, Counter[str]] = {}
        #: Of each queue with amounts of its own: the queues whose totals they are part of.
        self._counted: dict[str, tuple[str, ...]] = {}
        self._version = -1

    def add(self, key: str, amounts: Amounts, sign: int) -> None:
        _add(self._own, key, amounts, sign)
        self._add_to_totals(key, amounts, sign)

    def _add_to_totals(self, key: str, amounts: Amounts, sign: int) -> None:
        lineage = self._counted.get(key)
        if lineage is None:
            lineage = self._counted[key] = self._shape.last_lineage(key)
        for each in lineage:
            _add(self._total, each, amounts, sign)
        if key not in self._own:
            del self._counted[key]

    def of(self, key: str) -> Counter[str]:
        """To be read, and not kept. Amounts that are 0 are missing."""
        if self._version != self._shape.version:
            self._follow()
        return self._total.get(key, _NONE)

    def own(self, key: str) -> Counter[str]:
        """Without the queues beneath."""
        return self._own.get(key, _NONE)

    def __iter__(self) -> Iterator[tuple[str, Counter[str]]]:
        """The own amounts of each queue that has any."""
        return iter(self._own.items())

    def _follow(self) -> None:
        moved = self._shape.moved_since(self._version)
        self._version = self._shape.version
        for key in [*self._own] if moved is None else moved:
            own = self._own.get(key)
            if own is not None and (lineage := self._shape.lineage(key)) != self._counted[key]:
                self._move(key, tuple(own.items()), lineage)

    def _move(self, key: str, own: Amounts, lineage: tuple[str, ...]) -> None:
        for each in self._counted[key]:
            _add(self._total, each, own, -1)
        for each in lineage:
            _add(self._total, each, own, +1)
        self._counted[key] = lineage


class LateSums(TreeSums):
    """For amounts that change often, and whose totals are seldom asked for: they are added then."""

    def __init__(self, tree: QueueTree) -> None:
        super().__init__(tree)
        #: Queues whose own amounts have changed, and what of them the totals have.
        self._late: set[str] = set()
        self._summed: dict[str, Counter[str]] = {}

    def add(self, key: str, amounts: Amounts, sign: int) -> None:
        _add(self._own, key, amounts, sign)
        self._late.add(key)

    def of(self, key: str) -> Counter[str]:
        if self._late:
            self._count()
        return super().of(key)

    def _count(self) -> None:
        late, self._late = self._late, set()
        for key in late:
            more = Counter(self._own.get(key, _NONE))
            more.subtract(self._summed.pop(key, _NONE))
            self._add_to_totals(key, tuple(more.items()), +1)
            if key in self._own:
                self._summed[key] = Counter(self._own[key])


def amount_of(sums: Mapping[str, int], name: str) -> int:
    """Of `fairlead.dev/gpu-H100` the GPUs of all products that are an H100."""
    if not name.startswith(GPUS_OF_MODEL):
        return sums.get(name, 0)
    model = name.removeprefix(GPUS_OF_MODEL)
    return sum(
        amount
        for other, amount in sums.items()
        if other.startswith(GPUS_OF_MODEL) and is_model(other.removeprefix(GPUS_OF_MODEL), model)
    )


def _add(all_sums: dict[str, Counter[str]], key: str, amounts: Amounts, sign: int) -> None:
    sums = all_sums.get(key)
    if sums is None:
        sums = all_sums[key] = Counter()
    get = sums.get
    for name, amount in amounts:
        total = get(name, 0) + sign * amount
        sums[name] = total
        if not total:
            del sums[name]
    if not sums:
        del all_sums[key]
