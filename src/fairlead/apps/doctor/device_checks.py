"""Faults of what drivers publish: pools that give nothing, and GPUs with several names."""

from collections.abc import Iterator

from fairlead.apps.doctor.faults import ClusterFault, listed
from fairlead.claims.pools import PoolKey, assembled, newest
from fairlead.cluster.claim_blocks import exclude_each_other
from fairlead.cluster.claim_gpus import PublishedGpu
from fairlead.cluster.cluster import Cluster
from fairlead.model.nodes import GPU

_DRIVER = "check the driver's pod on the node; it publishes the pool again when it restarts"
_ONE_OF_BOTH = (
    "run the device plugin or the DRA driver on this node, not both: "
    "Fairlead assigns no GPU twice, other schedulers do"
)


def device_faults(cluster: Cluster) -> Iterator[ClusterFault]:
    claims = cluster.claims
    for key in sorted(claims.inventory.pool_keys()):
        yield from _pool(cluster, key)
    for each in sorted(claims.classes.values(), key=lambda known: known.name):
        if each.problem:
            about = f"DeviceClass {each.name}"
            yield ClusterFault("class-unusable", about, each.problem, "change the class")
    nodes = sorted({part.nodes.node_name for part in claims.inventory.slices()} - {""})
    for node in nodes:
        yield from _names(cluster, node)


def _pool(cluster: Cluster, key: PoolKey) -> Iterator[ClusterFault]:
    """No device of such a pool is allocated."""
    every = cluster.claims.inventory.slices_of(key)
    about, parts = f"pool {'/'.join(key)}", newest(every)
    if problem := next((part.problem for part in every if part.problem), ""):
        yield ClusterFault(
            "pool-unusable", about, problem, "use a driver without this alpha feature"
        )
    elif len(parts) != parts[0].slice_count:
        what = (
            f"is published in part: {len(parts)} of {parts[0].slice_count} slices of generation "
            f"{parts[0].generation}; no device of it is allocated"
        )
        yield ClusterFault("pool-incomplete", about, what, _DRIVER)
    elif (pool := assembled(key, parts, every)) and pool.invalid:
        what = f"is invalid: {pool.invalid}; no device of it is allocated"
        yield ClusterFault("pool-invalid", about, what, "report it to the author of the driver")


def _names(cluster: Cluster, node: str) -> Iterator[ClusterFault]:
    devices = cluster.claims.blocks.devices(node).by_uuid
    if not devices:
        return
    about = f"Node {node}"
    known = cluster.node_named(node)
    offered = dict(known.allocatable).get(GPU, 0) if known else 0
    if offered:
        what = (
            f"a device plugin offers {offered} {GPU}, and a DRA driver publishes "
            f"{len(devices)} GPUs: they are the same GPUs"
        )
        yield ClusterFault("gpu-two-names", about, what, _ONE_OF_BOTH)
    for uuid, same in sorted(devices.items()):
        yield from _aliases(about, uuid, same)
        yield from _publishers(cluster, node, uuid)


def _aliases(about: str, uuid: str, same: tuple[PublishedGpu, ...]) -> Iterator[ClusterFault]:
    first = same[0]
    names = [str(each.key) for each in same[1:] if exclude_each_other(first, each)]
    if names:
        what = f"GPU {uuid} is published under several names: {listed([str(first.key), *names])}"
        advice = "none needed with Fairlead, which allocates one of them; other schedulers all"
        yield ClusterFault("gpu-two-names", about, what, advice)


def _publishers(cluster: Cluster, node: str, uuid: str) -> Iterator[ClusterFault]:
    nodes = sorted(cluster.claim_gpus.publishers(uuid))
    if len(nodes) > 1 and node == nodes[0]:
        what = f"GPU {uuid} is published by several nodes: {listed(nodes)}; no pod is placed there"
        advice = "delete the slices of the nodes that do not have the GPU"
        yield ClusterFault("gpu-two-nodes", f"Node {node}", what, advice)
