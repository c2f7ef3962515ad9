"""Changes of resource claims and devices, logged: which nodes they concern, and whom they help."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from fairlead.claims.free_devices import can_be_held
from fairlead.claims.shared_slices import lines_of
from fairlead.cluster import claim_gpus
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.changes import ANYWHERE
from fairlead.cluster.device_claims import ClaimChange, ClaimWrite
from fairlead.cluster.kept_devices import holder_of
from fairlead.model.claims import AllocatedDevice, ClaimObject, ResourceClaim
from fairlead.model.devices import DeviceNodes, ResourceSlice
from fairlead.model.pods import Pod

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster
    from fairlead.cluster.holdings import Holding

#: Devices that are free are of use to claims, and may be GPUs that other pods wait for.
_FREED = Aspect.CLAIMS | Aspect.DEVICES | Aspect.USAGE
#: A change that concerns more nodes is one that concerns all.
_FEW = 8
#: Of one node, in all its own slices: what a turn has time for. Machines have hundreds.
MOST_DEVICES = 4096
#: Of no single node, in all: each node that is asked has to look at all of them.
MOST_SHARED = 16_384
#: Lines of selectors of such slices and devices, in all: each node is compared with all of them.
MOST_LINES = 65_536


def put(cluster: "Cluster", seen: ClaimObject) -> bool:
    """An object was seen; whether anything about it is new."""
    if isinstance(seen, ResourceSlice):
        seen = _within_limit(cluster, seen)
        claim_gpus.count_published(cluster, seen, +1)
        claim_gpus.count_published(cluster, cluster.claims.slice_named(seen.name), -1)
    change = cluster.claims.put(seen)
    _log(cluster, seen, change)
    if change.freed:
        cluster.improved.add(_FREED)
    elif change.seen and not isinstance(seen, ResourceClaim):
        cluster.improved.add(Aspect.CLAIMS)
    if change.seen and isinstance(seen, ResourceClaim) and cluster.tenants is not None:
        _count_again(cluster, seen)
    return change.seen


def _within_limit(cluster: "Cluster", part: ResourceSlice) -> ResourceSlice:
    """The slice; without devices and of no pool if more of them are listed than may be.

    So its pool is incomplete there, and no other node is concerned whose pool it may name.
    """
    node = part.nodes.node_name
    whose = f"the slices of node {node}" if node else "all slices of no single node together"
    listed, most = _listed_beside(cluster, part), MOST_DEVICES if node else MOST_SHARED
    if not node and _lines_with(cluster, part) > MOST_LINES:
        problem = f"selectors of nodes of {whose} have more than {MOST_LINES} lines"
        part = replace(part, nodes=DeviceNodes())
    elif part.devices and listed + len(part.devices) > most:
        problem = f"{whose} list more than {most} devices"
    else:
        return part
    return replace(part, pool="", slice_count=1, devices=(), counter_sets=(), problem=problem)


def _lines_with(cluster: "Cluster", part: ResourceSlice) -> int:
    """Lines of the selectors of all slices of no single node, with this one as it is now."""
    before = cluster.claims.slice_named(part.name)
    own = lines_of(before) if before is not None and not before.nodes.node_name else 0
    return cluster.claims.inventory.shared_lines - own + lines_of(part)


def _listed_beside(cluster: "Cluster", part: ResourceSlice) -> int:
    """Devices of other slices that count for the same limit."""
    if node := part.nodes.node_name:
        others = (each for each in cluster.claims.slices_on(node) if each.name != part.name)
        return sum(len(each.devices) for each in others)
    before = cluster.claims.slice_named(part.name)
    own = len(before.devices) if before is not None and not before.nodes.node_name else 0
    return cluster.claims.inventory.shared_devices - own


def _count_again(cluster: "Cluster", claim: ResourceClaim) -> None:
    """Other pods may count for the claim than before."""
    users = (user.uid for user in claim.reserved_for)
    for uid in dict.fromkeys((*users, *cluster.claims.groups.users(claim))):
        held = cluster.holdings.get(uid)
        if held is not None and cluster.tenants is not None:
            cluster.tenants.count_again(held)


def count_for_others(cluster: "Cluster", left: "Holding") -> None:
    """The pod has no node any more: a claim of a PodGroup counts for another pod."""
    for use in left.pod.request.claims:
        uid = cluster.claims.groups.left(left.pod.uid, use.key)
        held = cluster.holdings.get(uid) if uid else None
        if held is not None and cluster.tenants is not None:
            cluster.tenants.count_again(held)


def remove(cluster: "Cluster", gone: ClaimObject) -> None:
    """An object is gone. Only devices of a claim that is gone are of use to others."""
    nodes = _nodes_of(cluster, gone)
    if isinstance(gone, ResourceSlice):
        claim_gpus.count_published(cluster, cluster.claims.slice_named(gone.name), -1)
    change = cluster.claims.remove(gone)
    _log(cluster, gone, change, nodes)
    if change.freed:
        cluster.improved.add(_FREED)


def assume(cluster: "Cluster", writes: Sequence[ClaimWrite], *, in_trial: bool = False) -> None:
    """The claims are being written: what they get is held from now on."""
    _log_devices(cluster, cluster.claims.assume(writes, in_trial=in_trial))


def settle(cluster: "Cluster", writes: Sequence[ClaimWrite]) -> None:
    """They are written, or are not: claims have what the API server shows."""
    if undo(cluster, writes):
        cluster.improved.add(_FREED)


def undo(cluster: "Cluster", writes: Sequence[ClaimWrite]) -> bool:
    """The same; whether devices are free now. Only views see the change."""
    change = cluster.claims.settle(writes)
    _log_devices(cluster, change)
    return bool(change.freed)


def hide(cluster: "Cluster", uids: Iterable[str], *, hidden: bool) -> None:
    """In a trial: as if the claims held nothing. Only views see the change."""
    for uid in uids:
        cluster.work.trials += 1
        _log_devices(cluster, cluster.claims.hide(uid, hidden=hidden))


def keep(
    cluster: "Cluster",
    key: str,
    pod: Pod,
    claims: Iterable[ResourceClaim],
    devices: Iterable[AllocatedDevice],
) -> None:
    """What these claims free is kept for a unit, and so are the devices that are free now."""
    free = [each for each in devices if _is_alone(cluster, each)]
    _log_pools(cluster, cluster.claims.keep(key, pod, (claim.uid for claim in claims), free))


def keep_again(
    cluster: "Cluster", key: str, nodes: Iterable[str], devices: Iterable[AllocatedDevice]
) -> None:
    """Devices of these nodes that were kept for the unit are kept again, if they are free."""
    state, rows = cluster.claims, [cluster.row_of[node] for node in nodes if node in cluster.row_of]
    known = [cluster.node_at(row) for row in rows]
    for device in devices:
        for node in known:
            blocked = state.blocks.on(node.name)
            pools = state.inventory.on(node.name, node.labels)
            if device.key not in blocked and can_be_held(device, pools, state.usage):
                _log_pools(cluster, state.keep_more(key, device))
                break


def keep_no_more(cluster: "Cluster", key: str) -> None:
    """Others may have what was kept for the unit."""
    change = cluster.claims.keep_no_more(key)
    _log_pools(cluster, change)
    if change.freed:
        cluster.improved.add(_FREED)


@contextmanager
def opened_to(cluster: "Cluster", key: str, pod: Pod) -> Iterator[list[str]]:
    """Meanwhile the unit sees as free what is kept for it, and for units that it may evict.

    Afterwards the list has the units that have lost devices to it. What is open already stays open.
    """
    state, may_evict, lost = cluster.claims, cluster.eviction_rule.may_evict, list[str]()
    opened = {other: state.kept.devices(other) for other, its in state.kept
              if (other == key or may_evict(pod, its))
              and not state.is_hidden(holder_of(other))}  # fmt: skip
    for other in opened:
        _log_pools(cluster, state.hide(holder_of(other), hidden=True))
    try:
        yield lost
    finally:
        for other, devices in opened.items():
            taken = any(state.usage.is_whole(device.key) for device in devices)
            lost += [other] if taken and other != key else []
            _log_pools(cluster, state.hide(holder_of(other), hidden=False))
            if not all(state.usage.is_held(device.key) for device in devices):
                cluster.improved.add(_FREED)  # it was kept, and is of no use to the unit


def _is_alone(cluster: "Cluster", device: AllocatedDevice) -> bool:
    """Whether it can be held beforehand: its use depends on no other device."""
    if device.share_id is not None:
        return False
    for node in cluster.claims.users_of(device.driver, device.pool):
        for part in cluster.claims.slices_on(node):
            if (part.driver, part.pool) == (device.driver, device.pool):
                found = (each.form for each in part.devices if each.name == device.device)
                if form := next(found, None):
                    return not form.consumes and not form.shareable
    return False


def unreserved(cluster: "Cluster", pod: Pod) -> str:
    """Why a kubelet would not start the pod: a claim that is not reserved for it."""
    for use in pod.request.claims:
        claim = cluster.claims.claims.get(use.key)
        if claim is not None and not claim.is_reserved_for(pod.uid, use.group):
            return f"claim {claim.key} is not reserved for the pod any more"
    return ""


def _log(
    cluster: "Cluster", about: ClaimObject, change: ClaimChange, before: Iterable[str] = ()
) -> None:
    if not change.seen:
        return
    _log_devices(cluster, change)
    if isinstance(about, ResourceSlice):
        nodes = {*before, *_nodes_of(cluster, about)}
        for node in nodes:
            cluster.claims.blocks.changed(node)
        claim_gpus.publish(cluster, nodes)
        _log_nodes(cluster, nodes)
    elif not isinstance(about, ResourceClaim):
        cluster.changes.add(ANYWHERE, Aspect.CLAIMS)


def _nodes_of(cluster: "Cluster", about: ClaimObject) -> list[str]:
    if not isinstance(about, ResourceSlice):
        return []
    return list(cluster.claims.nodes_of(about.driver, about.pool))


def _log_devices(cluster: "Cluster", change: ClaimChange) -> None:
    claim_gpus.follow(cluster, change.freed, change.taken)
    devices: Iterable[AllocatedDevice] = (*change.freed, *change.taken)
    pools = {(device.driver, device.pool) for device in devices}
    _log_nodes(cluster, {node for pool in pools for node in cluster.claims.users_of(*pool)})


def _log_pools(cluster: "Cluster", change: ClaimChange) -> None:
    """Pool by pool: devices of many nodes are kept for a gang, and only these nodes changed."""
    pools = {(each.driver, each.pool) for each in (*change.freed, *change.taken)}
    for pool in sorted(pools):
        freed, taken = (
            tuple(each for each in devices if (each.driver, each.pool) == pool)
            for devices in (change.freed, change.taken)
        )
        _log_devices(cluster, ClaimChange(True, freed, taken))


def _log_nodes(cluster: "Cluster", nodes: set[str]) -> None:
    if "" in nodes or len(nodes) > _FEW:
        cluster.changes.add(ANYWHERE, Aspect.CLAIMS)
        return
    for row in (cluster.row_of.get(node) for node in nodes):
        if row is not None:
            cluster.changes.add(row, Aspect.CLAIMS)
