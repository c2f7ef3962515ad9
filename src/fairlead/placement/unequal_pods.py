"""Nodes for pods that differ, in few domains: by kinds of pods, not exact but close.

Node after node is filled, each time the one that takes most of what is left; then nodes whose pods
fit on the others are freed. Of domains first each alone is tried, then two together, and so on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations, islice

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask, PerNode, Rows

#: (kinds, nodes) how many pods of each kind a node takes.
Taken = npt.NDArray[np.int64]
#: (resources, nodes) or (kinds, resources)
AmountTable = npt.NDArray[np.int64]

#: Domains that are tried together, and how often.
_MOST_COMBINED = 10
_MOST_TRIED = 30
#: Solutions of equal numbers of domains that are improved.
_MOST_IMPROVED = 3


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

    def reordered(self, order: Rows) -> "Kinds":
        return replace(
            self,
            counts=self.counts[order],
            needs=self.needs[order],
            room=self.room[order],
            size=self.size[order],
            order=order,
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


def spread_over_few(kinds: Kinds, most: int) -> Taken | None:
    """All pods in as few domains as possible, at most so many; None if none was found."""
    for number in range(1, most + 1):
        tried = islice(_combined(kinds, number), _MOST_TRIED)
        found = [(each, nodes) for nodes in tried if (each := _in_nodes(kinds, nodes)) is not None]
        if found:
            found.sort(key=lambda one: kinds.value(one[0]))
            ways = [
                each
                for first, nodes in found[:_MOST_IMPROVED]
                for each in (first, *_variants(kinds, nodes))
            ]
            ways.sort(key=kinds.value)
            better = [_improved(kinds, each) for each in ways[:_MOST_IMPROVED]]
            return min(better, key=kinds.value)
    return None


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


def _combined(kinds: Kinds, number: int) -> Iterator[Rows]:
    """Nodes of so many domains that could have room for all, the smallest such domains first."""
    domains = np.unique(kinds.domains[kinds.room.any(axis=0)])
    if number >= len(domains):
        if number == len(domains):
            yield np.flatnonzero(np.isin(kinds.domains, domains))
        return
    places = np.searchsorted(domains, kinds.domains)
    inside = np.isin(kinds.domains, domains)
    limited = np.minimum(kinds.room, kinds.counts[:, None])
    pods = np.array([np.bincount(places[inside], each[inside], len(domains)) for each in limited])
    free = np.array(
        [np.bincount(places[inside], each[inside], len(domains)) for each in kinds.free]
    )
    demand = kinds.counts @ kinds.needs
    share = np.minimum(
        (np.minimum(pods, kinds.counts[:, None]) / kinds.counts[:, None]).min(axis=0),
        (free / np.maximum(demand, 1)[:, None]).min(axis=0),
    )
    mean = np.minimum(pods / kinds.counts[:, None], 1).mean(axis=0)
    order = np.lexsort((-mean, -np.minimum(share, 1)))
    kept = order if number == 1 else order[:_MOST_COMBINED]
    sizes = [np.sort(kinds.left[inside & (places == n)])[::-1] for n in range(len(domains))]
    total = int(kinds.size @ kinds.counts)
    enough = [
        (*_least_nodes([sizes[n] for n in chosen], total), chosen)
        for chosen in map(list, combinations(kept.tolist(), number))
        if (pods[:, chosen].sum(axis=1) >= kinds.counts).all()
        and (free[:, chosen].sum(axis=1) >= demand).all()
    ]
    for *_, chosen in sorted(enough):
        yield np.flatnonzero(inside & np.isin(places, chosen))


def _least_nodes(sizes: list[PerNode], total: int) -> tuple[int, int]:
    """How many nodes are needed at least, and what all have free."""
    largest = np.sort(np.concatenate(sizes))[::-1]
    return int(np.searchsorted(np.cumsum(largest), total)), int(largest.sum())


def _in_nodes(kinds: Kinds, nodes: Rows) -> Taken | None:
    part = kinds.only(nodes)
    found = _filled(part, tight=False)
    if found is None:
        found = _filled(part, tight=True)
    if found is None:
        return None
    taken = np.zeros_like(kinds.room)
    taken[:, nodes] = found
    return taken


def _filled(kinds: Kinds, *, tight: bool) -> Taken | None:
    """Node after node; `tight`: the one with least left over, if it takes anything."""
    left, fits = kinds.counts.copy(), _fits(kinds, kinds.counts)
    taken = np.zeros_like(kinds.room)
    is_open = np.ones(kinds.room.shape[1], dtype=np.bool_)
    while left.any():
        if (left < fits.max(axis=1, where=is_open, initial=0)).any():
            fits = _fits(kinds, left)  # else each node takes what it would have taken before
        worth = np.where(is_open, kinds.size @ fits, 0)
        if not worth.any():
            return None
        rest = kinds.left - worth
        key = rest if tight else rest - 1000 * worth - kinds.used
        node = int(np.argmin(np.where(worth > 0, key, 1 << 60)))
        taken[:, node] = fits[:, node]
        left -= fits[:, node]
        is_open[node] = False
    return taken


def _fits(kinds: Kinds, left: PerNode) -> Taken:
    """How many pods of each kind every node would take, the largest kinds first."""
    free = kinds.free.copy()
    fits = np.zeros_like(kinds.room)
    for kind, need in enumerate(kinds.needs):
        if not left[kind]:
            continue
        most = np.minimum(kinds.room[kind], left[kind])
        for resource in np.flatnonzero(need).tolist():
            most = np.minimum(most, free[resource] // need[resource])
        most = np.maximum(most, 0)
        fits[kind] = most
        free -= need[:, None] * most
    return fits


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
    found = _in_nodes(rest, in_use) if spare >= kinds.size @ pods else None
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
