"""Parts of GPUs as whole ones, for autoscalers, which do not read annotations."""

from typing import Any

from fairlead.model.gpus import FAIRLEAD, WHOLE
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod

Json = dict[str, Any]
#: Dialects whose pods have no resource for their GPUs.
_BY_ANNOTATION = frozenset({FAIRLEAD, "kai"})
#: More of them are not put together.
_MOST_TOGETHER = 8


def pods_per_gpu(pod: Pod) -> int:
    """How many pods like this one a GPU serves; 0: it does not ask for a part by annotation.

    How much memory a new GPU has is not known: a pod that asks for MiB gets one of its own.
    """
    ask = pod.request.gpu_request
    if ask is None or ask.whole or ask.sliced or ask.dialect not in _BY_ANNOTATION:
        return 0
    if ask.memory_mib:
        return 1
    part = max(ask.milli, ask.memory_milli, WHOLE // _MOST_TOGETHER)
    return max(1, WHOLE // part)


def with_whole_gpus(spec: Json, pod: Pod) -> Json:
    """One pod in place of so many that share a GPU: what they all need, and the GPU."""
    together, ask = pods_per_gpu(pod), pod.request.gpu_request
    if not together or ask is None:
        return spec
    first = spec["containers"][0]
    resources = first.get("resources", {})
    limits = {**resources.get("limits", {}), GPU: str(ask.gpus)}
    served = {**first, "resources": {**resources, "limits": limits}}
    more = [_copy(each, number) for number in range(1, together) for each in spec["containers"]]
    return {**spec, "containers": [served, *spec["containers"][1:], *more]}


def _copy(container: Json, number: int) -> Json:
    """Of another pod: two cannot have the same name, or port, in one."""
    kept = {key: value for key, value in container.items() if key != "ports"}
    return {**kept, "name": f"{container['name'][:50]}-copy-{number}"}
