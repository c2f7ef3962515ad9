"""What one pod does with its GPUs just now, from the ledger and from readings."""

from collections.abc import Sequence

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.cluster.picked import named_uses, picked_by_several
from fairlead.model.gpus import WHOLE, Gpu, GpuUse
from fairlead.model.machines import geometry_of
from fairlead.telemetry.latest import LatestReadings
from fairlead.telemetry.rightsizing import PodAllocation
from fairlead.telemetry.usage import IDLE, Sample

_NO_GPU = Gpu("", -1)


def holds_gpus(held: Holding) -> bool:
    """A scheduling map may give a pod no GPU at all; a reservation pod has its GPU for others."""
    if held.pod.reservation is not None:
        return False
    return held.grant is not None and bool(held.grant.uses)


def gpus_of(held: Holding, cluster: Cluster) -> Sequence[Gpu]:
    """The GPUs that a pod holds, in its order; one without a name if it is not known which."""
    row = cluster.row_of.get(held.node)
    if row is None or held.grant is None:
        return ()
    devices = cluster.columns.devices
    slots, gpus = devices.slots_of(row), devices.gpus(row)
    if not devices.known.item(row) and held.grant.uses and held.grant.uses[0].whole:
        return _picked(held, cluster)
    places = [slots.get(use.uuid) for use in held.grant.uses]
    return [_NO_GPU if place is None else gpus[place] for place in places]


def _picked(held: Holding, cluster: Cluster) -> Sequence[Gpu]:
    """Whole GPUs that a device plugin chose, where the agent lists them, or that claims have."""
    node = cluster.node_named(held.node)
    listed = node.inventory.gpus if node and node.inventory else ()
    published = cluster.claim_gpus.models.get(held.node, {}).items()
    if not listed and not published:
        return [_NO_GPU] * len(held.grant.uses) if held.grant else ()
    by_uuid = {uuid: Gpu(uuid, -1, model) for uuid, model in published}
    by_uuid |= {gpu.uuid: gpu for gpu in listed if gpu.uuid}
    return [by_uuid.get(use.uuid, _NO_GPU) for use in named_uses(cluster, held)]


def part_of(use: GpuUse, gpu: Gpu) -> float:
    """How much of a GPU that is: of compute, memory or slices, whichever is most."""
    if use.whole:
        return 1.0
    if use.slices:
        return use.slices / max((kind.slices for kind in gpu.mig), default=8)
    memory = use.memory_mib / gpu.memory_mib if gpu.memory_mib else 0.0
    return min(1.0, max(use.milli / WHOLE, memory))


def sample(held: Holding, cluster: Cluster, told: LatestReadings) -> Sample:
    """Best by the GPUs that it has for itself, then by readings of its own."""
    assert held.grant is not None
    uses, gpus = held.grant.uses, gpus_of(held, cluster)
    named = any(gpu.uuid for gpu in gpus)
    if uses[0].whole and named and not picked_by_several(cluster, held):
        return _alone(gpus, told)
    parts = [part_of(use, gpu) for use, gpu in zip(uses, gpus, strict=False)]
    own = told.pod(held.pod.key, held.pod.uid)
    memory = own.memory_used_mib if own else None
    if own is not None and own.utilisation is not None:
        used = own.utilisation * len(uses)
        busy = (1 << len(uses)) - 1 if own.utilisation >= IDLE else 0
        return Sample(sum(parts), sum(parts), used, _each(memory, uses), busy)
    if any(use.slices for use in uses) or uses[0].whole or not named:
        return Sample(sum(parts) or float(len(uses)), memory_mib=_each(memory, uses))
    return _shared(held, cluster, told, gpus, parts, _each(memory, uses))


def _alone(gpus: Sequence[Gpu], told: LatestReadings) -> Sample:
    measured, used, busy, highest = 0, 0.0, 0, None
    for bit, gpu in enumerate(gpus):
        reading = told.gpu(gpu.uuid, gpu.index) if gpu.uuid else None
        if reading is None:
            continue
        level, memory = reading.utilisation, reading.memory_used_mib
        if level is not None:
            measured, used = measured + 1, used + level
            busy |= (level >= IDLE) << bit
        if memory is not None and (highest is None or memory > highest):
            highest = memory
    return Sample(float(len(gpus)), float(measured), used, highest, busy)


def _shared(
    held: Holding,
    cluster: Cluster,
    told: LatestReadings,
    gpus: Sequence[Gpu],
    parts: Sequence[float],
    memory_mib: float | None,
) -> Sample:
    """By its part of what the GPU does, which is a guess unless it is alone there."""
    devices, row = cluster.columns.devices, cluster.row_of[held.node]
    slots = devices.slots_of(row)
    used, measured, busy, guessed = 0.0, 0.0, 0, False
    for bit, (gpu, part) in enumerate(zip(gpus, parts, strict=False)):
        reading = told.gpu(gpu.uuid, gpu.index) if gpu.uuid else None
        if reading is None or reading.utilisation is None:
            continue
        slot = slots[gpu.uuid]
        others = int(devices.users[row, slot]) > 1
        everybody = max(part, 1.0 - float(devices.milli_free[row, slot]) / WHOLE)
        own = reading.utilisation * (part / everybody if others and everybody else 1.0)
        used, measured = used + own, measured + part
        busy |= (own >= IDLE) << bit
        guessed |= others
        if not others and memory_mib is None:
            memory_mib = reading.memory_used_mib
    return Sample(sum(parts), measured, used, memory_mib, busy, guessed)


def allocation_of(held: Holding, cluster: Cluster) -> PodAllocation:
    """What it has of each GPU, for advice."""
    assert held.grant is not None
    use = held.grant.uses[0]
    gpu = next((gpu for gpu in gpus_of(held, cluster) if gpu.uuid), _NO_GPU)
    mig = gpu.mig or geometry_of(gpu.model, gpu.memory_mib)
    return PodAllocation(
        len(held.grant.uses), use.whole, use.milli, use.memory_mib, use.profile,
        gpu.memory_mib, mig,
    )  # fmt: skip


def _each(memory_mib: float | None, uses: Sequence[GpuUse]) -> float | None:
    return None if memory_mib is None else memory_mib / len(uses)
