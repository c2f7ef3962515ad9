"""Groups of pods that must each be in one domain, planned together.

One group after another may fail although all fit: the first takes the domain that only the second
can use, or the nodes that the second needs. Here the domains of all groups are chosen first, and
then nodes for all of their pods at once. What the search costs is bounded.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask
from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.exact_kinds import ExactKinds
from fairlead.placement.unequal_pods import Kinds, Taken, spread_over_few

#: Numbers that an exact solution may compute; beyond, nodes are filled one by one.
_MOST_EXACT = 1_000_000
#: What a step costs, however few nodes there are.
_STEP = 2000


@dataclass(frozen=True, slots=True)
class JointGroup:
    """The numbers of its kinds of pods, and the nodes of each domain that would do."""

    kinds: tuple[int, ...]
    options: tuple[NodeMask, ...]


class JointGroups:
    def __init__(self, kinds: Kinds, groups: Sequence[JointGroup], work: int) -> None:
        """`work`: numbers that may be computed."""
        self._kinds = kinds
        self._groups = sorted(groups, key=lambda group: len(group.options))
        #: What is left of it.
        self.work = work
        self._look = len(groups) * _STEP + kinds.room.size // 4
        self._amounts = kinds.counts[:, None] * kinds.needs

    def solve(self) -> Taken | None:
        """How many pods of each kind each node takes; None if no way was found."""
        return self._choose(0, self._kinds.room, [])

    def _choose(
        self, number: int, room: Taken, chosen: list[tuple[JointGroup, NodeMask]]
    ) -> Taken | None:
        if number == len(self._groups):
            return self._nodes(room)
        group = self._groups[number]
        for rows in group.options:
            if self.work <= 0:
                return None
            self.work -= self._look
            now = [*chosen, (group, rows)]
            if not self._has_room(now, rows):
                continue
            limited = room.copy()
            limited[list(group.kinds)] *= rows
            found = self._choose(number + 1, limited, now)
            if found is not None:
                return found
        return None

    def _has_room(self, chosen: Sequence[tuple[JointGroup, NodeMask]], rows: NodeMask) -> bool:
        """Whether the nodes have what all groups take that may use no others."""
        inside = [kind for group, own in chosen if not (own & ~rows).any() for kind in group.kinds]
        free: npt.NDArray[np.int64] = np.maximum(self._kinds.free[:, rows], 0).sum(axis=1)
        return bool((self._amounts[inside].sum(axis=0) <= free).all())

    def _nodes(self, room: Taken) -> Taken | None:
        nodes = np.flatnonzero(room.any(axis=0))
        kinds = replace(self._kinds, room=room).only(nodes)
        found = self._solved(kinds)
        if found is None:
            return None
        taken = np.zeros_like(room)
        taken[:, nodes] = found
        return taken

    def _solved(self, kinds: Kinds) -> Taken | None:
        exact = ExactKinds(
            kinds.counts, kinds.needs, kinds.room, kinds.free, kinds.left, kinds.used
        )
        if exact.work <= _MOST_EXACT:
            self.work -= exact.work
            return exact.solve()
        self.work -= int(kinds.counts.sum()) * (kinds.room.size + _STEP * len(kinds.counts))
        return spread_over_few(kinds, 1)
