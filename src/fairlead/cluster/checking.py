"""Is what the columns say of a node the sum of what its pods hold? Added up again, and simply.

Columns are kept by adding and taking away, so a mistake would stay for ever. This shares no
arithmetic with them, and is cheap enough to be done all the time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from fairlead.cluster import claim_gpus
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.devices import Devices
from fairlead.cluster.holdings import Holding, granted
from fairlead.model.gpus import WHOLE, Gpu, GpuUse, Grant, Inventory, Isolation
from fairlead.model.holders import Holder
from fairlead.model.map_slots import Member
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod
from fairlead.model.reservations import slot_name


def wrong_nodes(cluster: Cluster, names: Iterable[str]) -> list[str]:
    """Those of the nodes whose columns are not what their pods add up to."""
    found = []
    for name in names:
        row = cluster.row_of.get(name)
        if row is not None and not _right(cluster, name, row):
            found.append(name)
    return found


def misplaced(cluster: Cluster, bound: Mapping[str, Pod]) -> Iterator[tuple[str, Pod | None]]:
    """Pods (by uid) that are not booked as they are: where they should be, or None if gone."""
    for uid, pod in bound.items():
        held = cluster.holdings.get(uid)
        if held is None or (held.pod is not pod and _differs(held, pod)):
            yield uid, pod
    for uid, held in cluster.holdings.items():
        if uid not in bound and not held.assumed:
            yield uid, None


def _differs(held: Holding, pod: Pod) -> bool:
    should = pod.node, granted(pod, held), pod.usage
    return (held.node, held.grant, held.amounts) != should


def _right(cluster: Cluster, name: str, row: int) -> bool:
    columns, holdings = cluster.columns, cluster.held_on(name)
    taken = np.zeros(len(columns.requested), dtype=np.int64)
    for held in holdings:
        taken += columns.vector(held.amounts)
    taken[columns.resource_index[GPU]] += claim_gpus.counted(cluster, name)
    if (columns.requested[:, row] != taken).any():
        return False
    if columns.devices.references(row) != _references(holdings):
        return False
    inventory = columns.gpus_of(cluster.node_at(row))
    grants = list(cluster.grants_on(name).values())
    return _gpus_right(columns.devices, row, inventory or Inventory(), grants)


def _references(holdings: Iterable[Holding]) -> dict[Holder, int]:
    """How many pods refer to each holder that several pods refer to."""
    counts = Counter(holder for held in holdings for holder, _ in held.shared)
    return {holder: count for holder, count in counts.items() if count > 1}


def _gpus_right(devices: Devices, row: int, inventory: Inventory, grants: list[Grant]) -> bool:
    gpus = inventory.gpus if inventory.named or inventory.reservable else ()
    other = slot_name if inventory.reservable else str
    slot_of = {other(gpu.index): slot for slot, gpu in enumerate(gpus)}
    slot_of |= {gpu.uuid: slot for slot, gpu in enumerate(gpus)}
    on: list[list[tuple[GpuUse, Member | None]]] = [[] for _ in gpus]
    clients = [0] * devices.slots
    unknown = 0
    for grant in grants:
        for use in grant.uses:
            slot = slot_of.get(use.uuid)
            if slot is None:
                unknown += 1
            else:
                on[slot].append((use, grant.member))
                clients[slot] += grant.isolation is Isolation.MPS
    told = zip(
        devices.users[row].tolist(),
        devices.wholes[row].tolist(),
        devices.milli_free[row].tolist(),
        devices.memory_free[row].tolist(),
        devices.slices_used[row].tolist(),
        strict=True,
    )
    found = [_account(gpu, uses) for gpu, uses in zip(gpus, on, strict=True)]
    nothing = [(0, 0, 0, 0, 0)] * (devices.slots - len(found))
    pending = sum(grant.pending for grant in grants)
    return (
        list(told) == found + nothing
        and devices.mps_users[row].tolist() == clients
        and int(devices.elsewhere[row]) == unknown
        and devices.pending[row] == pending
    )


def _account(gpu: Gpu, uses: list[tuple[GpuUse, Member | None]]) -> tuple[int, int, int, int, int]:
    """Pods on the GPU, those who have it whole, what is free, and which slices are not.

    Pods of one workload that share the GPU by their map take it once.
    """
    milli, mib, slices = WHOLE, gpu.memory_mib, 0
    alone, sharing = 0, set()
    for use, member in uses:
        if use.slices:
            slices |= use.mask
        elif use.whole and member:
            sharing.add(member.workload)
        elif use.whole:
            alone += 1
        else:
            milli, mib = milli - use.milli, mib - use.memory_mib
    wholes = alone + len(sharing)
    return len(uses), wholes, milli - wholes * WHOLE, mib - wholes * gpu.memory_mib, slices
