"""Amounts of queues as people write them: GPUs and cores in ones, memory in bytes."""

from fairlead.model.pods import Amounts
from fairlead.model.quantities import CPU, shown
from fairlead.model.queues import GPUS, GPUS_OF_MODEL

_THOUSANDTHS = 1000
#: What `--resource` also takes.
_SHORT = {"gpu": GPUS, "gpus": GPUS}
_GIB = 2**30


def full_name(resource: str) -> str:
    """The name of a resource that may be written short.

    >>> full_name("gpu"), full_name("cpu")
    ('nvidia.com/gpu', 'cpu')
    """
    return _SHORT.get(resource, resource)


def in_ones(amounts: Amounts) -> dict[str, float]:
    """Amounts of a queue as plain numbers.

    >>> in_ones((("cpu", 1500), ("memory", 1024), ("nvidia.com/gpu", 8000)))
    {'cpu': 1.5, 'memory': 1024, 'nvidia.com/gpu': 8.0}
    """
    return {name: amount / _unit(name) if _unit(name) > 1 else amount for name, amount in amounts}


def written(resource: str, number: float | None) -> str:
    """A number of that resource as text.

    >>> written("nvidia.com/gpu", 21.333), written("cpu", 4.0), written("memory", 2**34)
    ('21.3', '4', '16Gi')
    """
    if number is None:
        return "-"
    if resource == "memory" and number >= _GIB:
        return f"{number / _GIB:.1f}".removesuffix(".0") + "Gi"
    if _unit(resource) > 1:
        return f"{number:.1f}".removesuffix(".0")
    return shown(resource, round(number))


def _unit(resource: str) -> int:
    counted = resource in (GPUS, CPU) or resource.startswith(GPUS_OF_MODEL)
    return _THOUSANDTHS if counted else 1
