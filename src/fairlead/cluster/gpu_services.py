"""Service classes on GPUs: which of them have pods on each GPU, and which GPUs are too busy.

A GPU that was measured to be too busy is used again when it is clearly quieter: readings that go
up and down around a level change nothing. Pods that came after the last reading count with what
they say of their load, until they can be seen in readings. A GPU without readings, or with old
ones, is not too busy: what is not known keeps no pod away.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from math import inf
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import RowPick, Rows
from fairlead.cluster.load import FRESH_S, STALE_S, Load
from fairlead.model.gpus import Grant
from fairlead.model.holders import Holder
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.loads import UNKNOWN, expected_busy
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.service_classes import GpuTerms
from fairlead.model.sizes import remembered

GpuBits = npt.NDArray[np.int64]  # (rows, slots)
GpuMask = npt.NDArray[np.bool_]  # (rows, slots)
_Column = TypeVar("_Column", GpuBits, GpuMask)

#: A pod is expected to be seen in readings so long after it came.
_SETTLES_S = 2 * FRESH_S
#: Rows that are marked again with one event.
_AT_ONCE = 1000
#: Holders that left, beyond those there are, that are remembered until the next readings.
_FEW = 64
#: A GPU is quiet again when it is below the level by this much, or a quarter of the level.
_MARGIN = 0.1


@dataclass(frozen=True, slots=True)
class _Holder:
    bit: int
    #: When it came, by the clock of readings.
    came_s: float
    #: How busy it is expected to keep each GPU, in thousandths of the time.
    busy_milli: int


class GpuServices:
    """Plain storage. `Devices` keeps it in step with what pods hold; `GpuRows` reads it."""

    def __init__(self, terms: Mapping[str, GpuTerms], class_of: Callable[[Pod], str]) -> None:
        """`class_of` has the name of the class of a pod; empty: it has none."""
        self.terms, self._class_of = terms, class_of
        #: Pods of no class with terms about GPUs have a bit, too.
        self._bits = {name: 1 << place for place, name in enumerate((*terms, ""))}
        levels = {level for each in terms.values() for level in (each.quiet, each.neighbours)}
        #: Whether some class matters to pods of others.
        self._keeps_away = any(each.neighbours is not None for each in terms.values())
        #: GPUs that are too busy by readings alone, for each level.
        self._latched: dict[float, GpuMask] = {
            level: np.zeros((0, 0), np.bool_) for level in sorted(filter(None, levels))
        }
        #: Classes with pods on each GPU, as bits, and the load of pods that came just now.
        self._on: GpuBits = np.zeros((0, 0), np.int64)
        self._joined_milli: GpuBits = np.zeros((0, 0), np.int64)
        self._holders: dict[tuple[int, Holder], _Holder] = {}
        #: Of a holder whose pod is not known.
        self._unknown = _Holder(self._bits[""], -inf, 0)
        #: Rows with pods that came just now, those that were marked longest ago first.
        self._new_rows: dict[int, None] = {}
        #: Holders that left since readings were taken: one that a trial puts back is not new.
        self._left: dict[tuple[int, Holder], _Holder] = {}

    # -- requests ----------------------------------------------------------------------------

    def request(self, pod: Pod) -> PodRequest:
        """Its request, with its class where that makes a difference."""
        ask = pod.request.gpu_request
        if ask is None or ask.sliced or ask.map_slot is not None:
            return pod.request
        name = self._name_of(pod)
        if not name and not self._keeps_away:
            return pod.request
        if ask.whole and (not name or self.terms[name].quiet is None):
            return pod.request
        return _of_class(pod.request, name)

    def _name_of(self, pod: Pod) -> str:
        """Classes without terms about GPUs are all one."""
        name = self._class_of(pod)
        return name if name in self.terms else ""

    # -- holders -----------------------------------------------------------------------------

    def came(self, row: int, holder: Holder, pod: Pod, now_s: float) -> None:
        known = self._left.pop((row, holder), None)
        if known is None:
            bit = self._bits[self._name_of(pod)]
            known = _Holder(bit, now_s, round(1000 * expected_busy(pod.load or UNKNOWN)))
        self._holders[row, holder] = known

    def left(self, row: int, holder: Holder) -> None:
        known = self._holders.pop((row, holder), None)
        if known is not None:
            self._left[row, holder] = known
            if len(self._left) > 4 * len(self._holders) + _FEW:  # no readings are taken
                self._left.clear()

    def clear_row(self, row: int, holders: Iterable[Holder]) -> None:
        for holder in tuple(holders):
            self._holders.pop((row, holder), None)
        self._new_rows.pop(row, None)
        if row < len(self._on):
            self._on[row] = self._joined_milli[row] = 0

    def mark(
        self, row: int, slot_of: Mapping[str, int], grants: Mapping[Holder, Grant], load: Load
    ) -> bool:
        """What the GPUs of the row have on them now; whether other pods are new than before."""
        self._fit((max(row + 1, len(self._on)), max((*slot_of.values(), -1)) + 1))
        before = self._joined_milli[row].tolist()
        self._on[row] = self._joined_milli[row] = 0
        for holder, grant in grants.items():
            known = self._holders.get((row, holder), self._unknown)
            is_new = known.came_s > load.now_s - _SETTLES_S
            if is_new:
                self._new_rows[row] = None
            for use in grant.uses:
                slot = slot_of.get(use.uuid)
                if slot is not None:
                    self._on[row, slot] |= known.bit
                    self._joined_milli[row, slot] += known.busy_milli if is_new else 0
        return bool(before != self._joined_milli[row].tolist())

    def _fit(self, least: tuple[int, ...]) -> None:
        """At least so many rows and slots."""
        shape = tuple(map(max, self._on.shape, least))
        if self._on.shape != shape:
            self._on, joined = _fitted(self._on, shape), self._joined_milli
            self._joined_milli = _fitted(joined, shape)
            self._latched = {level: _fitted(m, shape) for level, m in self._latched.items()}

    # -- readings ----------------------------------------------------------------------------

    def new_rows(self) -> list[int]:
        """Rows with pods that came just now, some at a time; to be marked again."""
        found = list(islice(self._new_rows, _AT_ONCE))
        for row in found:
            del self._new_rows[row]
        return found

    def renew(self, rows: Rows, load: Load) -> list[int]:
        """Follows new readings of these rows, and returns those where a GPU is too busy now, or
        is no longer.
        """
        self._fit(load.busy.shape)
        self._left.clear()
        peak, measured = load.peak[rows], _measured(load, rows)
        changed = np.zeros(len(rows), np.bool_)
        for level, mask in self._latched.items():
            before = mask[rows]
            quiet_again = level - min(_MARGIN, level / 4)
            now = measured & ((peak >= level) | (before & (peak >= quiet_again)))
            changed |= (now != before).any(axis=1)
            mask[rows] = now
        found: list[int] = rows[changed].tolist()
        return found

    def too_busy(self, level: float, pick: RowPick, load: Load) -> GpuMask:
        """GPUs at or above the level, by readings and by pods that came since."""
        self._fit(load.busy.shape)
        with_new: GpuMask = load.peak[pick] + self._joined_milli[pick] / 1000 >= level
        found: GpuMask = _measured(load, pick) & (self._latched[level][pick] | with_new)
        return found

    # -- what they allow ---------------------------------------------------------------------

    def quiet(self, name: str, pick: RowPick, load: Load) -> GpuMask:
        """GPUs that are quiet enough for pods of the class."""
        level = self.terms[name].quiet if name in self.terms else None
        if level is None:
            return np.ones_like(load.busy[pick], dtype=np.bool_)
        return ~self.too_busy(level, pick, load)

    def open_to(self, name: str, pick: RowPick, load: Load) -> GpuMask:
        """GPUs without pods of other classes that let no pod of this one join them now, and that
        this one may join.
        """
        self._fit(load.busy.shape)
        found: GpuMask = np.ones_like(load.busy[pick], dtype=np.bool_)
        if self._is_alone(name):
            found = (self._on[pick] & ~self._bits[name]) == 0
        for other, terms in self.terms.items():
            if terms.neighbours is None or other == name:
                continue
            guarded: GpuMask = (self._on[pick] & self._bits[other]) > 0
            if terms.neighbours:
                guarded &= self.too_busy(terms.neighbours, pick, load)
            found &= ~guarded
        return found

    def _is_alone(self, name: str) -> bool:
        """Whether its pods share GPUs with pods of the class only."""
        return name in self.terms and self.terms[name].is_alone

    def guards(self, slot: int, name: str, pick: RowPick) -> str:
        """What is on a GPU of the first row that keeps pods of the class away, in words."""
        on = int(self._on[pick][0, slot])
        found = ["other service classes"] if self._is_alone(name) else []
        for other, terms in self.terms.items():
            if terms.neighbours is not None and other != name and on & self._bits[other]:
                below = f" while it is {terms.neighbours:.0%} busy or more"
                below *= bool(terms.neighbours)
                found.append(f"service class {other}, which others do not join{below}")
        return " and ".join(found)

    def with_pods_of(self, name: str, pick: RowPick, load: Load) -> GpuMask:
        """GPUs that pods of the class have."""
        self._fit(load.busy.shape)
        found: GpuMask = (self._on[pick] & self._bits.get(name, 0)) > 0
        return found


def _measured(load: Load, pick: RowPick) -> GpuMask:
    """GPUs whose utilisation was read, and not too long ago."""
    found: GpuMask = load.taken_s[pick] > load.now_s - STALE_S
    return found


def _fitted(array: _Column, shape: tuple[int, ...]) -> _Column:
    wider = np.zeros(shape, dtype=array.dtype)
    rows, slots = array.shape
    wider[:rows, :slots] = array
    return wider


@remembered(8 << 20)
def _of_class(request: PodRequest, name: str) -> PodRequest:
    assert request.gpu_request is not None
    return replace(request, gpu_request=replace(request.gpu_request, service=name))
