"""Nodes for pods that differ, in few domains: by kinds of pods, not exact but close.

Node after node is filled, each time the one that takes most of what is left; then nodes whose pods
fit on the others are freed. Few pods on few nodes are then solved exactly. Of domains first each
alone is tried, then two together, and so on.
"""

from collections.abc import Iterator
from dataclasses import field, replace
from itertools import combinations, islice

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask, PerNode, Rows
from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.exact_kinds import ExactKinds

#: (kinds, nodes) how many pods of each kind a node takes.
Taken = npt.NDArray[np.int64]
#: (resources, nodes) or (kinds, resources)
AmountTable = npt.NDArray[np.int64]

#: Numbers of resources, and amounts, by kind.
Uses = tuple[tuple[tuple[int, int], ...], ...]

#: Domains of which some are tried together, how many of them, and how often.
_MOST_COMBINED = 10
_MOST_TOGETHER = 5
_MOST_TRIED = 30
#: Solutions with equally many domains that are improved.
_MOST_IMPROVED = 3
#: Numbers that are computed to fill nodes one by one, and for all that is tried.
_MOST_FOR_ONE = 4_000_000
MOST_WORK = 16_000_000
#: The same for all that is solved exactly.
_MOST_EXACT = 2_500_000
_NO_LIMIT = 1 << 60
#: What a step costs, however few nodes there are.
_STEP = 2000


@dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds of pods, the largest first, and nodes."""

    #: Pods of each kind.
    counts: PerNode
    #: What a pod takes.
    needs: AmountTable
    #: How many pods of each kind a node has room for, if it has no others.
    room: Taken
    free: AmountTable
    #: What a pod is worth when nodes are compared, and what is free on a node.
    size: PerNode
    left: PerNode
    #: Nodes that other pods of the gang use already.
    used: NodeMask
    domains: PerNode
    #: The numbers that the kinds had before they were reordered.
    order: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    #: For each kind, the resources that a pod takes, and how much; from `needs`.
    uses: Uses = ()

    def __post_init__(self) -> None:
        if not self.uses:
            object.__setattr__(self, "uses", _uses(self.needs))

    def reordered(self, order: Rows) -> "Kinds":
        return replace(
            self,
            counts=self.counts[order],
            needs=self.needs[order],
            room=self.room[order],
            size=self.size[order],
            order=order,
            uses=tuple(self.uses[kind] for kind in order.tolist()),
        )

    def only(self, nodes: Rows) -> "Kinds":
        return replace(
            self,
            room=self.room[:, nodes],
            free=self.free[:, nodes],
            left=self.left[nodes],
            used=self.used[nodes],
            domains=self.domains[nodes],
            order=np.arange(len(self.counts)),
        )

    def value(self, taken: Taken) -> tuple[int, int, int]:
        """Domains, nodes, and what is free on them."""
        on = taken.any(axis=0)
        new = on & ~self.used
        return len(np.unique(self.domains[on])), int(new.sum()), int(self.left[new].sum())


def spread_over_few(kinds: Kinds, most: int, work: int = MOST_WORK) -> Taken | None:
    """All pods in as few domains as possible, at most so many; None if none was found.

    `work`: numbers that may be computed; with few, nodes are filled once and not improved.
    """
    left, one_by_one = max(1, work // _work(kinds)), 2 * work
    for regions in _regions(kinds, most):
        found: list[tuple[Taken, Rows]] = []
        for nodes in islice(regions, min(_MOST_TRIED, left)):
            left -= 1
            taken, spent = _in_nodes(kinds, nodes, min(_MOST_FOR_ONE, one_by_one))
            one_by_one -= spent
            if taken is not None:
                found.append((taken, nodes))
        if found:
            return _best(kinds, found, work)
    return None


def _best(kinds: Kinds, found: list[tuple[Taken, Rows]], work: int) -> Taken:
    found.sort(key=lambda one: kinds.value(one[0]))
    if _one_by_one(kinds) * _MOST_TRIED > work:
        return found[0][0]
    ways = [
        each
        for first, nodes in found[:_MOST_IMPROVED]
        for each in (first, *_variants(kinds, nodes))
    ]
    ways.sort(key=kinds.value)
    better = [_improved(kinds, each) for each in ways[:_MOST_IMPROVED]]
    return _exact(kinds, min(better, key=kinds.value), [nodes for _, nodes in found])


def _exact(kinds: Kinds, best: Taken, regions: list[Rows]) -> Taken:
    """The best that the regions allow, as far as there are few pods and nodes."""
    total, left = int(kinds.size @ kinds.counts), _MOST_EXACT
    for nodes in sorted(regions, key=lambda each: _least_nodes(kinds.left[each], total)):
        part = kinds.only(nodes)
        most = kinds.value(best)[1]
        free = part.left[~part.used]
        if _least_nodes(free, total - int(part.left[part.used].sum()))[0] + 1 > most or not most:
            continue
        exact = ExactKinds(part.counts, part.needs, part.room, part.free, part.left, part.used)
        if exact.work > left:
            continue
        left -= exact.work
        found = exact.solve()
        if found is not None:
            taken = np.zeros_like(kinds.room)
            taken[:, nodes] = found
            best = min(best, taken, key=kinds.value)
    return best


def _one_by_one(kinds: Kinds) -> int:
    """Numbers that are computed to fill nodes one by one."""
    count, nodes = kinds.room.shape
    return int(min(int(kinds.counts.sum()), nodes) * (nodes + _STEP) * count)


def _work(kinds: Kinds) -> int:
    count, nodes = kinds.room.shape
    return max(1, min(_one_by_one(kinds), 4 * (int(nodes) + _STEP) * int(count)))


def _variants(kinds: Kinds, nodes: Rows) -> Iterator[Taken]:
    """Other ways to fill the nodes: least left over first, or another kind of pods first."""
    part = kinds.only(nodes)
    ways = [(part, True)]
    for kind in range(1, len(kinds.counts)):
        order = np.array([kind, *(k for k in range(len(kinds.counts)) if k != kind)])
        ways += [(part.reordered(order), False), (part.reordered(order), True)]
    for way, tight in ways:
        found = _filled(way, tight=tight)
        if found is not None:
            taken = np.zeros_like(kinds.room)
            taken[np.ix_(way.order, nodes)] = found
            yield taken


def _regions(kinds: Kinds, most: int) -> Iterator[Iterator[Rows]]:
    """Nodes to try: of one domain, of two, and so on; then of the domains with most room."""
    sums = _Sums(kinds)
    order = sums.by_share()
    yield sums.combined(order, 1)
    for number in range(2, min(most, _MOST_TOGETHER, len(order)) + 1):
        yield sums.combined(order[:_MOST_COMBINED], number)
    number = _MOST_TOGETHER + 1
    while number < min(most, len(order)):
        yield sums.combined(order[:number], number)
        number += max(1, number // 4)
    if min(most, len(order)) > 1:
        yield sums.combined(order[: min(most, len(order))], min(most, len(order)))


class _Sums:
    """What the domains have together."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._codes, self._places = np.unique(kinds.domains, return_inverse=True)
        limited = np.minimum(kinds.room, kinds.counts[:, None])
        self._pods = self._by_domain(limited)
        self._free = self._by_domain(np.maximum(kinds.free, 0))
        self._demand = kinds.counts @ kinds.needs
        self._order = np.argsort(self._places, kind="stable")
        self._ends = np.cumsum(np.bincount(self._places, minlength=len(self._codes)))

    def _by_domain(self, amounts: AmountTable) -> npt.NDArray[np.float64]:
        return np.array([np.bincount(self._places, each, len(self._codes)) for each in amounts])

    def by_share(self) -> Rows:
        """Domains by how much of the pods they have room for, the most first."""
        pods = np.minimum(self._pods / self._kinds.counts[:, None], 1)
        free = (self._free / np.maximum(self._demand, 1)[:, None]).min(axis=0)
        order = np.lexsort((-pods.mean(axis=0), -np.minimum(pods.min(axis=0), free)))
        room: PerNode = self._pods.sum(axis=0)
        return order[room[order] > 0]

    def combined(self, domains: Rows, number: int) -> Iterator[Rows]:
        """Nodes of so many of the domains together; those first that need the fewest nodes."""
        if number == 1:
            lacking = (self._pods < self._kinds.counts[:, None]).sum(axis=0)
            lacking += (self._free < self._demand[:, None]).sum(axis=0)
            fitting = domains[lacking[domains] == 0]
            fitting = fitting[np.argsort(self._free.sum(axis=0)[fitting], kind="stable")]
            chosen = [[each] for each in fitting[: 2 * _MOST_TRIED].tolist()]
        else:
            chosen = self._that_may_do(list(combinations(domains.tolist(), number)))
        total = int(self._kinds.size @ self._kinds.counts)
        nodes = [np.sort(np.concatenate([self._nodes(d) for d in each])) for each in chosen]
        nodes.sort(key=lambda each: _least_nodes(self._kinds.left[each], total))
        return iter(nodes)

    def _nodes(self, domain: int) -> Rows:
        start = self._ends[domain - 1] if domain else 0
        return self._order[start : self._ends[domain]]

    def _that_may_do(self, chosen: list[tuple[int, ...]]) -> list[list[int]]:
        """Those of the domains together that have room for all pods, each kind by itself."""
        if not chosen:
            return []
        domains = np.array(chosen, dtype=np.intp)
        enough = (self._pods[:, domains].sum(axis=2) >= self._kinds.counts[:, None]).all(axis=0)
        enough &= (self._free[:, domains].sum(axis=2) >= self._demand[:, None]).all(axis=0)
        found: list[list[int]] = domains[enough].tolist()
        return found


def _least_nodes(sizes: PerNode, total: int) -> tuple[int, int]:
    """How many nodes are needed at least, and what all have free."""
    largest = np.sort(sizes)[::-1]
    return int(np.searchsorted(np.cumsum(largest), total)), int(largest.sum())


def _in_nodes(kinds: Kinds, nodes: Rows, most: int) -> tuple[Taken | None, int]:
    """And what it took to fill nodes one by one; if that is more than `most`, all at once."""
    part = kinds.only(nodes)
    each, spent = _one_by_one(part), 0
    if each > most:
        found = _filled_at_once(part)
    else:
        found, spent = _filled(part, tight=False), each
        if found is None:
            found, spent = _filled(part, tight=True), 2 * each
    if found is None:
        return None, spent
    taken = np.zeros_like(kinds.room)
    taken[:, nodes] = found
    return taken, spent


def _filled(kinds: Kinds, *, tight: bool) -> Taken | None:
    """Node after node; `tight`: the one with least left over, if it takes anything."""
    left, fits = kinds.counts.copy(), _fits(kinds, kinds.counts)
    taken = np.zeros_like(kinds.room)
    is_open = np.ones(kinds.room.shape[1], dtype=np.int64)
    before, weight = (kinds.left, 1) if tight else (kinds.left - kinds.used, 1001)
    spare = _spare(kinds)
    while any(left.tolist()):
        if (left < fits.max(axis=1, initial=0)).any():
            fits = _fits(kinds, left) * is_open  # else each takes what it would have taken before
        worth = kinds.size @ fits
        key = before - weight * worth
        key[worth <= 0] = 1 << 60
        node = int(key.argmin()) if len(key) else 0
        if not len(key) or worth[node] <= 0:
            return None
        spare -= int(kinds.left[node] - worth[node])
        if spare < 0:
            return None
        taken[:, node] = fits[:, node]
        left -= fits[:, node]
        is_open[node] = 0
        fits[:, node] = 0
    return taken


def _spare(kinds: Kinds) -> int:
    """What may be left over on nodes that are in use, if all pods are to have room."""
    if (kinds.size <= 1).any():  # pods that take no GPUs
        return _NO_LIMIT
    return int(kinds.left.sum() - kinds.size @ kinds.counts)


def _filled_at_once(kinds: Kinds) -> Taken | None:
    """Kind after kind, each on the nodes with most room for it: for many pods and nodes."""
    free, taken = kinds.free.copy(), np.zeros_like(kinds.room)
    for kind, need in enumerate(kinds.needs):
        room = np.minimum(kinds.room[kind], kinds.counts[kind])
        for resource, amount in kinds.uses[kind]:
            room = np.minimum(room, np.maximum(free[resource], 0) // amount)
        order = np.lexsort((-room, kinds.domains))
        ordered = room[order]
        taken[kind, order] = np.clip(
            kinds.counts[kind] - (np.cumsum(ordered) - ordered), 0, ordered
        )
        free -= need[:, None] * taken[kind]
    return taken if (taken.sum(axis=1) == kinds.counts).all() else None


def _fits(kinds: Kinds, left: PerNode) -> Taken:
    """How many pods of each kind every node would take, the largest kinds first."""
    free = kinds.free.copy()
    fits = np.zeros_like(kinds.room)
    for kind, (uses, most) in enumerate(zip(kinds.uses, left.tolist(), strict=True)):
        if not most:
            continue
        found = np.minimum(kinds.room[kind], most, out=fits[kind])
        for resource, need in uses:
            np.minimum(found, free[resource] // need, out=found)
        np.maximum(found, 0, out=found)
        for resource, need in uses:
            free[resource] -= need * found
    return fits


def _uses(needs: AmountTable) -> Uses:
    return tuple(
        tuple((resource, need) for resource, need in enumerate(row) if need)
        for row in needs.tolist()
    )


def _improved(kinds: Kinds, taken: Taken) -> Taken:
    """Frees nodes whose pods fit on the others, or uses smaller ones instead."""
    for _ in range(kinds.room.shape[1]):
        better = _without_a_node(kinds, taken)
        if better is None:
            return taken
        taken = better
    return taken


def _without_a_node(kinds: Kinds, taken: Taken) -> Taken | None:
    on = np.flatnonzero(taken.any(axis=0) & ~kinds.used)
    before = kinds.value(taken)
    allowed = np.isin(kinds.domains, np.unique(kinds.domains[taken.any(axis=0)]))
    for node in on[np.argsort(kinds.size @ taken[:, on], kind="stable")].tolist():
        others = taken.copy()
        others[:, node] = 0
        found = _moved(kinds, others, taken[:, node], allowed, node)
        if found is not None and kinds.value(found) < before:
            return found
    return None


def _moved(kinds: Kinds, taken: Taken, pods: PerNode, allowed: NodeMask, away: int) -> Taken | None:
    """The pods of one node on nodes that are in use, or on one other node."""
    free = kinds.free - kinds.needs.T @ taken
    room = np.where(allowed, kinds.room - taken, 0)
    room[:, away] = 0
    rest = replace(kinds, counts=pods, room=room, free=free)
    in_use = np.flatnonzero(taken.any(axis=0) | kinds.used)
    spare = int((kinds.left[in_use] - kinds.size @ taken[:, in_use]).sum())
    is_enough = spare >= kinds.size @ pods
    found = _in_nodes(rest, in_use, _MOST_FOR_ONE)[0] if is_enough else None
    if found is not None:
        return taken + found
    fits = _fits(rest, pods)
    alone = np.flatnonzero((fits == pods[:, None]).all(axis=0))
    if not len(alone):
        return None
    node = alone[np.argmin(kinds.left[alone])]
    moved = taken.copy()
    moved[:, node] += pods
    return moved
