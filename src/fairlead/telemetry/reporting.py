"""Rows of the report, one after another, so that the caller can do other things between."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from fairlead.cluster.claimed_grants import ClaimedGrants, claimed_grants, with_claimed
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.cluster.picked import named_uses
from fairlead.model.gpus import FAIRLEAD, WHOLE, Gpu, GpuUse, Grant, Inventory, Isolation
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod
from fairlead.telemetry.allocation import STATES, booked, states
from fairlead.telemetry.latest import LatestReadings, ReadingStore
from fairlead.telemetry.report import HOUR_S, GpuRow, Holder, PodRow
from fairlead.telemetry.rightsizing import advise
from fairlead.telemetry.sampling import allocation_of, holds_gpus, part_of
from fairlead.telemetry.usage import UsageBook, Use

_GIB = 1024
#: Dialects whose shares Fairlead's agent serves.
_SERVED_BY_AGENT = frozenset({FAIRLEAD, "kai"})

#: Whether a pod is shown.
Shown = Callable[[Pod], bool]


def gpu_rows(
    cluster: Cluster, latest: ReadingStore, now_s: float, shown: Shown
) -> Iterator[GpuRow]:
    """Every GPU of every node, by name of the node and index, with the pods that are shown."""
    share, state = booked(cluster.columns.devices), states(cluster.columns.devices)
    claimed = claimed_grants(cluster)
    for name in sorted(cluster.row_of):
        row = cluster.row_of.get(name)
        if row is None or row >= len(share):  # it went, or came, meanwhile
            continue
        told, node = latest.on(name, now_s), cluster.node_at(row)
        if not cluster.columns.devices.known[row]:
            on = _held_by_uuid(cluster, name, claimed)
            yield from _plugin_rows(cluster, node, on, told, now_s, shown)
            continue
        holders = _holders(cluster, name, claimed, shown)
        for slot, gpu in enumerate(cluster.columns.devices.gpus(row)[: share.shape[1]]):
            free = int(cluster.columns.devices.memory_free[row, slot])
            found = _gpu(
                name, gpu, STATES[state[row, slot]], float(share[row, slot]), told, now_s,
                holders.get(slot, []), gpu.memory_mib - free,
            )  # fmt: skip
            yield msgspec.structs.replace(found, isolation=_offer(gpu, node.inventory))


def _plugin_rows(
    cluster: Cluster,
    node: Node,
    on: Mapping[str, Sequence[tuple[Pod, GpuUse]]],
    told: LatestReadings,
    now_s: float,
    shown: Shown,
) -> Iterator[GpuRow]:
    """Where a device plugin picks the GPUs, or a DRA driver has them: as far as it is known."""
    inventory = node.inventory
    picked = inventory is not None and inventory.picked is not None
    gpus = inventory.gpus if inventory and inventory.gpus and inventory.gpus[0].uuid else ()
    for gpu in gpus or _measured(cluster, node, told, sorted(filter(None, on))):
        there = on.get(gpu.uuid, [])
        parts = sum(part_of(use, gpu) for _, use in there)
        state = _state(gpu, [use for _, use in there]) if there or picked else "counted"
        holders = [Holder(pod.key, part_told(use)) for pod, use in there if shown(pod)]
        booked_mib = int(min(1.0, parts) * gpu.memory_mib)
        yield _gpu(node.name, gpu, state, min(1.0, parts), told, now_s, holders, booked_mib)


def _measured(
    cluster: Cluster, node: Node, told: LatestReadings, shared: Sequence[str]
) -> Iterator[Gpu]:
    """Where the GPUs are not listed, those that are measured; or as many as there are, of which
    only those that pods share have a name.
    """
    listed = cluster.columns.devices.gpus(cluster.row_of[node.name])
    model = listed[0].model if listed else ""
    measured = sorted({name for node in told.readings for name in node.gpus})
    count = dict(node.allocatable).get(GPU, 0)
    unnamed = (str(n) for n in range(len(shared), count))
    for index, name in enumerate(measured or (*shared, *unnamed)):
        yield Gpu(name, int(name) if name.isdecimal() else index, model)


def _held_by_uuid(
    cluster: Cluster, node: str, claimed: ClaimedGrants
) -> dict[str, list[tuple[Pod, GpuUse]]]:
    """Without reservation pods: those that share the GPU have it."""
    on: dict[str, list[tuple[Pod, GpuUse]]] = {}
    for held in (with_claimed(each, claimed) for each in cluster.held_on(node)):
        for use in () if held.pod.reservation else named_uses(cluster, held):
            on.setdefault(use.uuid, []).append((held.pod, use))
    return on


def _state(gpu: Gpu, uses: Sequence[GpuUse]) -> str:
    if not gpu.healthy:
        return "lost"
    if not uses:
        return "free"
    return "whole" if len(uses) == 1 and uses[0].whole else "shared"


def _gpu(
    node: str,
    gpu: Gpu,
    state: str,
    share: float,
    told: LatestReadings,
    now_s: float,
    holders: list[Holder],
    memory_booked_mib: int,
) -> GpuRow:
    reading, taken_s = told.gpu(gpu.uuid, gpu.index), told.taken_s(gpu.uuid, gpu.index)
    return GpuRow(
        node=node,
        index=gpu.index,
        uuid=gpu.uuid,
        model=gpu.model,
        state=state,
        booked=share,
        utilisation=reading.utilisation if reading else None,
        memory_mib=gpu.memory_mib,
        memory_booked_mib=memory_booked_mib,
        memory_used_mib=reading.memory_used_mib if reading else None,
        power_w=reading.power_w if reading else None,
        reading_age_s=None if taken_s is None else max(0.0, now_s - taken_s),
        holders=holders,
    )


def _holders(
    cluster: Cluster, node: str, claimed: ClaimedGrants, shown: Shown
) -> dict[int, list[Holder]]:
    """Who is on each GPU, by slot."""
    slots = cluster.columns.devices.slots_of(cluster.row_of[node])
    found: dict[int, list[Holder]] = {}
    seen = (each for each in cluster.held_on(node) if shown(each.pod))
    for held in (with_claimed(each, claimed) for each in seen):
        for use in held.grant.uses if held.grant else ():
            slot = slots.get(use.uuid)
            if slot is not None:
                isolation = isolation_of(held.grant)
                one = Holder(held.pod.key, part_told(use), isolation)
                found.setdefault(slot, []).append(one)
    return found


def pod_rows(
    cluster: Cluster, book: UsageBook, now_s: float, enough_s: float, shown: Shown
) -> Iterator[PodRow]:
    """Every pod that holds GPUs, was looked at and is shown; advice if it was for long enough."""
    claimed = claimed_grants(cluster)
    for uid, each in list(cluster.holdings.items()):
        held, use = with_claimed(each, claimed), book.uses.get(uid)
        if use is not None and holds_gpus(held) and shown(held.pod):
            yield _pod(held, cluster, use, now_s, enough_s)


def _pod(held: Holding, cluster: Cluster, use: Use, now_s: float, enough_s: float) -> PodRow:
    assert held.grant is not None
    pod, last = held.pod, use.latest
    has = allocation_of(held, cluster)
    memory = has.gpu_memory_mib if has.whole else has.memory_mib
    idle_for_s = None if use.idle_since_s is None else now_s - use.idle_since_s
    return PodRow(
        namespace=pod.namespace,
        name=pod.name,
        owner=pod.controller,
        scheduler=pod.scheduler,
        node=held.node,
        asked=_asked(held.grant.uses),
        held=last.held,
        memory_mib=memory,
        mean=use.mean,
        high=use.level_for(0.95),
        utilisation=last.used / last.measured if last.measured else None,
        memory_used_mib=last.memory_mib,
        memory_peak_mib=use.memory_peak_mib,
        guessed=last.guessed,
        watched_s=use.watched_s,
        idle_for_s=idle_for_s,
        held_hours=use.held_s / HOUR_S,
        used_hours=use.used_s / HOUR_S,
        idle_hours=use.idle_s / HOUR_S,
        wasted_hours=use.wasted_s / HOUR_S,
        advice=advise(use, has, enough_s),
        isolation=isolation_of(held.grant),
    )


def isolation_of(grant: Grant | None) -> str:
    """What keeps a share apart from others; empty for whole GPUs.

    For shares in the dialect of another system, its device plugin knows.
    """
    if grant is None or not grant.uses or grant.uses[0].whole:
        return ""
    if grant.uses[0].profile:
        return Isolation.MIG.value
    return grant.isolation.value if grant.dialect in _SERVED_BY_AGENT else ""


def _offer(gpu: Gpu, inventory: Inventory | None) -> str:
    if inventory is None or FAIRLEAD not in inventory.dialects:
        return ""
    kind = Isolation.MPS if gpu.mps else Isolation.MIG if gpu.mig else Isolation.ADVISORY
    return kind.value


def part_told(use: GpuUse) -> str:
    """`whole`, `0.5`, `16 GiB`, `1g.18gb`."""
    if use.whole:
        return "whole"
    if use.profile:
        return use.profile
    return f"{use.milli / WHOLE:g}" if use.milli else f"{use.memory_mib / _GIB:.3g} GiB"


def _asked(uses: Sequence[GpuUse]) -> str:
    if uses[0].whole:
        return f"{len(uses)}"
    return part_told(uses[0]) + (f" ×{len(uses)}" if len(uses) > 1 else "")
