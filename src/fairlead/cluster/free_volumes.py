"""The smallest free volume for each claim of a pod, for every node at once.

Volumes are offered smallest first. On each node that reaches it, a volume goes to the first claim
that it fits and that has none. This gives the same as to serve claim by claim, since all claims
prefer smaller volumes, and costs the same for one claim as for many.
"""

from collections.abc import Sequence

import numpy as np

from fairlead.cluster.arrays import PerNode, Rows
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.open_volumes import OpenVolume
from fairlead.cluster.reach import Reach
from fairlead.model.selectors import LabelSelector
from fairlead.model.storage import Volume, VolumeClaim

#: In place of a volume's number, where there is none.
NONE = -1
#: What comparing volumes may cost for one pod, in microseconds: the others are not evaluated.
MOST_SPENT = 30_000
#: Offers that are made together, for each node that there is.
_TOGETHER = 4


class FreeVolumes:
    """Chooses volumes for the claims of one pod, and numbers those in question."""

    def __init__(self, nodes: Nodes, reach: Reach) -> None:
        self._nodes = nodes
        self._reach = reach
        self._volumes: list[Volume] = []
        #: Volumes that were not compared, since that would have taken too long.
        self.left_out = 0

    def volume(self, number: int) -> Volume:
        return self._volumes[number]

    @property
    def sizes_bytes(self) -> list[int]:
        """By number."""
        return [volume.capacity_bytes for volume in self._volumes]

    def choose(self, claims: Sequence[VolumeClaim]) -> list[PerNode]:
        """For each claim the number of its volume on each node, `NONE` where there is none.

        The claims are given by size, the smallest first.
        """
        chosen: PerNode = np.full((len(claims), len(self._nodes)), NONE, dtype=np.int64)
        open_by_class: dict[str, list[int]] = {}
        reserved: set[str] = set()
        for place, claim in enumerate(claims):
            meant = self._reserved(claim)
            if meant is None:
                open_by_class.setdefault(claim.storage_class, []).append(place)
            elif meant.name not in reserved:
                reserved.add(meant.name)
                chosen[place, self._reach.rows(meant.node_terms)] = self._number(meant)
        for storage_class, places in open_by_class.items():
            volumes = self._nodes.storage.open_volumes(storage_class)
            if volumes:
                chosen[places] = self._match(volumes, [claims[place] for place in places])
        return list(chosen)

    def _reserved(self, claim: VolumeClaim) -> Volume | None:
        """The volume that is reserved for the claim: it takes no other."""
        meant = self._nodes.storage.volumes_of(claim)
        return next((volume for volume in meant if _is_like(volume, claim)), None)

    def _match(self, volumes: Sequence[OpenVolume], claims: Sequence[VolumeClaim]) -> PerNode:
        offers = _Offers(len(claims), len(self._nodes))
        fitting = _Fitting(claims)
        start = self._reach.spent
        for place, found in enumerate(volumes):
            if self._reach.spent - start + fitting.spent > MOST_SPENT:
                self.left_out += len(volumes) - place
                break
            fits = fitting.claims(found)
            if not fits:
                continue
            rows = self._reach.rows(found.volume.node_terms)
            if len(rows) and not offers.make(self._number(found.volume), fits, rows):
                break
        offers.finish()
        self._nodes.work.terms += self._reach.spent - start + fitting.spent
        return offers.chosen

    def _number(self, volume: Volume) -> int:
        self._volumes.append(volume)
        return len(self._volumes) - 1


class _Fitting:
    """Which claims a volume fits, as bits."""

    def __init__(self, claims: Sequence[VolumeClaim]) -> None:
        self._claims = claims
        self._by_shape: dict[tuple[object, ...], int] = {}
        #: Selectors, and the claims that have each.
        self._selectors: dict[LabelSelector, int] = {}
        for place, claim in enumerate(claims):
            if claim.selector is not None:
                others = self._selectors.get(claim.selector, 0)
                self._selectors[claim.selector] = others | 1 << place
        self.spent = 0

    def claims(self, found: OpenVolume) -> int:
        fits = self._by_shape.get(found.shape)
        if fits is None:
            fits = self._by_shape[found.shape] = self._fits(found.volume)
        if self._selectors and fits:
            fits &= ~self._unselected(found.volume, fits)
        return fits

    def _fits(self, volume: Volume) -> int:
        self.spent += len(self._claims)
        return sum(1 << place for place, claim in enumerate(self._claims) if _fits(volume, claim))

    def _unselected(self, volume: Volume, fits: int) -> int:
        refused = 0
        for selector, bits in self._selectors.items():
            if bits & fits:
                self.spent += 1 + len(selector.lines)
                refused |= 0 if selector.matches(volume.labels) else bits
        return refused


class _Offers:
    """Which claims have no volume yet on each node, as bits, and what the others have."""

    def __init__(self, claims: int, nodes: int) -> None:
        self.chosen: PerNode = np.full((claims, nodes), NONE, dtype=np.int64)
        self._open: PerNode = np.full(nodes, (1 << claims) - 1, dtype=np.int64)
        self._waiting: list[tuple[int, int, Rows]] = []
        self._size = 0

    def make(self, number: int, fits: int, rows: Rows) -> bool:
        """The volume is offered on these rows. False when no claim is left without a volume."""
        self._waiting.append((number, fits, rows))
        self._size += len(rows)
        if self._size <= _TOGETHER * len(self._open):
            return True
        self.finish()
        return bool(self._open.any())

    def finish(self) -> None:
        """Settles the offers that were made since."""
        offers, self._waiting, self._size = self._waiting, [], 0
        if not offers:
            return
        numbers, fits, rows = zip(*offers, strict=True)
        lengths = [len(each) for each in rows]
        left = np.concatenate(rows)
        self._settle(np.repeat(numbers, lengths), np.repeat(fits, lengths), left)

    def _settle(self, numbers: PerNode, fits: PerNode, rows: Rows) -> None:
        """The first useful offer of each row is taken, until none is useful."""
        while True:
            useful = np.flatnonzero(self._open[rows] & fits)
            if not len(useful):
                return
            numbers, fits, rows = numbers[useful], fits[useful], rows[useful]
            at, first = np.unique(rows, return_index=True)
            could = self._open[at] & fits[first]
            taken = could & -could  # the lowest bit
            self._open[at] ^= taken
            self.chosen[np.bitwise_count(taken - 1), at] = numbers[first]
            fits[first] = 0


def _fits(volume: Volume, claim: VolumeClaim) -> bool:
    return _is_like(volume, claim) and set(claim.access_modes) <= set(volume.access_modes)


def _is_like(volume: Volume, claim: VolumeClaim) -> bool:
    return (
        volume.capacity_bytes >= (claim.size_bytes or 0)
        and volume.mode == claim.mode
        and volume.attributes_class == claim.attributes_class
        and not volume.deleting
    )
