"""Which of several equal devices a claim gets, where a profile chooses by Fairlead's policies.

kube-scheduler takes the first devices that fit. Whole GPUs that work well together, and places of
slices of MIG where the least is lost, are better. The search for devices is repeated with the other
equal devices left out: what it finds is possible by all rules, and otherwise the first choice
stands.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fairlead.claims.errors import AllocationError, InvalidPools
from fairlead.cluster.cluster import Cluster
from fairlead.model.claims import AllocatedDevice, Allocation, DeviceId
from fairlead.model.device_gpus import DeviceGpu, gpu_of
from fairlead.model.devices import Device
from fairlead.model.gpus import Gpu, Inventory, MigProfile
from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.links import best_set
from fairlead.placement.mig import Kinds, profile_place
from fairlead.plugins.claim_step import ClaimStep

#: Attributes that tell equal devices apart; the part after the domain.
_ADDRESSES = ("pciBusID", "pciAddress", "pciAddr", "pcieRoot", "numaNode")
_NUMBERS = ("index", "minor", "cardIndex", "renderIndex")
_OWN = frozenset(("uuid", "parentUUID", *_ADDRESSES, *_NUMBERS))
_NUMA, _ROOT, _PROFILE = "numaNode", "pcieRoot", "profile"
#: All memory slices of a GPU.
_ALL = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class _Published:
    key: DeviceId
    device: Device
    gpu: DeviceGpu

    @property
    def kind(self) -> object:
        """What is equal of devices that can stand in for each other."""
        form = self.device.form
        same = tuple(each for each in self.device.attributes if _short(each[0]) not in _OWN)
        is_part = bool(self.gpu.mask)
        return self.key.driver, same, form.capacity, form.taints, form.shareable, is_part

    def attribute(self, name: str) -> object:
        return next((value for key, value in self.device.attributes if _short(key) == name), None)


def chosen(step: ClaimStep, node: str, cluster: Cluster) -> ClaimStep:
    """The step with the better devices, if there are any."""
    state, row = cluster.claims, cluster.row_of.get(node)
    new = [each for each in step.writes if each.allocation and not state.pending(each.claim)]
    first = [each.allocation for each in new if each.allocation is not None]
    others = _others(first, node, cluster)
    if not others or row is None:
        return step
    try:
        found = state.allocate(cluster.node_at(row), [each.claim for each in new], others)
    except (AllocationError, InvalidPools):
        return step
    if found is None or _requests(found) != _requests(first):
        return step
    better = {each.claim.key: given for each, given in zip(new, found, strict=True)}
    writes = (replace(each, allocation=better.get(each.claim.key, each.allocation))
              for each in step.writes)  # fmt: skip
    return replace(step, writes=tuple(writes))


def _requests(found: Sequence[Allocation]) -> list[str]:
    """Alternatives that were taken: they are not ours to choose."""
    return [device.request for each in found for device in each.devices]


def _others(found: Sequence[Allocation], node: str, cluster: Cluster) -> frozenset[DeviceId]:
    """Free devices that are equal to those found, and are worse."""
    taken = [device for each in found for device in each.devices if _is_whole(device)]
    published = {each.key: each for each in _published(node, cluster)}
    kinds: dict[object, int] = {}
    for device in taken:
        if (known := published.get(device.key)) is not None:
            kinds[known.kind] = kinds.get(known.kind, 0) + 1
    blocked, worse = cluster.claims.blocks.on(node), set()
    for kind, count in kinds.items():
        alike = (each for each in published.values() if each.kind == kind)
        free = [each for each in alike if each.key not in blocked and _is_free(each, cluster)]
        best = _best(free, count, list(published.values()), node, cluster)
        worse |= {each.key for each in free} - best if best else set()
    return frozenset(worse)


def _is_free(each: _Published, cluster: Cluster) -> bool:
    """No claim has the device, nor a part of the whole GPU."""
    used = _used(each.gpu.uuid, each.gpu.node, cluster)
    return not used & (each.gpu.mask or _ALL)


def _is_whole(device: AllocatedDevice) -> bool:
    return not device.admin_access and device.share_id is None


def _published(node: str, cluster: Cluster) -> Iterator[_Published]:
    """Devices of the node that are GPUs or parts of them."""
    for part in cluster.claims.slices_on(node):
        for device in part.devices:
            if (gpu := gpu_of(part, device, {})) is not None:
                yield _Published(DeviceId(part.driver, part.pool, device.name), device, gpu)


def _best(
    free: Sequence[_Published], count: int, all_: Sequence[_Published], node: str, cluster: Cluster
) -> set[DeviceId]:
    """So many of the free devices; nothing: the first ones will do."""
    if count >= len(free):
        return set()
    if free[0].gpu.mask:
        return _best_place(free, all_, node, cluster) if count == 1 else set()
    inventory = _inventory(free, node, cluster)
    slots = {gpu.uuid: slot for slot, gpu in enumerate(inventory.gpus)}
    by_slot = {slots[each.gpu.uuid]: each.key for each in free}
    return {by_slot[slot] for slot in best_set(sorted(by_slot), count, inventory)}


def _inventory(free: Sequence[_Published], node: str, cluster: Cluster) -> Inventory:
    """With links, where an agent or labels say so; else what the driver publishes."""
    known = cluster.inventory_of(node)
    if known is not None and {each.gpu.uuid for each in free} <= {gpu.uuid for gpu in known.gpus}:
        return known
    roots = sorted({str(each.attribute(_ROOT)) for each in free})
    gpus: list[Gpu] = []
    for each in sorted(free, key=lambda each: each.gpu.uuid):
        numa = each.attribute(_NUMA)
        place = numa if isinstance(numa, int) else roots.index(str(each.attribute(_ROOT)))
        gpus.append(Gpu(each.gpu.uuid, len(gpus), numa=place))
    return Inventory(tuple(gpus))


def _best_place(
    free: Sequence[_Published], all_: Sequence[_Published], node: str, cluster: Cluster
) -> set[DeviceId]:
    """The slice where the least is lost for others."""
    profile = str(free[0].attribute(_PROFILE))
    uuids = sorted({each.gpu.uuid for each in free})
    cuts = {slot: (_kinds(uuid, all_), _used(uuid, node, cluster))
            for slot, uuid in enumerate(uuids)}  # fmt: skip
    place = profile_place(profile, cuts)
    if place is None:
        return set()
    slot, start, length = place
    wanted = uuids[slot], ((1 << length) - 1) << start
    return {each.key for each in free if (each.gpu.uuid, each.gpu.mask) == wanted}


def _kinds(uuid: str, all_: Sequence[_Published]) -> Kinds:
    """How the GPU can be cut, by what the driver publishes."""
    starts: dict[tuple[str, int], set[int]] = {}
    for each in all_:
        mask = each.gpu.mask
        if each.gpu.uuid == uuid and mask:
            kind = str(each.attribute(_PROFILE)), mask.bit_count()
            starts.setdefault(kind, set()).add((mask & -mask).bit_length() - 1)
    return tuple(MigProfile(name, length, tuple(sorted(found)))
                 for (name, length), found in sorted(starts.items()))  # fmt: skip


def _used(uuid: str, node: str, cluster: Cluster) -> int:
    """Its memory slices in use."""
    found = 0
    for key in cluster.claim_gpus.on(node).get(uuid, ()):
        gpu = cluster.claim_gpus.gpu_of(key)
        found |= (gpu.mask if gpu else 0) or _ALL
    return found


def _short(name: str) -> str:
    return name.rpartition("/")[2]
