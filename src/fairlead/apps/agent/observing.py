"""The owners of the processes on the GPUs, and how much each pod uses."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fairlead.apps.agent.unassigned_processes import (
    ObservedProcess,
    PodsByUid,
    UnassignedProcess,
    pods_of,
)
from fairlead.telemetry.agent import PodUse, UnassignedUse
from fairlead.telemetry.nvml.facts import GpuFacts, GpuSample
from fairlead.telemetry.processes import Owner, owner_of


def observed_processes(
    gpus: Sequence[GpuFacts], samples: Mapping[str, GpuSample], proc: Path
) -> Iterator[ObservedProcess]:
    """Without the processes that /proc does not show."""
    owners: dict[int, Owner | None] = {}
    for gpu in gpus:
        sample = samples.get(gpu.uuid)
        for process in sample.processes if sample else ():
            if process.pid not in owners:
                owners[process.pid] = owner_of(process.pid, proc)
            owner = owners[process.pid]
            if owner is not None:
                yield ObservedProcess(gpu.uuid, str(gpu.index), process, owner)


def uses(
    seen: Sequence[ObservedProcess], pods_by_uid: PodsByUid, samples: Mapping[str, GpuSample]
) -> Iterator[PodUse]:
    """By pod and GPU, or by the slice that the process is in."""
    grouped: dict[tuple[str, str, str, str, str], list[ObservedProcess]] = defaultdict(list)
    for each in seen:
        for pod in pods_of(each.owner, pods_by_uid):
            device = _device(each, samples[each.gpu_uuid])
            names = pod.uid, pod.namespace, pod.name
            grouped[device, each.gpu_index, *names].append(each)
    for whose, group in grouped.items():
        busy = [p.utilization for each in group if (p := each.process).utilization is not None]
        held = [p.memory_bytes for each in group if (p := each.process).memory_bytes is not None]
        yield PodUse(*whose, min(sum(busy), 1.0) if busy else None, sum(held) if held else None)


def _device(seen: ObservedProcess, sample: GpuSample) -> str:
    instance = seen.process.instance
    return next((part.uuid for part in sample.slices if part.instance == instance), seen.gpu_uuid)


def unassigned_uses(unassigned: Sequence[UnassignedProcess]) -> Iterator[UnassignedUse]:
    for process in unassigned:
        seen = process.observed
        yield UnassignedUse(
            seen.gpu_uuid, seen.gpu_index, seen.process.pid, seen.process.memory_bytes
        )
