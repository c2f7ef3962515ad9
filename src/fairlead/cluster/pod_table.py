"""The pods that are there as columns, so that counting those of a kind is a comparison of arrays.

One slot a pod. A label key has a column of numbers from the first question about it on; as long as
no rule asks about pods at all, the table is empty and costs nothing.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.interned import Interned
from fairlead.cluster.labels import labelled
from fairlead.model.pods import Pod
from fairlead.model.selectors import LabelSelector, PodTerm, Requirement

Ints = npt.NDArray[np.int64]
_ABSENT = -1
#: Label keys with a column; those that were asked about longest ago go first.
_MOST_KEYS = 128


class _Column:
    """One label of all pods: a number for each value, -1 without the label."""

    def __init__(self, slots: int) -> None:
        self.codes = np.full(slots, _ABSENT, dtype=np.int32)
        self.values: Interned[str] = Interned()

    def put(self, slot: int, value: str) -> None:
        self.codes[slot] = self.values.take(value)

    def take(self, slot: int) -> None:
        self.values.drop(self.codes.item(slot))
        self.codes[slot] = _ABSENT

    def fill(self, slots: Sequence[int], values: Sequence[str]) -> None:
        """The pods that have the label, of a column that is new, all at once."""
        self.codes[slots] = self.values.fill(values)

    def holds(self, line: Requirement) -> NodeMask:
        match line.operator:
            case "In":
                return self._is_in(line)
            case "NotIn":
                return ~self._is_in(line)
            case "Exists":
                there: NodeMask = self.codes != _ABSENT
                return there
            case "DoesNotExist":
                absent: NodeMask = self.codes == _ABSENT
                return absent
            case _:
                return np.zeros(len(self.codes), dtype=np.bool_)

    def _is_in(self, line: Requirement) -> NodeMask:
        code_of = self.values.code_of
        known = [code_of[value] for value in line.values if value in code_of]
        wanted = np.zeros(self.values.width + 1, dtype=np.bool_)  # code -1 reads the last
        wanted[known] = True
        found: NodeMask = wanted[self.codes]
        return found


class PodTable:
    """`PodIndex` calls it for every pod, after the first query."""

    def __init__(self) -> None:
        self._slot_of: dict[str, int] = {}
        self._pods: list[Pod | None] = []
        self._free: list[int] = []
        self._namespaces: Interned[str] = Interned()
        self._columns: dict[str, _Column] = {}
        #: In place of the column of a label that no pod has.
        self._nowhere = _Column(64)
        self.row = np.zeros(64, dtype=np.int64)
        self._there = np.zeros(64, dtype=np.bool_)
        self._leaving = np.zeros(64, dtype=np.bool_)
        self._priority = np.zeros(64, dtype=np.int64)
        self._namespace = np.zeros(64, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._slot_of)

    def fill(self, pods: Collection[tuple[int, Pod]]) -> None:
        """All that are there, at once, while the table is empty."""
        while len(self.row) < len(pods):
            self._grow()
        size = len(pods)
        self._pods = [pod for _, pod in pods]
        self._slot_of = {pod.uid: slot for slot, pod in enumerate(self._pods) if pod}
        self.row[:size] = [row for row, _ in pods]
        self._there[:size] = True
        self._leaving[:size] = [pod.deleting for _, pod in pods]
        self._priority[:size] = [pod.priority for _, pod in pods]
        for name, times in Counter(pod.namespace for _, pod in pods).items():
            self._namespaces.take(name, times)
        code_of = self._namespaces.code_of
        self._namespace[:size] = [code_of[pod.namespace] for _, pod in pods]

    def put(self, row: int, pod: Pod) -> None:
        slot = self._new_slot()
        self._slot_of[pod.uid] = slot
        self._pods[slot] = pod
        self.row[slot] = row
        self._there[slot] = True
        self._leaving[slot] = pod.deleting
        self._priority[slot] = pod.priority
        self._namespace[slot] = self._namespaces.take(pod.namespace)
        if self._columns:
            self._label(slot, pod)

    def take(self, uid: str) -> None:
        slot = self._slot_of.pop(uid, None)
        if slot is None:
            return
        pod, self._pods[slot] = self._pods[slot], None
        self._there[slot] = False
        self._free.append(slot)
        self._namespaces.drop(self._namespace.item(slot))
        for key in pod.labels if pod and self._columns else ():
            column = self._columns.get(key)
            if column is not None:
                column.take(slot)

    # -- asking ------------------------------------------------------------------------------

    def rows_meant(
        self,
        terms: Iterable[PodTerm],
        of_namespace: Mapping[str, Mapping[str, str]],
        *,
        leaving_too: bool,
        below: int | None,
    ) -> Ints:
        """The row of each pod that all the terms mean."""
        found = self._there if leaving_too else self._there & ~self._leaving
        if below is not None:
            found = found & (self._priority < below)
        for term in terms:
            found = found & self._means(term, of_namespace)
        rows: Ints = self.row[found]
        return rows

    def prepare(self, keys: Iterable[str]) -> int:
        """Makes the columns of all these keys in one walk over the pods; says over how many."""
        wanted = {key for key in keys if key not in self._columns}
        if not wanted:
            return 0
        labels = (pod.labels if pod else None for pod in self._pods)
        for key, (slots, values) in labelled(wanted, labels).items():
            self._columns[key] = column = _Column(len(self.row)) if slots else self._nowhere
            if slots:
                column.fill(slots, values)
        return len(self._slot_of)

    def trim(self) -> None:
        """Lets go of columns beyond the limit, the oldest first."""
        for key in list(self._columns)[: max(0, len(self._columns) - _MOST_KEYS)]:
            del self._columns[key]

    def _means(self, term: PodTerm, of_namespace: Mapping[str, Mapping[str, str]]) -> NodeMask:
        if term.selector is None:
            return np.zeros(len(self.row), dtype=np.bool_)
        inside = np.zeros(max(1, self._namespaces.width), dtype=np.bool_)
        inside[self._meant_namespaces(term, of_namespace)] = True
        found: NodeMask = inside[self._namespace]
        return found & self._matches(term.selector)

    def _meant_namespaces(
        self, term: PodTerm, of_namespace: Mapping[str, Mapping[str, str]]
    ) -> list[int]:
        code_of = self._namespaces.code_of
        found = [code_of[name] for name in term.namespaces if name in code_of]
        selector = term.namespace_selector
        if selector is not None:
            named = code_of.items()
            found += [code for name, code in named if selector.matches(of_namespace.get(name, {}))]
        return found

    def _matches(self, selector: LabelSelector) -> NodeMask:
        self.prepare(selector.keys)
        found = self._there
        for line in selector.lines:
            found = found & self._columns[line.key].holds(line)
        return found

    # -- storage -----------------------------------------------------------------------------

    def _label(self, slot: int, pod: Pod) -> None:
        for key, value in pod.labels.items():
            if key in self._columns:
                self._put(key, slot, value)

    def _put(self, key: str, slot: int, value: str) -> None:
        column = self._columns[key]
        if column is self._nowhere:
            column = self._columns[key] = _Column(len(self.row))
        column.put(slot, value)

    def _new_slot(self) -> int:
        if self._free:
            return self._free.pop()
        if len(self._pods) == len(self.row):
            self._grow()
        self._pods.append(None)
        return len(self._pods) - 1

    def _grow(self) -> None:
        extra = len(self.row)
        for name in ("row", "_there", "_leaving", "_priority", "_namespace"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        for column in {self._nowhere, *self._columns.values()}:
            tail = np.full(extra, _ABSENT, dtype=np.int32)
            column.codes = np.concatenate([column.codes, tail])


def keys_of(terms: Iterable[PodTerm]) -> Collection[str]:
    """The label keys that the terms ask about."""
    selectors = (term.selector for term in terms if term.selector is not None)
    return frozenset().union(*(selector.keys for selector in selectors))
