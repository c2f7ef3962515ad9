"""Tells load that rises and falls in a rhythm, as that of training does, from load in bursts.

A window of utilisation for each card, and its autocorrelation, for many cards at once.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fairlead.model.readings import NodeReadings

#: Readings looked at: ten minutes at one every fifteen seconds.
WINDOW = 40
#: Cards looked at in one go; each is looked at again when all others were.
_CARDS_AT_ONCE = 4096
_MOST_CARDS = 400_000
#: A load that moves by less is steady, and has no rhythm.
_LEAST_SWING = 0.05
#: So alike must the window and itself a period later be.
_ALIKE = 0.6
#: A period is at least three readings, and is seen at least twice.
_SHORTEST, _LONGEST = 3, WINDOW // 2

Windows = npt.NDArray[np.float32]


def is_cyclic(windows: Windows) -> npt.NDArray[np.bool_]:
    """For each row of readings, the oldest first: whether it has a rhythm."""
    centred = windows - windows.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, n=2 * windows.shape[1], axis=1)
    products = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, : windows.shape[1]]
    energy = np.maximum(products[:, :1], 1e-9)
    # With every step less of the window is left to compare.
    left = 1.0 - np.arange(windows.shape[1]) / windows.shape[1]
    alike = products / energy / left
    # Before a rhythm comes back it must have gone: what only drifts is alike all along.
    gone = np.minimum.accumulate(alike, axis=1) < 0.0
    found = ((alike >= _ALIKE) & gone)[:, _SHORTEST : _LONGEST + 1].any(axis=1)
    cyclic: npt.NDArray[np.bool_] = found & (windows.std(axis=1) >= _LEAST_SWING)
    return cyclic


class Rhythm:
    """Remembers what was read of each card. One that is new has no rhythm until it is known."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._row: dict[tuple[str, str], int] = {}
        #: Of a node whose cards are told of as they were the last time: which, and their rows.
        self._rows_of: dict[str, tuple[tuple[str, ...], list[int]]] = {}
        self._windows: Windows = np.zeros((0, WINDOW), dtype=np.float32)
        self._seen = np.zeros(0, dtype=np.int64)
        self._cyclic = np.zeros(0, dtype=np.bool_)
        self._next = 0

    def put(self, batch: Sequence[NodeReadings]) -> list[NodeReadings]:
        """The same with `cyclic` set where there is a rhythm and the source says nothing of it."""
        if len(self._row) > _MOST_CARDS:
            self._begin()  # most of them are long gone
        found: list[int] = []
        shares: list[float] = []
        for node in batch:
            told = [
                (key, card.utilisation)
                for key, card in node.cards.items()
                if card.utilisation is not None and card.cyclic is None
            ]
            found += self._rows(node.node, tuple([key for key, _ in told]))
            shares += [share for _, share in told]
        self._fit()
        rows = np.array(found, dtype=np.intp)
        self._windows[rows, self._seen[rows] % WINDOW] = shares
        self._seen[rows] += 1
        rhythmic = set(rows[self._cyclic[rows]].tolist())
        return [self._marked(node, rhythmic) for node in batch] if rhythmic else list(batch)

    def look(self) -> None:
        """Looks at some cards anew. Call it after every take: their turn comes."""
        some = slice(self._next, self._next + _CARDS_AT_ONCE)
        self._next = some.stop if some.stop < len(self._row) else 0
        seen, windows = self._seen[some], self._windows[some]
        in_order = (seen[:, None] + np.arange(WINDOW)) % WINDOW
        found = is_cyclic(np.take_along_axis(windows, in_order, axis=1))
        self._cyclic[some] = found & (seen >= WINDOW)

    def _rows(self, node: str, keys: tuple[str, ...]) -> list[int]:
        known = self._rows_of.get(node)
        if known is None or known[0] != keys:
            rows = [self._row.setdefault((node, key), len(self._row)) for key in keys]
            known = self._rows_of[node] = keys, rows
        return known[1]

    def _fit(self) -> None:
        """Room for cards that are new."""
        missing = len(self._row) - len(self._seen)
        if missing > 0:
            more = max(missing, len(self._seen))
            self._windows = np.vstack([self._windows, np.zeros((more, WINDOW), np.float32)])
            self._seen = np.append(self._seen, np.zeros(more, np.int64))
            self._cyclic = np.append(self._cyclic, np.zeros(more, np.bool_))

    def _marked(self, told: NodeReadings, rhythmic: set[int]) -> NodeReadings:
        cards = {
            key: card._replace(cyclic=True)
            if card.cyclic is None and self._row.get((told.node, key)) in rhythmic
            else card
            for key, card in told.cards.items()
        }
        return replace(told, cards=cards)
