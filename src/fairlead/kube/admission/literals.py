"""Values that are known when a pod is created, because its author wrote down its GPUs."""

from fairlead.model.pods import Pod


def literal_for(pod: Pod) -> str | None:
    """What CUDA_VISIBLE_DEVICES gets by the pod's scheduling map.

    None if it has none, or gets its index from the scheduler.
    """
    map_slot = pod.request.gpu_request.map_slot if pod.request.gpu_request else None
    return map_slot.line.value if map_slot and map_slot.line else None
