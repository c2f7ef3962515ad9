"""The GPUs that pods have by claims, for people and for readings.

In the ledger a claim holds them, and no pod. A claim that several pods use is shown for the first
one that it is reserved for, as in queues.
"""

from collections.abc import Mapping
from dataclasses import replace

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.model.claims import AllocatedDevice
from fairlead.model.device_gpus import DeviceGpu, profile_of
from fairlead.model.gpus import GpuUse, Grant

#: By the uid of the pod.
ClaimedGrants = Mapping[str, Grant]


def claimed_grants(cluster: Cluster) -> ClaimedGrants:
    """Of all pods with claims for GPUs; claims of PodGroups are not shown for a pod."""
    if not cluster.claim_gpus.pools:
        return {}
    found: dict[str, tuple[GpuUse, ...]] = {}
    for claim in cluster.claims.claims.values():
        users = claim.reserved_for
        if users and not users[0].is_group and (held := cluster.claims.held.get(claim.uid)):
            uses = [use for device in held if (use := _use(cluster, device)) is not None]
            found[users[0].uid] = (*found.get(users[0].uid, ()), *uses)
    return {uid: Grant(uses) for uid, uses in found.items() if uses}


def with_claimed(held: Holding, grants: ClaimedGrants) -> Holding:
    """What the pod has, by claims or else."""
    grant = grants.get(held.pod.uid)
    return held if grant is None or held.grant is not None else replace(held, grant=grant)


def _use(cluster: Cluster, device: AllocatedDevice) -> GpuUse | None:
    gpu = None if device.admin_access else cluster.claim_gpus.gpu_of(device.key)
    if gpu is None or not gpu.uuid:
        return None
    return GpuUse(gpu.uuid) if not gpu.mask else _slice(gpu, device.device)


def _slice(gpu: DeviceGpu, device: str) -> GpuUse:
    start = (gpu.mask & -gpu.mask).bit_length() - 1
    return GpuUse(gpu.uuid, False, 0, 0, profile_of(device), start, gpu.mask.bit_count())
