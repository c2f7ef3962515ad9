"""The GPUs of a node, where several sources list them: one inventory, merged by UUID.

A Node object has several sources (the agent's annotation, the registers of device plugins,
labels), which are merged when it is decoded. Other objects may list GPUs of the same node, too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fairlead.model.gpus import Gpu, Inventory, Links
from fairlead.model.nodes import Node


class Inventories:
    """What sources other than Node objects list, by node; a source may come before its node."""

    def __init__(self) -> None:
        self._of_node: dict[str, dict[str, Inventory]] = {}

    def put(self, node: str, source: str, inventory: Inventory | None) -> None:
        """What this source lists from now on; None: nothing."""
        sources = self._of_node.setdefault(node, {})
        if inventory is None:
            sources.pop(source, None)
        else:
            sources[source] = inventory
        if not sources:
            del self._of_node[node]

    def of(self, node: Node) -> Inventory | None:
        """What all sources list of the node's GPUs. The Node object comes first."""
        sources = self._of_node.get(node.name)
        if sources is None:
            return node.inventory
        own = [] if node.inventory is None else [node.inventory]
        return merged([*own, *(sources[name] for name in sorted(sources))])


def merged(found: Iterable[Inventory]) -> Inventory | None:
    """The GPUs of the first that names any, with the doubts of all the others."""
    listed = sorted((inventory for inventory in found if inventory.gpus), key=_vagueness)
    if not listed:
        return None
    first, *others = listed
    if not others:
        return _in_order(first)
    both = replace(
        first,
        gpus=tuple(_gpu(gpu, others) for gpu in first.gpus),
        links=first.links or _counted_links(first.gpus, others),
        clique=first.clique or next((other.clique for other in others if _counts(other)), ""),
        dialects=first.dialects.union(*(other.dialects for other in others)),
        one_at_a_time=first.one_at_a_time.union(*(other.one_at_a_time for other in others)),
        first_fit=first.first_fit.union(*(other.first_fit for other in others)),
        named=any(inventory.named for inventory in listed),
        confirms=any(inventory.confirms for inventory in listed),
        released=first.released.union(*(other.released for other in others)),
        picked=next((one.picked for one in listed if one.picked is not None), None),
    )
    return _in_order(both)


def _vagueness(inventory: Inventory) -> int:
    """GPUs by UUID are believed before GPUs by index, and these before GPUs that are counted."""
    uuid = inventory.gpus[0].uuid
    return 1 if uuid.isdigit() else 0 if uuid else 2


def _counts(inventory: Inventory) -> bool:
    """Labels tell the kind of the GPUs, and no UUID."""
    return not inventory.gpus[0].uuid


def _counted_links(gpus: Sequence[Gpu], others: Sequence[Inventory]) -> Links:
    """Links between counted GPUs are in the order of the index, which may not be the order here."""
    order = [gpu.index for gpu in gpus]
    if sorted(order) != list(range(len(gpus))):
        return ()
    found = (o.links for o in others if _counts(o) and o.links and len(o.gpus) == len(gpus))
    links = next(found, ())
    return tuple(tuple(links[a][b] for b in order) for a in order) if links else ()


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
        mps=max(one.mps for one in (gpu, *seen)),
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
