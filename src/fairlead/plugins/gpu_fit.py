"""GPUs one by one: enough of them, with enough left on each."""

from collections.abc import Iterable
from dataclasses import field, replace
from typing import ClassVar

import numpy as np

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.devices import GpuMask
from fairlead.cluster.extended_claims import unoffered
from fairlead.cluster.gpu_rows import GpuRows
from fairlead.cluster.nodes import Nodes
from fairlead.model.extended import has_class
from fairlead.model.gpus import FAIRLEAD, WHOLE, GpuRequest, Isolation, Overcommit
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU
from fairlead.model.pods import PodRequest
from fairlead.model.sizes import remembered
from fairlead.plugins.api import NO_FITTING_GPU, GpuDetail, Reason
from fairlead.plugins.gpu_isolation import missing_isolation, slice_of
from fairlead.plugins.gpu_reservation import (
    missing_free_gpus,
    missing_reservations,
    reservation_detail,
)
from fairlead.plugins.gpu_words import (
    UNKNOWN_MEMORY,
    gpu_details,
    how_to_serve,
    nearest,
    not_served,
    too_busy,
)

NO_GPU = "node(s) had no GPU"
NO_DIALECT = "node(s) cannot serve this kind of GPU request"
BUSY = "node(s) were still assigning GPUs to another pod"
NO_MODEL = "node(s) had no GPU of the requested kind"
NO_SLICE = "node(s) had no room for the MIG slices"
NO_LINKS = "node(s) had no free set of GPUs connected by NVLink"
TOO_FEW = "node(s) had too few free GPUs"
NO_SHARE = "node(s) had no GPU with a large enough free share"
TOO_BUSY = "node(s) had no GPU quiet enough to be overcommitted"
NO_MEMORY = "node(s) had no GPU with enough free memory"
NOT_INJECTED = "node(s) cannot limit a pod without the MPS variables of admission"
DIVIDED = "node(s) had only GPUs divided into MIG slices"
NO_MPS = "node(s) had no GPU with a healthy MPS daemon"
ONLY_MPS = "node(s) serve shares with MPS only"
NO_CLIENT = "node(s) had no GPU with a free MPS client"
OTHER_TENANT = "node(s) had only GPUs with pods of other tenants"
NOT_QUIET = "node(s) had only GPUs too busy for the service class"
KEPT_APART = "node(s) had only GPUs with pods of service classes that are kept apart"
MIXED = "node(s) had only GPUs with shares of another isolation"


@dataclass(frozen=True, slots=True)
class GpuFit:
    """Where GPUs are not known one by one it has nothing against whole GPUs: they are counted."""

    #: Of shares that demand none.
    isolation: Isolation | None = field(default=None, kw_only=True)
    name: ClassVar[str] = "GpuFit"
    reads: ClassVar[Aspect] = Aspect.DEVICES | Aspect.ALLOCATABLE
    refusal: ClassVar[str] = NO_FITTING_GPU
    resolvable: ClassVar[bool] = True

    def allocates(self, ask: GpuRequest) -> GpuRequest | None:
        return self.understood(ask) if ask.map_slot is None else None

    def understood(self, ask: GpuRequest) -> GpuRequest:
        """The ask as this rule goes by it."""
        if self.isolation is None or ask.isolation is not None:
            return ask
        return _isolated(ask, self.isolation)

    def concerns(self, request: PodRequest) -> bool:
        return request.gpu_request is not None and request.gpu_request.map_slot is None

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        if (
            request.gpu_request is None or request.gpu_request.map_slot is not None
        ):  # the map has chosen
            return nodes.all()
        ask = self.understood(request.gpu_request)
        enough = nodes.gpus.enough(ask)
        if request.claims and ask.whole and not ask.profile and has_class(request.claims, GPU):
            return np.where(unoffered(GPU, nodes), _serve_by_class(ask, nodes), enough)
        return enough

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        """One for each node: the first thing that is missing."""
        if request.gpu_request is None:
            return
        left = ~self.allows(request, nodes)
        for text, refused, resolvable in _missing(self.understood(request.gpu_request), nodes):
            where = left & refused
            left = left & ~refused
            yield Reason(text, where, where if resolvable else nodes.none())
        yield Reason(self.refusal, left, left)

    def detail(self, request: PodRequest, node: Nodes) -> str:
        if request.gpu_request is None:
            return ""
        if missing := reservation_detail(request.gpu_request, node):
            return missing
        shares = not (request.gpu_request.whole or request.gpu_request.profile)
        if not (node.gpus.slotted() if shares else node.gpus.known())[0]:
            return _detail_of_models(request.gpu_request, node)
        return _detail(self.understood(request.gpu_request), node)

    def gpus(self, request: PodRequest, node: Nodes) -> tuple[GpuDetail, ...]:
        return (
            gpu_details(self.understood(request.gpu_request), node) if request.gpu_request else ()
        )

    def nearest(self, request: PodRequest, nodes: Nodes) -> str:
        return (
            nearest(self.understood(request.gpu_request), nodes.gpus) if request.gpu_request else ""
        )


@dataclass(frozen=True, slots=True)
class Overcommitting(GpuFit):
    """The same, but shares may add up to more than a GPU while it is measured to be quiet."""

    limit: float
    high_water: float
    reads: ClassVar[Aspect] = GpuFit.reads | Aspect.LOAD

    def understood(self, ask: GpuRequest) -> GpuRequest:
        ask = GpuFit.understood(self, ask)
        if ask.whole or ask.profile or ask.isolation not in (None, Isolation.ADVISORY):
            return ask
        return _beyond(ask, self.limit, self.high_water)


def _serve_by_class(ask: GpuRequest, nodes: Nodes) -> NodeMask:
    """Where devices of a class may be the GPUs: which ones is for the claim to say."""
    if ask.linked or ask.only or ask.never:
        return nodes.none()
    return nodes.gpus.of_kind(ask) if ask.particular else nodes.all()


@remembered(8 << 20)
def _isolated(ask: GpuRequest, isolation: Isolation) -> GpuRequest:
    """Whole GPUs, slices and the parts that other systems divide are what they are."""
    if ask.whole or ask.profile or ask.dialect != FAIRLEAD:
        return ask
    return replace(ask, isolation=isolation)


@remembered(8 << 20)
def _beyond(ask: GpuRequest, limit: float, high_water: float) -> GpuRequest:
    return replace(ask, overcommit=Overcommit(round(limit * WHOLE), high_water))


def _missing(ask: GpuRequest, nodes: Nodes) -> Iterable[tuple[str, NodeMask, bool]]:
    gpus = nodes.gpus
    unserved = ~gpus.serve(ask)
    if unserved.any():
        yield NO_GPU, unserved & _without_gpus(nodes), False
        yield f"{NO_DIALECT} ({not_served(ask)})", unserved, False
    if not ask.whole or gpus.any_astray:
        yield from missing_reservations(gpus)
    wanted = gpus.there() & gpus.wanted(ask)
    few = wanted.sum(axis=1) < (1 if ask.sliced else ask.gpus)
    yield NO_MODEL, np.where(gpus.known(), few, ~gpus.of_kind(ask)), False
    # Only where there is room: on a full node a pod may have to leave.
    yield BUSY, gpus.busy(ask) & gpus.hold_enough(ask), False
    if ask.tenant is not None:
        yield OTHER_TENANT, gpus.hold_enough(replace(ask, tenant=None)), True
    if ask.service is not None:
        yield from _missing_for_class(ask, gpus)
    if ask.sliced:
        served = wanted & gpus.cut_for(ask)
        uncut = np.where(served, gpus.room_for(ask, emptied=True), 0)
        yield NO_SLICE, uncut.sum(axis=1) < ask.gpus, False
        yield NO_SLICE, gpus.all(), True
        return
    if ask.whole:
        yield from _missing_of_whole(ask, gpus, wanted)
        return
    yield from _missing_isolation(ask, gpus, wanted)
    large = wanted & (gpus.memory() >= gpus.memory_asked(ask))
    yield NO_MEMORY, large.sum(axis=1) < ask.gpus, False
    shared = wanted & gpus.offer(ask) & (gpus.wholes() == 0)
    open_to_all = shared & gpus.unmixed(ask)
    mixed = open_to_all.sum(axis=1) < ask.gpus
    yield MIXED, mixed & (shared.sum(axis=1) >= ask.gpus), True
    share = open_to_all & (gpus.milli_open(ask) >= ask.milli)
    if_quiet = open_to_all & (gpus.milli_open(ask, if_quiet=True) >= ask.milli)
    too_few = share.sum(axis=1) < ask.gpus
    yield TOO_BUSY, too_few & (if_quiet.sum(axis=1) >= ask.gpus), True
    yield NO_SHARE, too_few, True
    memory = open_to_all & (gpus.memory_free() >= gpus.memory_asked(ask))
    yield NO_MEMORY, memory.sum(axis=1) < ask.gpus, True
    yield from missing_free_gpus(gpus)


def _missing_for_class(ask: GpuRequest, gpus: GpuRows) -> Iterable[tuple[str, NodeMask, bool]]:
    """Where there is room, but not for pods of the class. Evictions make no GPU quiet at once."""
    room = gpus.hold_enough(replace(ask, service=None))
    quiet = gpus.usable(replace(ask, service=None)) & gpus.quiet_for(ask)
    yield NOT_QUIET, room & (quiet.sum(axis=1) < ask.gpus), False
    yield KEPT_APART, room, True


def _missing_isolation(
    ask: GpuRequest, gpus: GpuRows, wanted: GpuMask
) -> Iterable[tuple[str, NodeMask, bool]]:
    undivided = wanted & gpus.undivided()
    if ask.mps_injected or ask.isolation is not Isolation.MPS:
        yield DIVIDED, (undivided.sum(axis=1) < ask.gpus) & (wanted.sum(axis=1) >= ask.gpus), False
    served = undivided & gpus.offer(ask)
    none = served.sum(axis=1) < ask.gpus
    if ask.isolation is not Isolation.MPS:
        yield ONLY_MPS, none, False
        return
    if not ask.mps_injected:
        yield NOT_INJECTED, gpus.all(), False
    yield NO_MPS, none, False
    unmixed = served & gpus.unmixed(ask)
    left = unmixed & gpus.clients_left(ask)
    enough = unmixed.sum(axis=1) >= ask.gpus
    yield NO_CLIENT, enough & (left.sum(axis=1) < ask.gpus), True


def _without_gpus(nodes: Nodes) -> NodeMask:
    found: NodeMask = (nodes.allocatable(GPU) == 0) & ~nodes.gpus.any_listed()
    return found


def _missing_of_whole(
    ask: GpuRequest, gpus: GpuRows, wanted: GpuMask
) -> Iterable[tuple[str, NodeMask, bool]]:
    if ask.linked:
        yield NO_LINKS, ~gpus.joined(ask, among=wanted), False
        yield TOO_FEW, ~gpus.hold_enough(ask), True
        yield NO_LINKS, gpus.all(), True
    yield TOO_FEW, gpus.all(), True


def _detail_of_models(ask: GpuRequest, node: Nodes) -> str:
    """About a single node whose GPUs are counted, not listed."""
    if not node.gpus.serve(ask)[0]:
        return "the node has no GPU" if _without_gpus(node)[0] else how_to_serve(ask)
    models = {gpu.model for inventory in node.inventories() for gpu in inventory.gpus}
    kinds = sorted(models - {""})
    if not node.gpus.of_kind(ask)[0]:
        has = f"it has {' and '.join(kinds)}" if kinds else "its labels do not say what it has"
        return f"requested {_kinds(ask)}, {has}"
    return f"requested {ask.gpus} GPUs connected by NVLink; those of the node are not known to be"


def _kinds(ask: GpuRequest) -> str:
    return " or ".join(sorted({*ask.models, *ask.like})) or "certain GPUs"


def _detail(ask: GpuRequest, node: Nodes) -> str:
    """About a single node, in numbers."""
    gpus = node.gpus
    there = gpus.there()[0]
    total = int(there.sum())
    if not gpus.serve(ask)[0]:
        return how_to_serve(ask)
    if (gpus.busy(ask) & gpus.hold_enough(ask))[0]:
        return "its device plugin is still serving another pod, and serves one at a time"
    wanted = there & gpus.wanted(ask)[0]
    if not wanted.any():
        return f"requested {_kinds(ask)}, none of {total} is"
    if ask.tenant is not None and gpus.hold_enough(replace(ask, tenant=None))[0]:
        return "its GPUs with room have pods of other tenants"
    if ask.service is not None and gpus.hold_enough(replace(ask, service=None))[0]:
        return _detail_of_class(ask, node)
    if ask.sliced:
        served = wanted & gpus.cut_for(ask)[0]
        room = int(gpus.room_for(ask)[0][served].sum())
        asked = f"requested {ask.gpus} {slice_of(ask)}"
        return f"{asked}, {room} fit on {total} GPU{'s' * (total != 1)}"
    if ask.whole:
        free = int(gpus.usable(ask)[0].sum()) - int(gpus.elsewhere()[0])
        if ask.linked and free >= ask.gpus:
            return (
                f"requested {ask.gpus} GPUs connected by NVLink, {_largest_ring(ask, gpus, free)}"
            )
        return f"requested {_gpus(ask)}, {max(free, 0)} of {total} free"
    return _detail_of_shares(ask, node, wanted)


def _detail_of_class(ask: GpuRequest, node: Nodes) -> str:
    """Of a single node with room, but not for the class."""
    with_room = node.gpus.usable(replace(ask, service=None))[0]
    if (with_room & node.gpus.quiet_for(ask)[0]).sum() < ask.gpus:
        quietest = float(node.load.busiest()[0][with_room].min())
        return f"its quietest GPU with room is {quietest:.0%} busy at its busiest"
    return "its GPUs with room have pods of service classes that are kept apart"


def _gpus(ask: GpuRequest) -> str:
    return f"{ask.gpus} GPU{'s' * (ask.gpus > 1)}"


def _largest_ring(ask: GpuRequest, gpus: GpuRows, free: int) -> str:
    sizes = range(ask.gpus - 1, 1, -1)
    joined = (size for size in sizes if gpus.joined(replace(ask, gpus=size))[0])
    largest = next(joined, 0)
    return f"of {free} free GPUs at most {largest} are" if largest else f"no two of {free} free are"


def _detail_of_shares(ask: GpuRequest, node: Nodes, wanted: NodeMask) -> str:
    gpus = node.gpus
    if missing := missing_isolation(ask, node, wanted):
        return missing
    shared = wanted & (gpus.wholes()[0] == 0)
    if not shared.any():
        return f"all {int(wanted.sum())} GPUs are assigned whole"
    shared = shared & gpus.offer(ask)[0] & gpus.unmixed(ask)[0]
    largest = int(gpus.milli_open(ask)[0][shared].max())
    most_mib = int(gpus.memory_free()[0][shared].max())
    need_mib = int(np.max(gpus.memory_asked(ask)[0][shared]))
    if need_mib and not gpus.memory()[0][shared].any():
        return UNKNOWN_MEMORY
    told = []
    if ask.milli > largest:
        told.append(f"requested {ask.milli / WHOLE:g} of a GPU, the largest free share is "
                    f"{max(largest, 0) / WHOLE:g}{too_busy(ask, node, shared)}")  # fmt: skip
    # A share includes the memory, as documented.
    if need_mib > most_mib and not (told and ask.memory_milli):
        told.append(f"requested {need_mib} MiB on one GPU, at most {max(most_mib, 0)} are free")
    return (
        "; ".join(told)
        or f"of {_gpus(ask)} with the share, the memory and a free pod slot, "
        f"{int(gpus.usable(ask)[0].sum())} found"
    )
