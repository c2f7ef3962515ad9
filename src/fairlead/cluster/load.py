"""What the GPUs are really doing: columns of (row, slot), beside what the ledger says they hold.

Readings only ever advise. One that is missing, absurd or old counts for nothing: what a rule sees
fades from what was read to a middling value, and a GPU that is not measured looks middling too.
"""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import RowPick, Rows, sealed
from fairlead.model.loads import MIDDLING
from fairlead.model.readings import GpuReading

GpuShares = npt.NDArray[np.float64]  # (rows, slots) 0 to 1
NodeGpus = npt.NDArray[np.bool_]  # (rows, slots)
Floats = npt.NDArray[np.float64]  # (some,)
Place = tuple[int, int]  # row and slot of a GPU

#: A reading counts in full for so long, then less and less, and at last for nothing.
FRESH_S = 60.0
STALE_S = 300.0

#: Sums over readings forget half of what they knew in this time.
_HALF_LIFE_S = 60.0
#: Differences below this are noise, and no rule is called again for them.
_STEP = 0.05
_STEP_MIB = 100.0

_FILLERS = {
    "heard_s": -math.inf, "memory_busy": math.nan, "memory_used": math.nan, "power": math.nan,
    "cyclic": 0.0, "taken_s": -math.inf, "mean": 0.0, "peak": 0.0,
    "busy": MIDDLING, "busiest": MIDDLING, "fresh": 0.0,
}  # fmt: skip


class Load:
    """Plain storage. `Cluster` keeps it in step with the book of GPUs; rules read `LoadRows`."""

    def __init__(self, rows: int, slots: int) -> None:
        for name, filler in _FILLERS.items():
            setattr(self, name, np.full((rows, slots), filler))
        #: When it was last brought up to date.
        self.now_s = 0.0
        #: Rows with new readings since.
        self._touched: set[int] = set()

    #: When it was measured, and what; NaN where it was not.
    heard_s: GpuShares
    memory_busy: GpuShares
    memory_used: GpuShares  # MiB
    power: GpuShares  # watts
    cyclic: GpuShares  # 1 where it is
    #: When utilisation was read last, and what came out on the whole and at the busiest.
    taken_s: GpuShares
    mean: GpuShares
    peak: GpuShares
    #: The same as rules see it.
    busy: GpuShares
    busiest: GpuShares
    #: 1 where utilisation was read just now.
    fresh: GpuShares

    def fit(self, rows: int, slots: int) -> None:
        """As large as the book of GPUs."""
        old_rows, old_slots = self.busy.shape
        if (rows, slots) == (old_rows, old_slots):
            return
        for name, filler in _FILLERS.items():
            wider = np.full((rows, slots), filler)
            wider[:old_rows, :old_slots] = getattr(self, name)
            setattr(self, name, wider)

    def clear_row(self, row: int) -> None:
        for name, filler in _FILLERS.items():
            getattr(self, name)[row] = filler

    def put(self, told: Mapping[Place, tuple[GpuReading, float]]) -> None:
        """Readings, and when they were taken. One older than what is known changes nothing."""
        if not told:
            return
        rows, slots = np.array(list(told), dtype=np.intp).T
        readings, times = zip(*told.values(), strict=True)
        taken_s = np.array(times)
        new = taken_s > self.heard_s[rows, slots]
        where = rows[new], slots[new]
        news = [reading for reading, is_new in zip(readings, new.tolist(), strict=True) if is_new]
        self.heard_s[where] = taken_s[new]
        self.power[where] = _amounts([reading.power_w for reading in news])
        busy = _shares([reading.memory_busy for reading in news])
        used = _amounts([reading.memory_used_mib for reading in news])
        self._note("memory_busy", where, np.round(busy / _STEP) * _STEP)
        self._note("memory_used", where, np.round(used / _STEP_MIB) * _STEP_MIB)
        self._note("cyclic", where, np.array([bool(reading.cyclic) for reading in news], float))
        self._average(where, _shares([reading.utilisation for reading in news]), taken_s[new])

    def _note(self, name: str, where: tuple[Rows, Rows], values: Floats) -> None:
        column: GpuShares = getattr(self, name)
        before = column[where]
        differs = (values != before) & ~(np.isnan(values) & np.isnan(before))
        column[where] = values
        self._touched.update(where[0][differs].tolist())

    def _average(self, where: tuple[Rows, Rows], values: Floats, taken_s: Floats) -> None:
        told = ~np.isnan(values)
        at, now = (where[0][told], where[1][told]), values[told]
        kept = 0.5 ** ((taken_s[told] - self.taken_s[at]) / _HALF_LIFE_S)
        self.taken_s[at] = taken_s[told]
        self.mean[at] = now + kept * (self.mean[at] - now)
        self.peak[at] = np.maximum(now, now + kept * (self.peak[at] - now))

    def renew(self, now_s: float, rows: Rows) -> list[int]:
        """Brings what rules see of these rows up to date, and returns those where it differs."""
        self.now_s = now_s
        trust = _trust(now_s - self.taken_s[rows])
        self._forget(rows, now_s - self.heard_s[rows] >= STALE_S)
        changed = np.isin(rows, list(self._touched))
        self._touched.difference_update(rows.tolist())
        for name, told in (
            ("busy", _faded(self.mean[rows], trust)),
            ("busiest", _faded(self.peak[rows], trust)),
            ("fresh", (trust >= 1.0).astype(np.float64)),
        ):
            seen: GpuShares = getattr(self, name)
            changed |= (told != seen[rows]).any(axis=1)
            seen[rows] = told
        found: list[int] = rows[changed].tolist()
        return found

    def measured_rows(self) -> Rows:
        """Those that were ever measured."""
        return np.flatnonzero(np.isfinite(self.heard_s).any(axis=1))

    def _forget(self, rows: Rows, stale: NodeGpus) -> None:
        """Slots of these rows."""
        known: NodeGpus = ~np.isnan(self.memory_busy[rows]) | ~np.isnan(self.memory_used[rows])
        known |= self.cyclic[rows] > 0
        self._touched.update(rows[(known & stale).any(axis=1)].tolist())
        row, slot = stale.nonzero()
        for name in ("memory_busy", "memory_used", "power", "cyclic"):
            getattr(self, name)[rows[row], slot] = _FILLERS[name]


class LoadRows:
    """The same of some nodes as a rule sees it, read-only."""

    __slots__ = ("_load", "_pick")

    def __init__(self, load: Load, pick: RowPick) -> None:
        self._load = load
        self._pick = pick

    def busy(self) -> GpuShares:
        """How busy each GPU is on the whole; middling where it is not known."""
        return sealed(self._load.busy[self._pick])

    def busiest(self) -> GpuShares:
        """The same at its busiest."""
        return sealed(self._load.busiest[self._pick])

    def fresh(self) -> NodeGpus:
        """Where utilisation was read within the last minute."""
        fresh: NodeGpus = self._load.fresh[self._pick] > 0
        return fresh

    def utilisation(self) -> GpuShares:
        """As measured, on the whole, however long ago; NaN where it never was."""
        load, pick = self._load, self._pick
        found: GpuShares = np.where(np.isinf(load.taken_s[pick]), math.nan, load.mean[pick])
        return found

    def age_s(self) -> GpuShares:
        """How old what was read last is; endless where nothing was."""
        age: GpuShares = self._load.now_s - self._load.heard_s[self._pick]
        return age

    def memory_used(self) -> GpuShares:
        """MiB in use, as last read; NaN if it is not known."""
        return sealed(self._load.memory_used[self._pick])

    def memory_busy(self) -> GpuShares:
        """Share of the time in which memory was read or written; NaN if it is not known."""
        return sealed(self._load.memory_busy[self._pick])

    def cyclic(self) -> GpuShares:
        """1 where the load rises and falls in a rhythm."""
        return sealed(self._load.cyclic[self._pick])


def slot_of(gpu: str, index: int | None, known: Mapping[str, int], slots: int) -> int | None:
    """By uuid or index; if the GPUs of a node are not listed, its index is its slot."""
    if known:
        return known.get(gpu)
    place = int(gpu) if gpu.isdecimal() else index
    return place if place is not None and 0 <= place < slots else None


def _trust(age_s: GpuShares) -> GpuShares:
    trust: GpuShares = np.clip((STALE_S - age_s) / (STALE_S - FRESH_S), 0.0, 1.0)
    return trust


def _faded(measured: GpuShares, trust: GpuShares) -> GpuShares:
    """What was measured, as far as it can be trusted, in steps."""
    told: GpuShares = np.round((MIDDLING + trust * (measured - MIDDLING)) / _STEP) * _STEP
    return told


def _shares(values: list[float | None]) -> Floats:
    """NaN for what is no share, or absent."""
    found = np.array(values, dtype=np.float64)
    return np.where((found >= 0.0) & (found <= 1.0), found, math.nan)


def _amounts(values: list[float | None]) -> Floats:
    found = np.array(values, dtype=np.float64)
    return np.where((found >= 0.0) & (found < math.inf), found, math.nan)
