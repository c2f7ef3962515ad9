"""Devices that claims must not get, since their GPUs are in use otherwise.

By pods with shares or slices of Fairlead, by pods of a device plugin, by processes that belong to
no pod, or by a claim that has the same GPU under another name.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from fairlead.cluster import claim_gpus
from fairlead.cluster.claim_gpus import PublishedGpu
from fairlead.cluster.holdings import Holding
from fairlead.model.claims import Allocation, DeviceId
from fairlead.model.device_gpus import are_distinct
from fairlead.model.gpus import GpuUse
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster

#: Devices of nodes that are kept by GPU: about 20 MiB.
_MOST_DEVICES = 65_536


@dataclass(frozen=True, slots=True)
class NodeGpuDevices:
    """The devices of a node that are GPUs or parts of them, by UUID."""

    by_uuid: Mapping[str, tuple[PublishedGpu, ...]]
    count: int
    #: Whether a GPU has several devices, and no counters that keep them apart.
    has_aliases: bool

    @classmethod
    def of(cls, devices: Iterable[PublishedGpu]) -> "NodeGpuDevices":
        found: dict[str, list[PublishedGpu]] = {}
        for device in devices:
            found.setdefault(device.gpu.uuid, []).append(device)
        aliases = any(
            exclude_each_other(first, second)
            for same in found.values()
            for place, first in enumerate(same[:2])
            for second in same[place + 1 :]
        )
        count = sum(map(len, found.values()))
        return cls({uuid: tuple(same) for uuid, same in found.items()}, count, aliases)

    def lack(self, held: Mapping[str, set[DeviceId]]) -> bool:
        """Whether a GPU that is held is published under another name than it is held by."""
        for uuid, keys in held.items():
            same = self.by_uuid.get(uuid, ())
            if same and not keys <= {each.key for each in same}:
                return True
        return False


class ClaimBlocks:
    """Asked for each node on which claims are to be allocated."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._devices: OrderedDict[str, NodeGpuDevices] = OrderedDict()
        self._kept = 0
        #: Devices that were sorted by GPU, in all, and pods that were looked at.
        self._sorted = 0
        self._walked = 0
        #: Whether devices of nodes with slices are surely of different GPUs.
        self._distinct: dict[str, bool] = {}

    @property
    def work(self) -> int:
        """All that was done until now, in devices that are looked at."""
        return 6 * self._sorted + self._walked

    @property
    def in_trial(self) -> bool:
        return self._cluster.in_trial

    def changed(self, node: str) -> None:
        """Slices for the node came, changed or went."""
        self._kept -= _weight(self._devices.pop(node, None))
        self._distinct.pop(node, None)

    def may_clash(self, node: str) -> bool:
        """Whether devices of the node could be of the same GPU."""
        found = self._distinct.get(node)
        if found is None:
            parts = list(self._cluster.claims.slices_on(node))
            found = are_distinct(parts)
            if parts:
                self._distinct[node] = found
        return not found

    def devices(self, node: str) -> NodeGpuDevices:
        found = self._devices.get(node)
        if found is None:
            parts = self._cluster.claims.slices_on(node)
            found = self._devices[node] = NodeGpuDevices.of(claim_gpus.published(parts))
            self._sorted += found.count
            self._kept += _weight(found)
            while self._kept > _MOST_DEVICES and len(self._devices) > 1:
                self._kept -= _weight(self._devices.popitem(last=False)[1])
        self._devices.move_to_end(node)
        return found

    def on(self, node: str) -> frozenset[DeviceId]:
        """The devices of the node that no claim may get now."""
        others = self.others(node)
        held = self._cluster.claim_gpus.on(node)
        if not (others or held):
            return frozenset()
        devices = self.devices(node)
        if not (others or devices.has_aliases or devices.lack(held)):
            return frozenset()
        return frozenset(self._blocked(devices, others, held))

    def _blocked(
        self, devices: NodeGpuDevices, others: set[str], held: Mapping[str, set[DeviceId]]
    ) -> Iterator[DeviceId]:
        for uuid, same in devices.by_uuid.items():
            if uuid in others or "" in others:
                yield from (each.key for each in same)
            elif uuid in held:
                mine = [each for each in same if each.key in held[uuid]]
                gone = held[uuid] - {each.key for each in mine}
                for each in same:
                    if each not in mine and (
                        gone or any(exclude_each_other(each, one) for one in mine)
                    ):
                        yield each.key

    def has_others(self, node: str) -> bool:
        """Whether something other than a claim has a GPU that is published as a device."""
        uuids = self.devices(node).by_uuid
        if not uuids:
            return False
        others = self.others(node)
        return "" in others or not others.isdisjoint(uuids)

    def others(self, node: str) -> set[str]:
        """UUIDs of GPUs that something other than a claim has; "": it is not known which."""
        cluster = self._cluster
        row = cluster.row_of.get(node)
        if row is None:
            return set()
        columns, devices = cluster.columns, cluster.columns.devices
        charged = cluster.claim_gpus.charged.get(node, {})
        amount = columns.requested.item(columns.resource_index[GPU], row)
        found = {gpu.uuid for gpu in devices.gpus(row) if not gpu.healthy}
        if amount == claim_gpus.counted(cluster, node) and len(devices.holders(row)) == len(
            charged
        ):
            return found
        for held in cluster.held_on(node):
            self._walked += 1
            found.update(self._gpus_of(held, row))
            if "" in found:  # it may be any of them
                return found
        for kept in cluster.releasing.on(node):
            found.update(self._names(kept.grant.uses, row))
        return found

    def _gpus_of(self, held: Holding, row: int) -> Iterator[str]:
        uses = [use for _, grant in held.grants() for use in grant.uses]
        if not uses:
            yield from [""] * (dict(held.amounts).get(GPU, 0) > 0)
            return
        picked = self._picked(held, row)
        yield from picked or self._names(uses, row)

    def _picked(self, held: Holding, row: int) -> Sequence[str]:
        """The GPUs that a device plugin picked, where the agent reports them."""
        inventory = self._cluster.columns.devices.inventories.get(row)
        picked = inventory.picked if inventory else None
        return picked.get(held.pod.uid, ()) if picked else ()

    def _names(self, uses: Iterable[GpuUse], row: int) -> Iterator[str]:
        devices = self._cluster.columns.devices
        gpus, slot_of = devices.gpus(row), devices.slots_of(row)
        for use in uses:
            slot = slot_of.get(use.uuid)
            yield use.uuid if slot is None else gpus[slot].uuid

    def clash(self, node: str, found: Iterable[Allocation]) -> DeviceId | None:
        """The first device that is of the same GPU as another one of the same pod."""
        chosen = {each.key for allocation in found for each in allocation.devices}
        if len(chosen) < 2 or not self.may_clash(node):
            return None
        devices = self.devices(node)
        for same in devices.by_uuid.values():
            mine = [each for each in same if each.key in chosen]
            for place, each in enumerate(mine):
                if any(exclude_each_other(each, other) for other in mine[:place]):
                    return each.key
        return None


def exclude_each_other(one: PublishedGpu, other: PublishedGpu) -> bool:
    """Whether two devices of one GPU cannot both be held, and no counters say so."""
    if one.counted and other.counted and one.key[:2] == other.key[:2]:
        return False
    apart = one.gpu.mask and other.gpu.mask and not one.gpu.mask & other.gpu.mask
    return not apart


def _weight(devices: NodeGpuDevices | None) -> int:
    """What a node counts for."""
    return devices.count + 1 if devices else 0
