"""Amounts of a queue as people read them."""

from fairlead.model.quantities import shown
from fairlead.model.queues import GPUS, GPUS_OF_MODEL


def counts_gpus(name: str) -> bool:
    """Whether amounts of this name are thousandths of GPUs."""
    return name == GPUS or name.startswith(GPUS_OF_MODEL)


def shown_amount(name: str, amount: int) -> str:
    """GPUs as "1.5", others as Kubernetes writes them."""
    if not counts_gpus(name):
        return shown(name, amount)
    whole, part = divmod(abs(amount), 1000)
    sign = "-" if amount < 0 else ""
    return f"{sign}{whole}.{part:03}".rstrip("0").rstrip(".") if part else f"{sign}{whole}"
