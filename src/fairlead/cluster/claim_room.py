"""What evicting pods could free for claims: devices of nodes, counted; and claims without users."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fairlead.claims.device_counts import DeviceCounts
from fairlead.claims.errors import AllocationError
from fairlead.cluster.arrays import PerNode, Rows
from fairlead.cluster.claim_outlook import claims_of, unallocated
from fairlead.cluster.device_claims import DeviceClaims
from fairlead.cluster.extended_claims import claim_of_part, parts_of
from fairlead.cluster.extended_classes import extended_owner
from fairlead.cluster.nodes import Nodes
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import PODS, ResourceClaim
from fairlead.model.extended import extended_use
from fairlead.model.pods import Pod

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster

#: Where no devices are needed, there are enough.
_ENOUGH = 1 << 20


def device_counts(uses: tuple[ClaimUse, ...], nodes: Nodes) -> Sequence[DeviceCounts]:
    """For each kind of devices that the claims ask for, by row; none if they cannot be counted."""
    claims, rows = claims_of(uses, nodes.claims), nodes.row_numbers
    if claims is None:
        return ()
    if use := extended_use(uses):
        parts = [(at, claim) for at, part in parts_of(use, nodes) if (claim := claim_of_part(part))]
        if len(parts) != 1:
            return ()
        rows, claims = parts[0][0], [*claims, parts[0][1]]
    asked = unallocated(claims, nodes.claims)
    names = [node.name if node else "" for node in nodes.objects()]
    try:
        found = nodes.claims.allocator.counts(names, asked) if asked else None
    except AllocationError:
        return ()
    return [_elsewhere_enough(each, rows) for each in found or ()]


def _elsewhere_enough(counts: DeviceCounts, rows: Rows) -> DeviceCounts:
    """Only on these rows devices are needed."""

    def limited(found: PerNode) -> PerNode:
        there = np.full(len(found), _ENOUGH, dtype=np.int64)
        there[rows] = found[rows]
        return there

    return replace(counts, free=limited(counts.free), every=limited(counts.every))


def freed_by(
    pods: Iterable[Pod], cluster: "Cluster", preemptor: Pod
) -> Iterator[ResourceClaim]:  # fmt: skip
    """Claims that are deallocated for the preemptor when the pods are gone: no other pod uses them.

    A claim of a PodGroup stays allocated without its pods, one that is being written may get other
    users, and devices of some are kept for another unit.
    """
    state, gone = cluster.claims, {pod.uid: pod for pod in pods}
    found: dict[str, ResourceClaim] = {}
    for pod in gone.values():
        named = (state.claims.get(use.key) for use in pod.request.claims if use.key)
        made = state.extended.claims_of(pod.key, pod.uid)
        found |= {claim.uid: claim for claim in (*named, *made) if claim is not None}
    for claim in found.values():
        users = claim.reserved_for
        is_settled = claim.allocation is not None and state.pending(claim) is None
        is_unused = users and all(user.uid in gone and not user.is_group for user in users)
        if is_settled and is_unused and not _is_kept(claim, cluster, preemptor):
            yield claim


def keepers_of(uid: str, cluster: "Cluster", planned: Pod) -> Collection[str] | None:
    """Uids of pods with which the claim ends; None: it stays allocated, or is not for `planned`.

    Pods that the claim is reserved for, and pods that are on their way to their nodes.
    """
    state = cluster.claims
    claim = state.with_uid(uid)
    if claim is None:
        return (owner,) if (owner := extended_owner(uid)) else None
    if claim.owner_group or (state.kept and _is_kept(claim, cluster, planned)):
        return None
    users, pods = claim.reserved_for, state.holders.pods_of(claim.key)
    if any(user.resource != PODS for user in users):
        return None
    if len(users) == 1 and (not pods or (len(pods) == 1 and users[0].uid in pods)):
        return (users[0].uid,)  # most claims: there are very many
    if any(_is_of_group(claim, cluster.holdings[pod].pod, state) for pod in pods):
        return None
    return {*pods, *(user.uid for user in users)} or None


def _is_of_group(claim: ResourceClaim, pod: Pod, state: DeviceClaims) -> bool:
    """Whether it is to be reserved for the PodGroup of the pod."""
    uses = (use for use in pod.request.claims if use.group and use.key == claim.key)
    return any(state.groups.user_of(use) is not None for use in uses)


def _is_kept(claim: ResourceClaim, cluster: "Cluster", preemptor: Pod) -> bool:
    """Whether what the claim frees is for a unit that the preemptor must respect."""
    kept = cluster.claims.kept
    heir = kept.heir_of(claim.uid)
    its = kept.pod_of(heir) if heir else None
    return its is not None and not cluster.eviction_rule.may_evict(preemptor, its)
