"""Values that are known when a pod is created, because its author wrote down its cards."""

from fairlead.model.pods import Pod


def literal_for(pod: Pod) -> str | None:
    """What CUDA_VISIBLE_DEVICES gets by the pod's scheduling map.

    None if it has none, or gets its index from the scheduler.
    """
    seat = pod.request.gpus.seat if pod.request.gpus else None
    return seat.line.value if seat and seat.line else None
