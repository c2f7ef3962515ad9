"""Values that are known when a pod is created, because its author wrote down its cards."""

from fairlead.model.pods import Pod

MAP = "gpu-scheduling-map"


def literal_for(pod: Pod) -> str | None:
    """What CUDA_VISIBLE_DEVICES gets by the pod's scheduling map; None if it is not known yet."""
    return None
