"""GPUs as extended resources, for what counts requests only: autoscalers, kubelets, quotas.

Parts of GPUs are requested by annotation, which none of these reads. So admission adds the request
to the pod spec, and the agent offers the amounts on its node. The device ledger still decides: sums
by node do not say whether one GPU has enough.
"""

from fairlead.model.gpus import FAIRLEAD, PLAIN, WHOLE, GpuRequest, MigProfile

#: Thousandths of GPUs, and MiB of their memory.
GPU_MILLI, GPU_MIB = "fairlead.dev/gpu-milli", "fairlead.dev/gpu-mib"
#: A node that does not offer them does not count them.
GPU_PARTS = frozenset({GPU_MILLI, GPU_MIB})
#: Dialects whose pods request parts of GPUs without a resource.
_BY_ANNOTATION = frozenset({FAIRLEAD, "kai"})
#: Compute slices of a large GPU. An A30 has four: its slices count for less than they are.
_SLICES = 7


def part_amounts(asked: GpuRequest | None, *, whole: bool) -> dict[str, int]:
    """What the pod is to request; with `whole`, also for whole GPUs. Empty: nothing.

    Never more than the pod takes on any GPU: pods that fit by the ledger fit by these sums.
    """
    if asked is None:
        return {}
    if asked.dialect == PLAIN and asked.whole:
        return {GPU_MILLI: asked.gpus * WHOLE} if whole else {}
    if asked.dialect not in _BY_ANNOTATION or asked.map_slot is not None:
        return {}
    found = {GPU_MILLI: asked.gpus * _milli(asked)}
    return found | ({GPU_MIB: asked.gpus * asked.memory_mib} if asked.memory_mib else {})


def _milli(asked: GpuRequest) -> int:
    if asked.profile:
        return WHOLE * MigProfile(asked.profile, 1, ()).compute // _SLICES
    # Memory alone counts a little, so that GPUs without room for it do not count as free.
    return WHOLE if asked.whole else max(asked.milli, 1)
