"""GPUs of nodes with a device plugin that reservation pods have, and those that they could have.

Such a node counts its GPUs. In the ledger it has as many slots, each named after the number of a
reservation: a slot is reserved, or a GPU that a new reservation could get. Pods whose GPUs the
device plugin chose take from the slots that are not reserved; which of them makes no difference.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count, islice

from fairlead.model.gpus import Gpu, GpuUse, Grant, Inventory
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.reservations import (
    PRIORITY,
    SERVED,
    Reservation,
    held_by_reservation,
    number_of,
    slot_name,
)


@dataclass(slots=True)
class ReservedGpu:
    """One reservation of a node."""

    number: int
    #: None until a watch shows it.
    pod: Pod | None = None
    #: Pods that wait for it before they are bound.
    waiting: int = 0
    #: It is to be deleted, so no share is assigned there.
    closing: bool = False
    #: Empty while it is not known. A container that starts again reports the same GPU.
    uuid: str = ""

    @property
    def is_open(self) -> bool:
        return not (self.closing or (self.pod and self.pod.deleting))


class Reservations:
    """By node and number. `Cluster` keeps the ledger in step with them."""

    def __init__(self) -> None:
        #: Whether GPUs are reserved; set before the first node.
        self.enabled = False
        self._of_node: dict[str, dict[int, ReservedGpu]] = {}
        #: Nodes where none is made for the time being, and why.
        self.paused: dict[str, str] = {}
        #: Nodes where shares came or went since the priorities of reservations were set.
        self.unweighed: set[str] = set()

    def __iter__(self) -> Iterator[tuple[str, ReservedGpu]]:
        return ((node, found) for node, all_ in self._of_node.items() for found in all_.values())

    def __bool__(self) -> bool:
        return bool(self._of_node)

    def __len__(self) -> int:
        return sum(map(len, self._of_node.values()))

    def get(self, node: str, number: int) -> ReservedGpu | None:
        return self._of_node.get(node, {}).get(number)

    def on(self, node: str) -> Iterable[ReservedGpu]:
        return self._of_node.get(node, {}).values()

    def begin(self, node: str, number: int) -> ReservedGpu:
        """A pod waits for it from now on."""
        found = self._of_node.setdefault(node, {}).setdefault(number, ReservedGpu(number))
        found.waiting += 1
        return found

    def end(self, node: str, number: int) -> None:
        """A pod waits for it no more."""
        found = self.get(node, number)
        if found is not None:
            found.waiting = max(0, found.waiting - 1)
            self._forget_if_unused(node, found)

    def see(self, pod: Pod, reservation: Reservation) -> None:
        """A watch shows the reservation pod."""
        of_node = self._of_node.setdefault(pod.node, {})
        found = of_node.setdefault(reservation.number, ReservedGpu(reservation.number))
        if found.pod is None or found.pod.uid != pod.uid:
            found.closing, found.uuid = False, ""
        found.pod, found.uuid = pod, reservation.uuid or found.uuid

    def lose(self, pod: Pod, reservation: Reservation) -> None:
        """The reservation pod is gone."""
        found = self.get(pod.node, reservation.number)
        if found is not None and found.pod is not None and found.pod.uid == pod.uid:
            found.pod, found.closing, found.uuid = None, False, ""
            self._forget_if_unused(pod.node, found)

    def _forget_if_unused(self, node: str, found: ReservedGpu) -> None:
        if not found.waiting and found.pod is None:
            del self._of_node[node][found.number]
            if not self._of_node[node]:
                del self._of_node[node]

    def named(self, node: str, grant: Grant) -> Grant | None:
        """The grant with the uuids of its GPUs; None if one is not known, or not reserved."""
        uses = tuple(self._named(node, use) for use in grant.uses)
        known = [use for use in uses if use is not None]
        return replace(grant, uses=tuple(known)) if len(known) == len(uses) else None

    def _named(self, node: str, use: GpuUse) -> GpuUse | None:
        number = number_of(use.uuid)
        if number is None:
            return use
        found = self.get(node, number)
        return replace(use, uuid=found.uuid) if found and found.uuid and found.is_open else None

    # -- the GPUs of a node ------------------------------------------------------------------

    def inventory(self, node: Node, listed: Inventory | None) -> Inventory | None:
        """The slots of a node whose GPUs can be reserved; else what is listed."""
        if not self.enabled or not (node.reservable or node.name in self._of_node):
            return listed
        if listed is not None and listed.named:
            return listed
        known = listed or Inventory(named=False)
        return replace(
            known,
            gpus=tuple(self._gpus(node, known.gpus)),
            dialects=SERVED,
            named=False,
            reservable=True,
            paused=self.paused.get(node.name, ""),
        )

    def _gpus(self, node: Node, listed: tuple[Gpu, ...]) -> Iterator[Gpu]:
        reserved = dict(sorted(self._of_node.get(node.name, {}).items()))
        kind, by_uuid = _any_of(listed), {gpu.uuid: gpu for gpu in listed}
        uuids = Counter(found.uuid for found in reserved.values())
        for number, found in reserved.items():
            gpu = by_uuid.get(found.uuid, kind) if found.uuid else kind
            # Two reservations with one GPU: the device plugin shares it, too.
            alone = not found.uuid or uuids[found.uuid] == 1
            name = found.uuid if found.uuid and alone else slot_name(number)
            healthy = gpu.healthy and found.is_open and alone
            yield replace(gpu, uuid=name, index=number, healthy=healthy)
        room, healthy = max(0, node.reservable - len(reserved)), node.name not in self.paused
        for number in islice((n for n in count() if n not in reserved), room):
            yield replace(kind, uuid=slot_name(number), index=number, healthy=healthy)


def _any_of(listed: tuple[Gpu, ...]) -> Gpu:
    """What is true of each of the GPUs; their health is known when their uuid is."""
    models = {gpu.model for gpu in listed}
    model = models.pop() if len(models) == 1 else ""
    return Gpu("", 0, model, min((gpu.memory_mib for gpu in listed), default=0))


def expected(node: str, number: int) -> Pod:
    """What the ledger has for a reservation pod before a watch shows it."""
    amounts = ((GPU, 1),)
    return Pod(
        namespace="",
        name=f"reservation-{number}",
        uid=f"reservation/{node}/{number}",
        node=node,
        priority=PRIORITY,
        request=PodRequest(resources=amounts),
        usage=amounts,
        grant=held_by_reservation(number),
        reservation=Reservation(number),
    )
