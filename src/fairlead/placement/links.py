"""Which cards work well together."""

from collections.abc import Sequence

from fairlead.model.gpus import Inventory


def best_set(slots: Sequence[int], count: int, inventory: Inventory) -> tuple[int, ...]:
    """`count` of the slots."""
    return tuple(slots[:count])
