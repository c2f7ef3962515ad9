"""Distinguishes periodic load, as of training, from bursty load.

By the autocorrelation of a window of utilisation for each GPU, for many GPUs at once.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fairlead.model.readings import NodeReadings

#: Readings looked at: ten minutes at one every fifteen seconds.
WINDOW = 40
#: GPUs looked at in one go; each is looked at again when all others were.
_GPUS_AT_ONCE = 4096
_MOST_GPUS = 400_000
#: A load that varies by less is steady, and not periodic.
_LEAST_SWING = 0.05
#: The least correlation of the window with itself one period later.
_ALIKE = 0.6
#: A period is at least three readings, and is seen at least twice.
_SHORTEST, _LONGEST = 3, WINDOW // 2

Windows = npt.NDArray[np.float32]


def is_cyclic(windows: Windows) -> npt.NDArray[np.bool_]:
    """For each row of readings, the oldest first: whether it is periodic."""
    centred = windows - windows.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, n=2 * windows.shape[1], axis=1)
    products = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, : windows.shape[1]]
    energy = np.maximum(products[:, :1], 1e-9)
    # With every step, less of the window is left to compare.
    left = 1.0 - np.arange(windows.shape[1]) / windows.shape[1]
    alike = products / energy / left
    # The correlation must fall below 0 before it rises again: a drift correlates throughout.
    gone = np.minimum.accumulate(alike, axis=1) < 0.0
    found = ((alike >= _ALIKE) & gone)[:, _SHORTEST : _LONGEST + 1].any(axis=1)
    cyclic: npt.NDArray[np.bool_] = found & (windows.std(axis=1) >= _LEAST_SWING)
    return cyclic


class PeriodicityDetector:
    """Keeps a window of readings for each GPU. A GPU without a full window is not periodic."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._row: dict[tuple[str, str], int] = {}
        #: Of a node whose GPUs are listed as they were the last time: which, and their rows.
        self._rows_of: dict[str, tuple[tuple[str, ...], list[int]]] = {}
        self._windows: Windows = np.zeros((0, WINDOW), dtype=np.float32)
        self._seen = np.zeros(0, dtype=np.int64)
        self._cyclic = np.zeros(0, dtype=np.bool_)
        self._next = 0

    def put(self, batch: Sequence[NodeReadings]) -> list[NodeReadings]:
        """The batch with `cyclic` set where the load is periodic and the source does not say so."""
        if len(self._row) > _MOST_GPUS:
            self._begin()  # most of them are long gone
        found: list[int] = []
        shares: list[float] = []
        for node in batch:
            told = [
                (key, gpu.utilisation)
                for key, gpu in node.gpus.items()
                if gpu.utilisation is not None and gpu.cyclic is None
            ]
            found += self._rows(node.node, tuple([key for key, _ in told]))
            shares += [share for _, share in told]
        self._fit()
        rows = np.array(found, dtype=np.intp)
        self._windows[rows, self._seen[rows] % WINDOW] = shares
        self._seen[rows] += 1
        periodic = set(rows[self._cyclic[rows]].tolist())
        return [self._marked(node, periodic) for node in batch] if periodic else list(batch)

    def look(self) -> None:
        """Checks some of the GPUs, in turn. Call it after every take."""
        some = slice(self._next, self._next + _GPUS_AT_ONCE)
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
        """Room for GPUs that are new."""
        missing = len(self._row) - len(self._seen)
        if missing > 0:
            more = max(missing, len(self._seen))
            self._windows = np.vstack([self._windows, np.zeros((more, WINDOW), np.float32)])
            self._seen = np.append(self._seen, np.zeros(more, np.int64))
            self._cyclic = np.append(self._cyclic, np.zeros(more, np.bool_))

    def _marked(self, told: NodeReadings, periodic: set[int]) -> NodeReadings:
        gpus = {
            key: gpu._replace(cyclic=True)
            if gpu.cyclic is None and self._row.get((told.node, key)) in periodic
            else gpu
            for key, gpu in told.gpus.items()
        }
        return replace(told, gpus=gpus)
