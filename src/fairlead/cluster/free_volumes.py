"""The smallest free volume for a claim, for every node at once.

Local disks come as one volume a disk, each reachable from one node only, by the thousand. So
volumes that are tied to values of one label are looked up in a table by that value, and only others
cost an array each.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.node_terms import any_term
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.open_volumes import OpenVolume
from fairlead.model.pods import NodeTerm
from fairlead.model.storage import Claim, Volume

#: In place of a volume's number, where there is none.
NONE = -1

Positions = list[int]  # in a list of candidates, ascending


class FreeVolumes:
    """Chooses volumes for the claims of one pod, and numbers those in question."""

    def __init__(self) -> None:
        self._volumes: list[Volume] = []
        self._numbers: dict[str, int] = {}
        #: Where volumes with these terms can be reached from; the claims of a pod share it.
        self._near: dict[tuple[NodeTerm, ...], NodeMask] = {}

    def volume(self, number: int) -> Volume:
        return self._volumes[number]

    @property
    def sizes_bytes(self) -> list[int]:
        """By number."""
        return [volume.capacity_bytes for volume in self._volumes]

    def choose(self, claim: Claim, nodes: Nodes, taken: Sequence[PerNode]) -> PerNode:
        """The number of the volume for each node, `NONE` where there is none.

        `taken` is what earlier claims of the same pod were given.
        """
        candidates = _candidates(claim, nodes)
        nothing = len(candidates)
        numbers = np.array([*self._numbered(candidates), NONE], dtype=np.int64)
        best: PerNode = np.full(len(nodes), nothing, dtype=np.int64)
        # Each earlier claim has taken at most one of a group, so that many more must be on offer.
        for offers in self._offers(candidates, nodes, 1 + len(taken)):
            np.minimum(best, _first_left(offers, numbers, taken, nothing), out=best)
        chosen: PerNode = numbers[best]
        return chosen

    def _offers(
        self, candidates: list[OpenVolume], nodes: Nodes, depth: int
    ) -> Iterator[list[PerNode]]:
        """For each way to reach volumes, the first few positions that it offers to each node."""
        by_label: dict[str, dict[str, Positions]] = {}
        by_terms: dict[tuple[NodeTerm, ...] | None, Positions] = {}
        for position, found in enumerate(candidates):
            if found.tied is None:
                by_terms.setdefault(found.volume.node_terms, []).append(position)
                continue
            key, values = found.tied
            for value in values:
                by_label.setdefault(key, {}).setdefault(value, []).append(position)
        nothing = len(candidates)
        for key, by_value in by_label.items():
            yield _from_table(key, by_value, nodes, depth, nothing)
        for terms, positions in by_terms.items():
            near = nodes.all() if terms is None else self._reached(terms, nodes)
            yield [np.where(near, position, nothing) for position in positions[:depth]]

    def _reached(self, terms: tuple[NodeTerm, ...], nodes: Nodes) -> NodeMask:
        found = self._near.get(terms)
        if found is None:
            found = self._near[terms] = any_term(terms, nodes)
        return found

    def _numbered(self, candidates: list[OpenVolume]) -> Iterable[int]:
        if not self._volumes:  # the first claim, and mostly the only one
            self._volumes = [found.volume for found in candidates]
            return range(len(candidates))
        if not self._numbers:
            self._numbers = {volume.name: number for number, volume in enumerate(self._volumes)}
        return [self._number(found.volume) for found in candidates]

    def _number(self, volume: Volume) -> int:
        number = self._numbers.setdefault(volume.name, len(self._volumes))
        if number == len(self._volumes):
            self._volumes.append(volume)
        return number


def reachable(volume: Volume, nodes: Nodes, *, migrating: bool = False) -> NodeMask:
    """True where the volume's node affinity allows. `migrating`: as its CSI driver sees it."""
    near = nodes.all() if volume.node_terms is None else any_term(volume.node_terms, nodes)
    if migrating and volume.migrated_terms is not None and volume.csi is not None:
        moved = nodes.migrated(volume.csi.plugin)
        near = np.where(moved, any_term(volume.migrated_terms, nodes), near)
    return near


def _candidates(claim: Claim, nodes: Nodes) -> list[OpenVolume]:
    """Volumes for the claim, the best first."""
    meant = [volume for volume in nodes.storage.volumes_of(claim) if _is_like(volume, claim)]
    if meant:  # somebody has promised it this volume, so it takes no other
        return [OpenVolume.of(meant[0])]
    here = _within_reach(nodes.storage.open_volumes(claim.storage_class), nodes)
    fits: dict[tuple[object, ...], bool] = {}
    fitting = []
    for found in here:
        fit = fits.get(found.shape)
        if fit is None:
            fit = fits[found.shape] = _fits(found.volume, claim)
        if fit:
            fitting.append(found)
    if claim.selector is not None:
        return [found for found in fitting if claim.selector.matches(found.volume.labels)]
    return fitting


def _within_reach(volumes: Sequence[OpenVolume], nodes: Nodes) -> Sequence[OpenVolume]:
    """Leaves out what is tied to other nodes, when only one is asked about."""
    if len(nodes) != 1:
        return volumes
    (node,) = nodes.objects()
    labels = node.labels if node else {}
    return [
        found
        for found in volumes
        if found.tied is None or labels.get(found.tied[0]) in found.tied[1]
    ]


def _fits(volume: Volume, claim: Claim) -> bool:
    return _is_like(volume, claim) and set(claim.access_modes) <= set(volume.access_modes)


def _is_like(volume: Volume, claim: Claim) -> bool:
    return (
        volume.capacity_bytes >= (claim.size_bytes or 0)
        and volume.mode == claim.mode
        and volume.attributes_class == claim.attributes_class
        and not volume.deleting
    )


def _first_left(
    offers: list[PerNode], numbers: PerNode, taken: Sequence[PerNode], nothing: int
) -> PerNode:
    """Of several offers for each node, the first that is not taken."""
    found: PerNode = np.full(len(offers[0]), nothing, dtype=np.int64)
    for offer in reversed(offers):
        left = offer < nothing
        for others in taken:
            left &= numbers[offer] != others
        found = np.where(left, offer, found)
    return found


def _from_table(
    key: str, by_value: dict[str, Positions], nodes: Nodes, depth: int, nothing: int
) -> list[PerNode]:
    domains = nodes.domains(key)
    # One more, so that nodes without the label (-1) find nothing at the end.
    width = int(domains.max(initial=-1)) + 2
    table = np.full((depth, width), nothing, dtype=np.int64)
    codes = nodes.domain_of(key)
    for value, positions in by_value.items():
        code = codes.get(value, NONE)
        if 0 <= code < width - 1:
            for level, position in enumerate(positions[:depth]):
                table[level, code] = position
    return [level[domains] for level in table]
