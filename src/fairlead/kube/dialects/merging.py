"""One book of GPUs where several device plugins list the same node."""

from collections.abc import Sequence
from dataclasses import replace

from fairlead.model.gpus import Gpu, Inventory


def merged(found: Sequence[Inventory]) -> Inventory | None:
    """The GPUs of the first that has any, with the doubts of all the others."""
    listed = [inventory for inventory in found if inventory.gpus]
    if not listed:
        return None
    first, *others = listed
    if not others:
        return _in_order(first)
    both = replace(
        first,
        gpus=tuple(_gpu(gpu, others) for gpu in first.gpus),
        dialects=first.dialects.union(*(other.dialects for other in others)),
        one_at_a_time=first.one_at_a_time.union(*(other.one_at_a_time for other in others)),
        first_fit=first.first_fit.union(*(other.first_fit for other in others)),
        named=any(inventory.named for inventory in listed),
        confirms=any(inventory.confirms for inventory in listed),
        released=first.released.union(*(other.released for other in others)),
    )
    return _in_order(both)


def _gpu(gpu: Gpu, others: Sequence[Inventory]) -> Gpu:
    """Healthy only if no source says otherwise, with the strictest limit of pods."""
    seen = [
        same
        for other in others
        for same in other.gpus
        if same.uuid == gpu.uuid or (same.uuid.isdigit() and same.index == gpu.index)
    ]
    limits = [one.sharers for one in (gpu, *seen) if one.sharers]
    return replace(
        gpu,
        model=gpu.model or next((one.model for one in seen if one.model), ""),
        healthy=gpu.healthy and all(one.healthy for one in seen),
        sharers=min(limits, default=0),
    )


def _in_order(inventory: Inventory) -> Inventory:
    """A plugin that takes the first GPU by uuid is foreseen if the GPUs are in that order."""
    if not inventory.first_fit:
        return inventory
    gpus, links = inventory.gpus, inventory.links
    order = sorted(range(len(gpus)), key=lambda slot: gpus[slot].uuid)
    return replace(
        inventory,
        gpus=tuple(gpus[slot] for slot in order),
        links=tuple(tuple(links[a][b] for b in order) for a in order) if links else (),
    )
