"""The GPUs that claims hold, node by node, in one ledger with everything else.

A device of a GPU driver is the GPU with its UUID. While a claim holds it or a part of it, the whole
GPU is taken for pods that do not use claims; and devices of GPUs that such pods have, or may have,
are blocked for claims. The UUID of a device that is held is remembered: attributes may vanish with
the slice, and the device stays held.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fairlead.cluster.aspects import Aspect
from fairlead.model.claims import AllocatedDevice, DeviceId
from fairlead.model.device_gpus import NVIDIA, DeviceGpu, address_of, gpu_of, model_of
from fairlead.model.devices import Device, ResourceSlice
from fairlead.model.gpus import Gpu, GpuUse, Grant
from fairlead.model.holders import Holder, claims_holder
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster

#: As many memory slices as a GPU can have: all of one that is divided.
_ALL_SLICES = 8

Grants = dict[Holder, Grant]


@dataclass(frozen=True, slots=True)
class PublishedGpu:
    """A device of a node that is a GPU or a part of one."""

    key: DeviceId
    gpu: DeviceGpu
    #: Whether counters of its pool keep its parts apart.
    counted: bool


class ClaimGpus:
    """Which GPUs are held by claims. Plain storage; the functions below keep the ledger."""

    def __init__(self) -> None:
        #: Devices that claims hold, of any driver, and how many results name each.
        self._held: Counter[DeviceId] = Counter()
        #: Pools that they are of.
        self.pools: Counter[tuple[str, str]] = Counter()
        #: Those that are GPUs, as far as it is known, as long as they are held.
        self._known: dict[DeviceId, DeviceGpu] = {}
        #: Devices that are held on each node, by UUID; "": it is not known of which GPU.
        self._on: dict[str, dict[str, set[DeviceId]]] = {}
        #: Nodes that publish a GPU, by UUID: one, unless a slice is forged.
        self._publishers: dict[str, Counter[str]] = {}
        #: Models of the GPUs that slices publish, by node and UUID.
        self.models: dict[str, dict[str, str]] = {}
        #: What the ledger has of each node.
        self.charged: dict[str, Grants] = {}

    def take(self, key: DeviceId, gpu: DeviceGpu | None) -> None:
        """One more result names the device; None: it may be published later which GPU it is."""
        self._held[key] += 1
        self.pools[key.driver, key.pool] += 1
        if gpu is not None and key not in self._known:
            self._know(key, gpu)

    def free(self, key: DeviceId) -> str:
        """A result names the device no more; the node that it is on, if it is a GPU."""
        if key not in self._held:
            return ""
        pool, known = (key.driver, key.pool), self._known.get(key)
        self._held[key] -= 1
        self.pools[pool] -= 1
        if not self.pools[pool]:
            del self.pools[pool]
        if not self._held[key]:
            del self._held[key]
            if known is not None:
                self._forget(key)
        return known.node if known is not None else ""

    def renew(self, key: DeviceId, gpu: DeviceGpu) -> str:
        """The device was published, with its UUID; the node that it was on so far."""
        known = self._known.get(key)
        if key not in self._held or gpu == known:
            return ""
        if known is not None:
            self._forget(key)
        self._know(key, gpu)
        return known.node if known is not None else ""

    def count_publisher(self, uuid: str, node: str, sign: int) -> set[str]:
        """A slice for the node publishes the GPU, or does no more.

        Nodes that contradict others now, or do no more: not all that publish it, in each event.
        """
        nodes = self._publishers.setdefault(uuid, Counter())
        before = len(nodes)
        nodes[node] += sign
        if not nodes[node]:
            del nodes[node]
        if not nodes:
            del self._publishers[uuid]
        changed = {node} if len(nodes) != before else set()
        return changed | set(nodes) if {before, len(nodes)} == {1, 2} else changed

    def is_published_elsewhere(self, uuid: str, node: str) -> bool:
        """Whether the node publishes the GPU, and another one does, too."""
        nodes = self._publishers.get(uuid, ())
        return node in nodes and len(nodes) > 1

    def gpu_of(self, key: DeviceId) -> DeviceGpu | None:
        """The GPU of a device that is held, if it is known."""
        return self._known.get(key)

    def know_model(self, gpu: DeviceGpu, model: str) -> None:
        """To be called after the publishers were counted."""
        there = self.models.setdefault(gpu.node, {})
        if gpu.node not in self._publishers.get(gpu.uuid, ()):
            there.pop(gpu.uuid, None)
        elif model or gpu.uuid not in there:
            there[gpu.uuid] = model
        if not there:
            del self.models[gpu.node]

    def publishers(self, uuid: str) -> set[str]:
        return set(self._publishers.get(uuid, ()))

    def on(self, node: str) -> dict[str, set[DeviceId]]:
        """Devices by UUID."""
        return self._on.get(node, {})

    def _know(self, key: DeviceId, gpu: DeviceGpu) -> None:
        self._known[key] = gpu
        self._on.setdefault(gpu.node, {}).setdefault(gpu.uuid, set()).add(key)

    def _forget(self, key: DeviceId) -> None:
        gpu = self._known.pop(key)
        on = self._on[gpu.node]
        on[gpu.uuid].discard(key)
        if not on[gpu.uuid]:
            del on[gpu.uuid]
        if not on:
            del self._on[gpu.node]


def published(parts: Iterable[ResourceSlice]) -> Iterable[PublishedGpu]:
    """The devices of a node that are GPUs or parts of them, as published last."""
    ordered = sorted(parts, key=lambda part: part.generation)
    devices = [(part, device) for part in ordered for device in part.devices]
    addresses = _addresses(devices)
    found: dict[DeviceId, PublishedGpu] = {}
    for part, device in devices:
        gpu = gpu_of(part, device, addresses)
        if gpu is not None:
            key = DeviceId(part.driver, part.pool, device.name)
            found[key] = PublishedGpu(key, gpu, bool(device.form.consumes))
    return found.values()


def _addresses(devices: Iterable[tuple[ResourceSlice, Device]]) -> dict[str, str]:
    """UUIDs by PCI address, of devices that publish both."""
    found: dict[str, str] = {}
    for part, device in devices:
        address = address_of(device)
        gpu = gpu_of(part, device, {}) if address else None
        if gpu is not None and not gpu.mask:
            found[address] = gpu.uuid
    return found


# -- the ledger ------------------------------------------------------------------------------


def follow(
    cluster: "Cluster", freed: Iterable[AllocatedDevice], taken: Iterable[AllocatedDevice]
) -> None:
    """Claims hold other devices than before."""
    gpus, nodes = cluster.claim_gpus, set()
    for device in taken:
        if not device.admin_access:
            found = _gpu_of(cluster, device)
            gpus.take(device.key, found)
            nodes.add(found.node if found else "")
    for device in freed:
        if not device.admin_access:
            nodes.add(gpus.free(device.key))
    for node in nodes - {""}:
        charge(cluster, node)


def publish(cluster: "Cluster", nodes: Iterable[str]) -> None:
    """Slices for these nodes came, changed or went."""
    gpus = cluster.claim_gpus
    for node in nodes if gpus.pools else ():
        parts = cluster.claims.slices_on(node)
        if any((part.driver, part.pool) in gpus.pools for part in parts):
            before = {gpus.renew(each.key, each.gpu) for each in published(parts)}
            for each in (before | {node}) - {""}:
                charge(cluster, each)


def count_published(cluster: "Cluster", part: ResourceSlice | None, sign: int) -> None:
    """A slice came or went. Nothing is placed on nodes that publish the same GPU."""
    if part is None or part.driver != NVIDIA:
        return
    for device in part.devices:
        gpu = gpu_of(part, device, {})
        if gpu is not None:
            for node in cluster.claim_gpus.count_publisher(gpu.uuid, gpu.node, sign):
                _judge(cluster, node, gpu.uuid)
            cluster.claim_gpus.know_model(gpu, model_of(device) if sign > 0 else "")


def _judge(cluster: "Cluster", node: str, uuid: str) -> None:
    cause = f"GPU {uuid} on {node}"
    if cluster.claim_gpus.is_published_elsewhere(uuid, node):
        cluster.distrust(node, cause)
    else:
        cluster.trust(cause)


def charge(cluster: "Cluster", node: str) -> None:
    """The ledger has what claims hold of the node's GPUs, and no more."""
    row = cluster.row_of.get(node)
    old = cluster.claim_gpus.charged.get(node, {})
    new = {} if row is None else _grants(cluster, node)
    if row is None or old == new:
        return
    columns, devices = cluster.columns, cluster.columns.devices
    for holder in old:
        devices.release(row, holder)
    for holder, grant in new.items():
        devices.occupy(row, holder, grant)
    columns.requested[columns.resource_index[GPU], row] += _counted(new) - _counted(old)
    cluster.claim_gpus.charged[node] = new
    if not new:
        del cluster.claim_gpus.charged[node]
    cluster.changes.add(row, Aspect.DEVICES | Aspect.USAGE)
    _mark_trust(cluster, node)


def counted(cluster: "Cluster", node: str) -> int:
    """How many GPUs of the node claims hold."""
    return _counted(cluster.claim_gpus.charged.get(node, {}))


def _counted(grants: Grants) -> int:
    return sum(len(grant.uses) for grant in grants.values())


def _grants(cluster: "Cluster", node: str) -> Grants:
    """One holder for each GPU, whatever parts of it claims have."""
    listed = {gpu.uuid: gpu for gpu in cluster.columns.devices.gpus(cluster.row_of[node])}
    if not (listed or _serves_plugin(cluster, node)):
        return {}
    found: Grants = {}
    for uuid, keys in cluster.claim_gpus.on(node).items():
        uses = [_use(uuid, listed.get(uuid))] if uuid else [GpuUse("")] * len(keys)
        found[claims_holder(node, uuid)] = Grant(tuple(uses))
    return found


def _use(uuid: str, gpu: Gpu | None) -> GpuUse:
    if gpu is not None and gpu.mig:
        return GpuUse(uuid, whole=False, milli=0, slices=_ALL_SLICES)
    return GpuUse(uuid)


def _serves_plugin(cluster: "Cluster", node: str) -> bool:
    """Whether a device plugin offers GPUs there."""
    found = cluster.node_named(node)
    return found is not None and dict(found.allocatable).get(GPU, 0) > 0


def _mark_trust(cluster: "Cluster", node: str) -> None:
    """Nothing is placed beside a device that may be any of the GPUs."""
    cause = f"claims on {node}"
    if claims_holder(node, "") in cluster.claim_gpus.charged.get(node, {}):
        cluster.distrust(node, cause)
    else:
        cluster.trust(cause)


def _node_of(cluster: "Cluster", device: AllocatedDevice) -> str:
    """NVIDIA's pools have the names of their nodes, also when no slice is there."""
    nodes = cluster.claims.nodes_of(device.driver, device.pool)
    single = [node for node in nodes if node]
    if len(single) == 1:
        return single[0]
    return device.pool if device.driver == NVIDIA and not single else ""


def _gpu_of(cluster: "Cluster", device: AllocatedDevice) -> DeviceGpu | None:
    """The GPU of a device that a claim gets; of NVIDIA's driver, one that is not known."""
    node = _node_of(cluster, device)
    found = _find(cluster, node, device.key) if node else None
    return found or (DeviceGpu(node, "") if node and device.driver == NVIDIA else None)


def _find(cluster: "Cluster", node: str, key: DeviceId) -> DeviceGpu | None:
    every = cluster.claims.blocks.devices(node).by_uuid.values()
    return next((each.gpu for same in every for each in same if each.key == key), None)
