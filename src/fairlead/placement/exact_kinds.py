"""Pods of a few kinds on a few nodes: the fewest nodes, and the least left on them, exactly.

Node after node, for every number of pods that may still have to be placed: either the node is not
used, or it takes as many pods as it can, in one of the ways in which no more fit.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask, PerNode

#: (kinds, nodes)
PodTable = npt.NDArray[np.int64]
#: Pods of each kind, as one number.
State = int

_NEVER = np.iinfo(np.int64).max // 4


class ExactKinds:
    """One question. `work` says what the answer costs before it is asked for."""

    def __init__(
        self,
        counts: PerNode,
        needs: PodTable,
        room: PodTable,
        free: PodTable,
        left: PerNode,
        used: NodeMask,
    ) -> None:
        """The arguments are those of `Kinds`."""
        self._counts = counts
        self._room = np.minimum(room, counts[:, None])
        self._needs, self._free = needs, free
        self._cost = np.where(used, 0, left + (int(left.sum()) + 1))

    @property
    def work(self) -> int:
        """Numbers that are computed, at most."""
        box = np.prod(self._room.max(axis=1, initial=0) + 1, dtype=np.float64)
        states = np.prod(self._counts + 1, dtype=np.float64)
        return int(min(box * self._room.shape[1] + states * self._room.shape[1] * 16, 1e15))

    def solve(self) -> PodTable | None:
        """How many pods of each kind each node takes; None if not all of them fit."""
        box, ways = self._ways()
        shape = tuple(int(count) + 1 for count in self._counts)
        states = np.indices(shape).reshape(len(shape), -1)
        least = np.full(states.shape[1], _NEVER, dtype=np.int64)
        least[0] = 0
        before: dict[State, npt.NDArray[np.int64]] = {}
        choices: list[npt.NDArray[np.int16]] = []
        for node, of_node in enumerate(ways):
            chosen = np.full(len(least), -1, dtype=np.int16)
            best = least.copy()
            for number, way in enumerate(of_node):
                if way not in before:
                    rest = np.maximum(states - box[:, way][:, None], 0)
                    before[way] = np.ravel_multi_index(tuple(rest), shape)
                cost = least[before[way]] + self._cost[node]
                better = cost < best
                best[better] = cost[better]
                chosen[better] = number
            least = best
            choices.append(chosen)
        if least[-1] >= _NEVER:
            return None
        return self._taken(box, ways, choices, before)

    def _ways(self) -> tuple[PodTable, list[list[State]]]:
        """Numbers of pods of each kind, and those of them that a node takes if no more fit."""
        shape = tuple(int(most) + 1 for most in self._room.max(axis=1, initial=0))
        box = np.indices(shape).reshape(len(shape), -1)
        fits = (box[:, :, None] <= self._room[:, None, :]).all(axis=0)
        for resource, free in enumerate(self._free):
            fits &= (self._needs[:, resource] @ box)[:, None] <= free
        fits = fits.reshape(*shape, -1)
        most = fits.copy()
        for kind in range(len(shape)):
            one_more = np.roll(fits, -1, axis=kind)
            one_more[(slice(None),) * kind + (-1,)] = False
            most &= ~one_more
        most = most.reshape(box.shape[1], -1)
        most[0] = False  # a node that takes nothing
        return box, [np.flatnonzero(most[:, node]).tolist() for node in range(most.shape[1])]

    def _taken(
        self,
        box: PodTable,
        ways: Sequence[Sequence[State]],
        choices: Sequence[npt.NDArray[np.int16]],
        before: dict[State, npt.NDArray[np.int64]],
    ) -> PodTable:
        taken, left = np.zeros_like(self._room), self._counts.copy()
        state = len(choices[0]) - 1 if choices else 0
        for node in range(len(ways) - 1, -1, -1):
            number = int(choices[node][state])
            if number < 0:
                continue
            way = ways[node][number]
            taken[:, node] = np.minimum(box[:, way], left)
            left -= taken[:, node]
            state = int(before[way][state])
        return taken
