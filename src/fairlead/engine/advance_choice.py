"""Which nodes, or which numbers of GPUs of nodes, a reservation has."""

from collections.abc import Iterable, Iterator

import numpy as np

from fairlead.cluster.arrays import PerNode
from fairlead.cluster.cluster import Cluster
from fairlead.engine.advance_known import KnownReservation
from fairlead.engine.advance_rooms import AdvanceRooms, whole_free
from fairlead.engine.backfill.ends import Ends
from fairlead.model.gpus import GpuRequest
from fairlead.model.nodes import GPU

#: Nodes of which some GPUs are reserved, for all reservations of one time.
MOST_NODES = 1000
#: Nodes, those with the fewest pods, of which it is looked at when their pods end; more if fewer
#: do not have enough GPUs.
_MOST_RANKED = 1000
#: Nodes whose pods are looked at for GPUs that will be free.
_MOST_LOOKED = 64
#: How often more GPUs are looked for if there were too few.
_AGAIN_S = 60.0


class AdvanceChoice:
    """What was chosen before stays, as long as its nodes exist."""

    def __init__(self, cluster: Cluster, ends: Ends, rooms: AdvanceRooms) -> None:
        self._cluster = cluster
        self._ends = ends
        self._rooms = rooms

    def choose(
        self, advance: KnownReservation, others: Iterable[KnownReservation], start_s: float,
        now: float,
    ) -> bool:  # fmt: skip
        """Whether it has other nodes or GPUs than before.

        `others` overlap it in time; `start_s` is on the clock of the engine.
        """
        if advance.is_by_gpu:
            return self._choose_gpus(advance, list(others), start_s, now)
        return self._choose_nodes(advance, others, start_s, now)

    # -- whole nodes -------------------------------------------------------------------------

    def _choose_nodes(
        self, advance: KnownReservation, others: Iterable[KnownReservation], start_s: float,
        now: float,
    ) -> bool:  # fmt: skip
        """The same as before, then those with the fewest pods that stay too long."""
        spec, rows = advance.spec, self._cluster.row_of
        counts = gpus_by_row(self._cluster, spec.model)
        nodes = [node for node in advance.nodes or spec.chosen if node in rows]
        have = sum(int(counts[rows[node]]) for node in nodes)
        if have < spec.gpus:
            taken = {*nodes, *(node for each in others for node in each.nodes)}
            for node in self._candidates(counts, taken, spec.gpus - have, start_s, now):
                nodes.append(node)
                have += int(counts[rows[node]])
                if have >= spec.gpus:
                    break
        before, advance.nodes = advance.nodes, set(nodes)
        return before != advance.nodes

    def _candidates(
        self, counts: PerNode, taken: set[str], missing: int, start_s: float, now: float
    ) -> list[str]:
        """Those with the fewest pods that stay too long first; any order if all are needed."""
        cluster = self._cluster
        free = {
            node: int(counts[row])
            for node, row in cluster.row_of.items()
            if counts[row] and node not in taken
        }
        cluster.work.pods += len(cluster.row_of) // 4
        if sum(free.values()) <= missing:
            return sorted(free)
        order = sorted(free, key=lambda node: (len(cluster.held_on(node)), -free[node], node))
        looked = self._enough(order, free, missing)
        ranked = [(self._staying(node, start_s, now), -free[node], node) for node in order[:looked]]
        return [*(node for _, _, node in sorted(ranked)), *order[looked:]]

    def _enough(self, order: list[str], free: dict[str, int], missing: int) -> int:
        """How many of the nodes are looked at: to find when all pods end would take too long."""
        sums = np.cumsum([free[node] for node in order])
        return max(_MOST_RANKED, int(np.searchsorted(sums, missing)) + 1)

    def _staying(self, node: str, start_s: float, now: float) -> int:
        """Pods that do not end before its start."""
        held_on = self._cluster.held_on(node)
        self._cluster.work.pods += 1 + len(held_on)
        ends = (self._ends.of(held, now) for held in held_on)
        return sum(end is None or end.at_s > start_s for end in ends)

    # -- GPUs --------------------------------------------------------------------------------

    def _choose_gpus(
        self, advance: KnownReservation, others: list[KnownReservation], start_s: float, now: float
    ) -> bool:
        """The same as before, then where they will be free, on nodes with the least to spare."""
        spec, before = advance.spec, advance.gpus_on
        found = self._still_there(before or dict(spec.chosen_gpus), advance)
        if spec.gpus > sum(found.values()) and now >= advance.search_s:
            self._add(found, advance, others, start_s, now)
            advance.search_s = now + _AGAIN_S
        advance.gpus_on, advance.nodes = found, set(found)
        return before != found

    def _still_there(self, chosen: dict[str, int], advance: KnownReservation) -> dict[str, int]:
        spec, left = advance.spec, advance.spec.gpus
        found: dict[str, int] = {}
        for node, gpus in sorted(chosen.items()):
            if node in self._cluster.row_of:
                block = spec.gpus_per_node
                some = min(gpus, left, self._rooms.gpus(node, spec.model)) // block * block
                left -= some
                found |= {node: some} if some else {}
        return found

    def _add(
        self, found: dict[str, int], advance: KnownReservation, others: list[KnownReservation],
        start_s: float, now: float,
    ) -> None:  # fmt: skip
        missing, block = advance.spec.gpus - sum(found.values()), advance.spec.gpus_per_node
        taken = _taken(others)
        for node, gpus in self._gpus_to_have(advance, found, others, start_s, now):
            some = min(missing, gpus) // block * block
            if some > 0 and (node in taken or len(taken) < MOST_NODES):
                found[node] = found.get(node, 0) + some
                taken.setdefault(node, 0)
                missing -= some
            if missing < block:
                return

    def _gpus_to_have(
        self, advance: KnownReservation, found: dict[str, int], others: list[KnownReservation],
        start_s: float, now: float,
    ) -> Iterator[tuple[str, int]]:  # fmt: skip
        """Nodes with the GPUs that it may have there: free now, free then, and any, in this order.

        Nodes with the least to spare come first, so that others stay whole.
        """
        cluster, model = self._cluster, advance.spec.model
        cluster.work.pods += len(cluster.row_of) // 4
        limits = self._not_taken(model, found, others)
        free = np.minimum(limits, whole_free(cluster.nodes) - self._of(found, others))
        order = np.argsort(free, kind="stable")
        some = order[free[order] >= advance.spec.gpus_per_node]
        yield from ((cluster.node_at(row).name, int(free[row])) for row in some.tolist())
        rest = order[limits[order] >= advance.spec.gpus_per_node][::-1]
        for row in rest[:_MOST_LOOKED].tolist():
            node = cluster.node_at(row).name
            then = self._rooms.free(node, model, self._rooms.held(node, now), start_s)
            taken = found.get(node, 0) + sum(each.gpus_on.get(node, 0) for each in others)
            yield node, min(int(limits[row]), then - taken)
        left = self._not_taken(model, found, others)
        yield from ((cluster.node_at(row).name, int(left[row])) for row in rest.tolist())

    def _not_taken(
        self, model: str, found: dict[str, int], others: list[KnownReservation]
    ) -> PerNode:
        """GPUs by row that no reservation of the time has, in use or not."""
        whole = set[str]().union(*(each.nodes for each in others if not each.is_by_gpu))
        left = gpus_in_order(self._cluster, model) - self._of(found, others)
        left[self._cluster.nodes.named(whole)] = 0
        return left

    def _of(self, found: dict[str, int], others: list[KnownReservation]) -> PerNode:
        """GPUs by row that reservations have."""
        counts = np.zeros(self._cluster.columns.size, dtype=np.int64)
        for node, gpus in (*found.items(), *_taken(others).items()):
            if (row := self._cluster.row_of.get(node)) is not None:
                counts[row] += gpus
        return counts


def _taken(others: Iterable[KnownReservation]) -> dict[str, int]:
    """GPUs of other reservations, by node."""
    found: dict[str, int] = {}
    for each in others:
        for node, gpus in each.gpus_on.items():
            found[node] = found.get(node, 0) + gpus
    return found


def gpus_in_order(cluster: Cluster, model: str) -> PerNode:
    """GPUs of the model by row, without those that are listed and not in order."""
    devices, size = cluster.columns.devices, cluster.columns.size
    there = devices.there[:size]
    if model:
        wanted = devices.match.of(GpuRequest(gpus=1, models=frozenset((model,))))
        of_model: PerNode = (there & wanted[devices.model[:size]]).sum(axis=1)
        return of_model
    counted = np.where(devices.slotted[:size], 0, cluster.nodes.allocatable(GPU))
    found: PerNode = there.sum(axis=1) + counted
    return found


def gpus_by_row(cluster: Cluster, model: str) -> PerNode:
    devices, size = cluster.columns.devices, cluster.columns.size
    listed = devices.model[:size] >= 0
    if not model:
        found: PerNode = np.maximum(listed.sum(axis=1), cluster.nodes.allocatable(GPU))
        return found
    wanted = devices.match.of(GpuRequest(gpus=1, models=frozenset((model,))))
    of_model: PerNode = (listed & wanted[devices.model[:size]]).sum(axis=1)
    return of_model
