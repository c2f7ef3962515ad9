"""How much of a GPU counts for a queue, in thousandths: whole GPUs, shares and slices alike.

A share counts as the larger of its part of the compute and its part of the memory. A MIG slice
counts by its profile: so many of the eight memory slices of a large GPU (four of an A30), whatever
the GPU is, so that it is known before it is placed.
"""

import re

from fairlead.model.gpus import WHOLE, GpuRequest, GpuUse
from fairlead.model.pods import Amounts, PodRequest
from fairlead.model.quantities import PODS
from fairlead.model.queues import GPUS

#: Resources of a device plugin that serves MIG slices, followed by the profile.
MIG_RESOURCE = "nvidia.com/mig-"

_PROFILE = re.compile(r"(\d)g\.(\d+)gb", re.ASCII)
_OF_EIGHT = {1: 125, 2: 250, 3: 500, 4: 500, 7: WHOLE}
_OF_FOUR = {1: 250, 2: 500, 4: WHOLE}
#: Slices of an A30, which has 24 GB.
_A30 = {(1, 6), (2, 12), (4, 24), (1, 12)}


def slice_milli(profile: str) -> int:
    """A slice of this profile; a whole GPU if the name is not known."""
    found = _PROFILE.match(profile[:64])
    if found is None:
        return WHOLE
    compute, gigabytes = int(found[1]), int(found[2])
    parts = _OF_FOUR if (compute, gigabytes) in _A30 else _OF_EIGHT
    return parts.get(compute, WHOLE)


def milli_of_use(use: GpuUse, gpu_mib: int) -> int:
    """What a pod has of one GPU; `gpu_mib` is the memory of the GPU, 0 if it is not known."""
    if use.profile:
        return slice_milli(use.profile)
    if use.whole:
        return WHOLE
    return _larger(use.milli, _part(use.memory_mib, gpu_mib))


def milli_of_request(asked: GpuRequest, smallest_mib: int) -> int:
    """What a pod may come to have, at most, of all the GPUs that it requests.

    Memory in MiB is a part of the smallest GPU that has so much: a larger one counts for less.
    """
    return asked.gpus * _milli_of_each(asked, smallest_mib)


def _milli_of_each(asked: GpuRequest, smallest_mib: int) -> int:
    if asked.profile:
        return slice_milli(asked.profile)
    if asked.whole:
        return WHOLE
    memory = max(asked.memory_milli, _part(asked.memory_mib, smallest_mib))
    if asked.sliced:
        return _covering(asked.milli, memory)
    return _larger(asked.milli, memory)


def _covering(milli: int, memory_milli: int) -> int:
    """The smallest slice that covers a share: compute in sevenths, memory in eighths."""
    fitting = (
        part
        for compute, part in _OF_EIGHT.items()
        if compute * WHOLE >= milli * 7 and part >= memory_milli
    )
    return min(fitting, default=WHOLE)


def _larger(milli: int, memory_milli: int) -> int:
    return min(max(milli, memory_milli, 1), WHOLE)


def _part(memory_mib: int, gpu_mib: int) -> int:
    return WHOLE * memory_mib // gpu_mib if gpu_mib else 0


def counted(resources: Amounts, gpu_milli: int) -> Amounts:
    """Resources in the amounts of a queue: one pod, and GPUs in thousandths."""
    found, milli = {PODS: 1}, gpu_milli
    for name, amount in resources:
        if name == GPUS:
            continue
        found[name] = amount
        if name.startswith(MIG_RESOURCE):
            milli += amount * slice_milli(name.removeprefix(MIG_RESOURCE))
    if milli:
        found[GPUS] = milli
    return tuple(found.items())


def charge_of(request: PodRequest, smallest_mib: int = 0) -> Amounts:
    """What a pod may come to count for, at most; which model it gets is not known yet."""
    asked = request.gpu_request
    if asked is None:
        return counted(request.resources, WHOLE * request.amount(GPUS))
    return counted(request.resources, milli_of_request(asked, smallest_mib))
