"""What the cards are really doing: columns of (row, slot), beside what the ledger says they hold.

Readings only ever advise. One that is missing, absurd or old counts for nothing: what a rule sees
fades from what was read to a middling value, and a card that nobody measures looks middling too.
"""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import RowPick, Rows, sealed
from fairlead.model.readings import CardReading

CardShares = npt.NDArray[np.float64]  # (rows, slots) 0 to 1

#: A reading counts in full for so long, then less and less, and at last for nothing.
FRESH_S = 60.0
STALE_S = 300.0
#: How busy a card is taken to be of which nobody knows anything.
MIDDLING = 0.5

#: Sums over readings forget half of what they knew in this time.
_HALF_LIFE_S = 60.0
#: Differences below this are noise, and nobody is asked again for them.
_STEP = 0.05

_FILLERS = {
    "heard_s": -math.inf, "memory_busy": math.nan, "memory_used": math.nan, "power": math.nan,
    "cyclic": 0.0, "taken_s": -math.inf, "mean": 0.0, "peak": 0.0,
    "busy": MIDDLING, "busiest": MIDDLING, "trust": 0.0,
}  # fmt: skip


class Load:
    """Plain storage. `Cluster` keeps it in step with the book of cards; rules read `LoadRows`."""

    def __init__(self, rows: int, slots: int) -> None:
        for name, filler in _FILLERS.items():
            setattr(self, name, np.full((rows, slots), filler))

    #: When anybody told anything, and what; NaN where nobody did.
    heard_s: CardShares
    memory_busy: CardShares
    memory_used: CardShares  # MiB
    power: CardShares  # watts
    cyclic: CardShares  # 1 where it is
    #: When utilisation was read last, and what came out on the whole and at the busiest.
    taken_s: CardShares
    mean: CardShares
    peak: CardShares
    #: The same as rules see it, and how far they may go by it.
    busy: CardShares
    busiest: CardShares
    trust: CardShares

    def fit(self, rows: int, slots: int) -> None:
        """As large as the book of cards."""
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

    def put(self, row: int, slot: int, reading: CardReading, taken_s: float) -> None:
        """One that is older than what is known changes nothing."""
        if taken_s <= self.heard_s[row, slot]:
            return
        self.heard_s[row, slot] = taken_s
        self.memory_busy[row, slot] = _share(reading.memory_busy)
        self.memory_used[row, slot] = _amount(reading.memory_used_mib)
        self.power[row, slot] = _amount(reading.power_w)
        self.cyclic[row, slot] = bool(reading.cyclic)
        now = _share(reading.utilisation)
        if not math.isnan(now):
            self._average(row, slot, now, taken_s)

    def _average(self, row: int, slot: int, now: float, taken_s: float) -> None:
        kept = 0.5 ** ((taken_s - self.taken_s[row, slot]) / _HALF_LIFE_S)
        self.taken_s[row, slot] = taken_s
        mean, peak = self.mean[row, slot], self.peak[row, slot]
        self.mean[row, slot] = now + kept * (mean - now) if kept else now
        self.peak[row, slot] = max(now, now + kept * (peak - now)) if kept else now

    def renew(self, now_s: float, rows: Rows) -> list[int]:
        """Brings what rules see of these rows up to date, and tells those where it differs."""
        trust = _trust(now_s - self.taken_s[rows])
        self.trust[rows] = trust
        self._forget(rows, now_s - self.heard_s[rows] >= STALE_S)
        changed = np.zeros(len(rows), dtype=np.bool_)
        for name, measured in (("busy", self.mean), ("busiest", self.peak)):
            seen: CardShares = getattr(self, name)
            told = np.rint((MIDDLING + trust * (measured[rows] - MIDDLING)) / _STEP) * _STEP
            changed |= (told != seen[rows]).any(axis=1)
            seen[rows] = told
        found: list[int] = rows[changed].tolist()
        return found

    def measured_rows(self) -> Rows:
        """Those of which anybody ever told anything."""
        return np.flatnonzero(np.isfinite(self.heard_s).any(axis=1))

    def _forget(self, rows: Rows, stale: npt.NDArray[np.bool_]) -> None:
        """Slots of these rows."""
        row, slot = stale.nonzero()
        for name in ("memory_busy", "memory_used", "power", "cyclic"):
            getattr(self, name)[rows[row], slot] = _FILLERS[name]


class LoadRows:
    """The same of some nodes as a rule sees it, read-only."""

    __slots__ = ("_load", "_pick")

    def __init__(self, load: Load, pick: RowPick) -> None:
        self._load = load
        self._pick = pick

    def busy(self) -> CardShares:
        """How busy each card is on the whole; middling where nobody knows."""
        return sealed(self._load.busy[self._pick])

    def busiest(self) -> CardShares:
        """The same at its busiest."""
        return sealed(self._load.busiest[self._pick])

    def trust(self) -> CardShares:
        """How far to go by that: 1 for what was read just now, 0 for what nobody knows."""
        return sealed(self._load.trust[self._pick])

    def memory_used(self) -> CardShares:
        """MiB in use, as last read; NaN where nobody says."""
        return sealed(self._load.memory_used[self._pick])

    def memory_busy(self) -> CardShares:
        """Share of the time in which memory was read or written; NaN where nobody says."""
        return sealed(self._load.memory_busy[self._pick])

    def cyclic(self) -> CardShares:
        """1 where the load rises and falls in a rhythm."""
        return sealed(self._load.cyclic[self._pick])


def slot_of(card: str, index: int | None, known: Mapping[str, int], slots: int) -> int | None:
    """By uuid or index; where nobody lists the cards of a node, its index is its slot."""
    if known:
        return known.get(card)
    place = int(card) if card.isdecimal() else index
    return place if place is not None and 0 <= place < slots else None


def _trust(age_s: CardShares) -> CardShares:
    trust: CardShares = np.clip((STALE_S - age_s) / (STALE_S - FRESH_S), 0.0, 1.0)
    return trust


def _share(value: float | None) -> float:
    return value if value is not None and 0.0 <= value <= 1.0 else math.nan


def _amount(value: float | None) -> float:
    return value if value is not None and 0.0 <= value < math.inf else math.nan
