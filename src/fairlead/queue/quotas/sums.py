"""Amounts by queue, with those of the queues beneath it."""

from collections import Counter
from collections.abc import Iterator, Mapping

from fairlead.model.machines import is_model
from fairlead.model.pods import Amounts
from fairlead.model.queues import GPUS_OF_MODEL
from fairlead.queue.quotas.tree import QueueTree

_NONE: Counter[str] = Counter()


class TreeSums:
    """Kept step by step; computed again from the queues' own amounts when the tree has changed."""

    def __init__(self, tree: QueueTree) -> None:
        self._tree = tree
        self._own: dict[str, Counter[str]] = {}
        self._total: dict[str, Counter[str]] = {}
        self._version = tree.version

    def add(self, key: str, amounts: Amounts, sign: int) -> None:
        _add(self._own, key, amounts, sign)
        if self._version == self._tree.version:
            for each in self._tree.lineage(key):
                _add(self._total, each, amounts, sign)

    def of(self, key: str) -> Counter[str]:
        """To be read, and not kept. Amounts that are 0 are missing."""
        if self._version != self._tree.version:
            self._sum_up()
        return self._total.get(key, _NONE)

    def own(self, key: str) -> Counter[str]:
        """Without the queues beneath."""
        return self._own.get(key, _NONE)

    def __iter__(self) -> Iterator[tuple[str, Counter[str]]]:
        """The own amounts of each queue that has any."""
        return iter(self._own.items())

    def _sum_up(self) -> None:
        self._version = self._tree.version
        self._total = {}
        for key, own in self._own.items():
            amounts = tuple(own.items())
            for each in self._tree.lineage(key):
                _add(self._total, each, amounts, +1)


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
        if total:
            sums[name] = total
        elif name in sums:
            del sums[name]
    if not sums:
        del all_sums[key]
