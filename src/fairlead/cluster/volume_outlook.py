"""Where a pod's claims can be served: bound already, by a volume that is free, or by a new one.

For every node at once. A claim that waits for its first consumer gets the smallest free volume that
the node can reach, claims in order of size; where there is none, its class must be able to
provision one for the node.
"""

from collections.abc import Iterable
from dataclasses import field

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.free_volumes import NONE, FreeVolumes
from fairlead.cluster.node_terms import any_term
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.published_room import PublishedRoom
from fairlead.cluster.reach import Reach
from fairlead.cluster.storage import Storage
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.storage import Volume, VolumeClaim, VolumePlan
from fairlead.model.volumes import PodVolumes

#: Claims of one pod that wait for it: each takes care not to take what the others take.
MOST_WAITING = 32


@dataclass(frozen=True, slots=True)
class VolumeOutlook:
    """The answer, and how it comes about."""

    #: A bound volume cannot be reached from the node; or is not there at all.
    far: NodeMask
    lost: NodeMask
    #: No volume to bind, and none can be provisioned; or not of that size.
    unbindable: NodeMask
    cramped: NodeMask
    #: Unbindable, but not all volumes were evaluated.
    unread: NodeMask
    room: PublishedRoom
    free: FreeVolumes
    #: For each claim that is to be bound: the volume for each node, by number, or `NONE`.
    chosen: list[tuple[VolumeClaim, PerNode]] = field(default_factory=list)
    #: Claims that a scheduler has already sent to a node, to be provisioned there.
    sent: list[VolumeClaim] = field(default_factory=list)

    @property
    def refused(self) -> NodeMask:
        return self.far | self.lost | self.unbindable | self.cramped

    def plan(self, row: int) -> VolumePlan:
        """What is to be done for the node at this position, once for each claim."""
        chosen = {claim: int(choice[row]) for claim, choice in reversed(self.chosen)}
        bound = {claim: number for claim, number in chosen.items() if number != NONE}
        made = dict.fromkeys((*self.sent, *(claim for claim in chosen if claim not in bound)))
        matched = tuple((claim, self.free.volume(number)) for claim, number in bound.items())
        return VolumePlan(matched[::-1], tuple(made))


def sorted_out(
    volumes: PodVolumes, storage: Storage
) -> tuple[list[VolumeClaim], list[VolumeClaim]]:
    """The claims that are bound, and those that wait for this pod; others are in neither.

    A pod may name a claim twice. kube-scheduler then looks for two volumes, and so do we.
    """
    claims = [found for use in volumes.claims if (found := storage.volume_claims.get(use.key))]
    bound = [claim for claim in claims if claim.bound]
    return bound, [claim for claim in claims if not claim.bound and storage.waits(claim)]


def look(volumes: PodVolumes, nodes: Nodes) -> VolumeOutlook:
    """How each node could serve the claims, as things are.

    The last answer about all nodes is kept until something changes: a refusal asks for reasons.
    """
    if not nodes.whole:
        return _look(volumes, nodes)
    kept = nodes.storage.outlook
    if kept is None or kept[0] != volumes:
        kept = nodes.storage.outlook = volumes, _look(volumes, nodes)
    return kept[1]


def _look(volumes: PodVolumes, nodes: Nodes) -> VolumeOutlook:
    bound, waiting = sorted_out(volumes, nodes.storage)
    reach = Reach(nodes)
    free, room = FreeVolumes(nodes, reach), PublishedRoom(nodes, reach)
    far, lost = _check_bound(bound, nodes, reach)
    if len(waiting) > MOST_WAITING:
        return VolumeOutlook(far, lost, nodes.all(), nodes.none(), nodes.none(), room, free)
    sent = [claim for claim in waiting if claim.selected_node is not None]
    elsewhere = _sent_elsewhere(sent, nodes)
    unsent = sorted((claim for claim in waiting if claim.selected_node is None), key=_size_bytes)
    chosen = list(zip(unsent, free.choose(unsent), strict=True))
    wanted = [(claim, ~elsewhere) for claim in sent]
    wanted += [(claim, ~elsewhere & (choice == NONE)) for claim, choice in chosen]
    unbindable, cramped = _check_provisions(wanted, nodes, room)
    unread = unbindable & ~elsewhere if free.left_out else nodes.none()
    unbindable |= elsewhere
    return VolumeOutlook(far, lost, unbindable, cramped, unread, room, free, chosen, sent)


def out_of_reach(plan: VolumePlan, node: Nodes, name: str) -> str:
    """Which volume of a plan that was carried out cannot be reached from the one node given."""
    for claim in plan.claims:
        now = node.storage.volume_claims.get(claim.key)
        volume = node.storage.volumes.get(now.volume) if now else None
        if volume is not None and not _reachable(volume, node, Reach(node)).all():
            return (
                f'pv "{volume.name}" node affinity doesn\'t match node "{name}": '
                "no matching NodeSelectorTerms"
            )
    return ""


def _reachable(volume: Volume, nodes: Nodes, reach: Reach) -> NodeMask:
    """True where the volume's node affinity allows, as its CSI driver sees it."""
    near = nodes.none()
    near[reach.rows(volume.node_terms)] = True
    if volume.migrated_terms is not None and volume.csi is not None:
        moved = nodes.migrated(volume.csi.plugin)
        near = np.where(moved, any_term(volume.migrated_terms, nodes), near)
    return near


def _check_bound(
    claims: Iterable[VolumeClaim], nodes: Nodes, reach: Reach
) -> tuple[NodeMask, NodeMask]:  # fmt: skip
    """Of each node the first claim that is out of reach decides."""
    far, lost, left = nodes.none(), nodes.none(), nodes.all()
    for claim in claims:
        volume = nodes.storage.volumes.get(claim.volume)
        if volume is None:
            lost |= left
            break
        near = _reachable(volume, nodes, reach)
        far |= left & ~near
        left &= near
    return far, lost


def _sent_elsewhere(claims: Iterable[VolumeClaim], nodes: Nodes) -> NodeMask:
    elsewhere = nodes.none()
    for claim in claims:
        elsewhere |= ~nodes.named((claim.selected_node or "",))
    return elsewhere


def _check_provisions(
    wanted: Iterable[tuple[VolumeClaim, NodeMask]], nodes: Nodes, published: PublishedRoom
) -> tuple[NodeMask, NodeMask]:
    """Of each node the first claim that cannot be provisioned decides."""
    unbindable, cramped = nodes.none(), nodes.none()
    for claim, needed in wanted:
        asked = needed & ~unbindable & ~cramped
        if not asked.any():
            continue
        found = nodes.storage.classes.get(claim.storage_class)
        if found is None or not found.provisions:
            unbindable |= asked
            continue
        if found.topologies:
            unbindable |= asked & ~any_term(found.topologies, nodes)
        cramped |= asked & ~unbindable & ~published.suffices(claim)
    return unbindable, cramped


def _size_bytes(claim: VolumeClaim) -> int:
    return claim.size_bytes or 0
