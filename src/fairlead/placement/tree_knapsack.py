"""Nodes for equal pods, near each other: the exact optimum over any number of topology levels.

Every objective is a sum over the used domains of a level, or over the used nodes. So the least cost
of p pods in a domain, for all p at once, is a table, and it is made from the tables of the domains
inside it: a knapsack over a tree. Objectives count in order. Each has digits of its own in an
integer; their bounds say how many integers (words) that takes.
"""

from collections.abc import Iterator
from math import gcd
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fairlead.cluster.arrays import NodeMask, PerNode, Rows
from fairlead.model.lazy_dataclass import dataclass

#: (words, domains, pods + 1): the least cost of room for so many pods in each domain.
Tables = npt.NDArray[np.int64]
#: (levels, nodes) the number of each node's domain, the widest level first. Domains are nested, and
#: their numbers follow those of the domains that they are in.
Domains = npt.NDArray[np.int64]
#: (words, domains) or (words, nodes)
Costs = npt.NDArray[np.int64]

#: The level of all nodes, above the widest one.
EVERYWHERE = -1
#: More than any sum of costs; two of it fit into an integer.
_NEVER = 1 << 61
_LARGEST_WORD = 1 << 60


@dataclass(frozen=True, slots=True)
class Objective:
    """What each used domain of a level costs, or each used node."""

    #: By domain of the level, or by node.
    cost: PerNode
    #: The place of the level; None: nodes.
    level: int | None = None


@dataclass(frozen=True, slots=True)
class Sets:
    """Pods go in sets of so many, each in one domain of a level; one set may be smaller."""

    size: int
    level: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Equal pods, and nodes that have room for them."""

    pods: int
    #: How many of the pods each node has room for.
    room: PerNode
    domains: Domains
    #: The most important one first.
    objectives: tuple[Objective, ...]
    sets: Sets | None = None


class Knapsack:
    """The tables of a problem for the domains of one level."""

    def __init__(self, problem: Problem, level: int = EVERYWHERE) -> None:
        self._problem = problem
        self._digits = _Digits(problem)
        self._layer = self._build(level)

    def feasible(self) -> Rows:
        """The domains with room for all pods, the cheapest first."""
        total = self._layer.tables[:, :, -1]
        order = np.lexsort(total[::-1])
        possible = (total[0] < _NEVER) & (self._digits.small_sets(total) <= 1)
        feasible: Rows = order[possible[order]]
        return feasible

    def chosen(self, domain: int) -> PerNode:
        """How many pods each node takes at the least cost, if the domain takes all of them."""
        taken = np.zeros(len(self._problem.room), dtype=np.int64)
        self._layer.choose(domain, self._layer.tables.shape[2] - 1, taken)
        return taken

    def values(self, domain: int) -> tuple[int, ...]:
        """What that costs, by objective."""
        return self._digits.values(self._layer.tables[:, domain, -1])

    def _build(self, level: int) -> "_Layer":
        layer: _Layer = _Nodes(self._problem, self._digits)
        for inner in range(len(self._problem.domains) - 1, level, -1):
            layer = self._paid(layer, inner)
            layer = self._merged(layer, inner - 1)
        return self._paid(layer, level) if level != EVERYWHERE else layer

    def _paid(self, layer: "_Layer", level: int) -> "_Layer":
        """With what a used domain of the level costs."""
        sets, pods = self._problem.sets, self._problem.pods
        if sets and level == sets.level:
            layer = _InSets(layer, sets.size, pods, self._digits)
        cost = self._digits.of_level(level)
        return _Paid(layer, cost) if cost is not None else layer

    def _merged(self, layer: "_Layer", level: int) -> "_Layer":
        """The tables of the level's domains, from those of the domains in them."""
        domains = self._problem.domains
        parents = np.zeros(layer.tables.shape[1], dtype=np.int64)
        if level != EVERYWHERE:
            parents[domains[level + 1]] = domains[level]
        useful = _useful(layer.tables, parents, self._problem.pods)
        if len(useful) < len(parents):
            layer, parents = _Some(layer, useful), parents[useful]
        while (parents[1:] == parents[:-1]).any():
            pairs = _Pairs(layer, parents)
            layer, parents = pairs, parents[pairs.left]
        return layer


class _Digits:
    """Where each objective stands in the words of a cost."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        bounds = [problem.pods] * bool(problem.sets) + [
            _largest_sum(each.cost, problem.pods) for each in problem.objectives
        ]
        #: Word and factor by objective; the first is that of sets that are not full.
        self._places: list[tuple[int, int]] = []
        self._sizes = [bound + 1 for bound in bounds]
        self.words = 1
        factor = 1
        for size in reversed(self._sizes):  # the last word is the least important
            if factor * size > _LARGEST_WORD:
                self.words, factor = self.words + 1, 1
            self._places.append((-self.words, factor))
            factor *= size
        self._places.reverse()

    def of_level(self, level: int | None) -> Costs | None:
        """By domain of the level, or by node; None if they cost nothing."""
        found: Costs | None = None
        for each, (word, factor) in self._objectives():
            if each.level == level:
                if found is None:
                    found = np.zeros((self.words, len(each.cost)), dtype=np.int64)
                found[word] += each.cost * factor
        return found

    def of_small_set(self) -> Costs:
        cost = np.zeros((self.words, 1), dtype=np.int64)
        word, factor = self._places[0]
        cost[word] = factor
        return cost

    def small_sets(self, cost: Costs) -> PerNode:
        """How many sets are not full; each one too many makes a solution impossible."""
        if not self._problem.sets:
            return np.zeros(cost.shape[1], dtype=np.int64)
        word, factor = self._places[0]
        small: PerNode = cost[word] // factor
        return small

    def values(self, cost: Costs) -> tuple[int, ...]:
        skipped = bool(self._problem.sets)
        places = zip(self._places, self._sizes, strict=True)
        values = [int(cost[word]) // factor % size for (word, factor), size in places]
        return tuple(values[skipped:])

    def _objectives(self) -> Iterator[tuple[Objective, tuple[int, int]]]:
        places = self._places[bool(self._problem.sets) :]
        return zip(self._problem.objectives, places, strict=True)


def _largest_sum(cost: PerNode, terms: int) -> int:
    """Of so many different ones; a domain or node without a pod costs nothing."""
    most = np.sort(cost)[-terms:]
    return int(most.sum())


class _Layer(Protocol):
    """Tables, and how each of their entries came about."""

    tables: Tables

    def choose(self, domain: int, pods: int, taken: PerNode) -> None:
        """Adds the pods of each node, if the domain takes so many at the least cost."""
        ...


class _Nodes:
    """The domains of the narrowest level, node by node."""

    def __init__(self, problem: Problem, digits: _Digits) -> None:
        nodes = len(problem.room)
        levels = problem.domains
        self._pods = problem.pods
        self._room = np.minimum(problem.room, problem.pods)
        self._domain = levels[-1] if len(levels) else np.zeros(nodes, dtype=np.int64)
        cost = digits.of_level(None)
        self._cost = cost if cost is not None else np.zeros((digits.words, nodes), dtype=np.int64)
        self._nodes = self._useful()
        self.tables = self._filled()

    def choose(self, domain: int, pods: int, taken: PerNode) -> None:
        nodes = self._nodes[self._domain[self._nodes] == domain]
        history = [_empty(len(self._cost), 1, pods)]
        for node in nodes.tolist():
            history.append(_with_node(history[-1], self._room[[node]], self._cost[:, [node]]))
        for node, before, after in zip(
            nodes[::-1].tolist(), history[-2::-1], history[:0:-1], strict=True
        ):
            if pods and (before[:, 0, pods] != after[:, 0, pods]).any():
                taken[node] = min(pods, int(self._room[node]))
                pods -= int(taken[node])

    def _useful(self) -> Rows:
        """Of nodes with equal room in one domain the cheapest, as many as could be used."""
        order = np.lexsort((*self._cost[::-1], -self._room, self._domain))
        order = order[self._room[order] > 0]
        domain, room = self._domain[order], self._room[order]
        equal = np.zeros(len(order), dtype=np.bool_)
        equal[1:] = (domain[1:] == domain[:-1]) & (room[1:] == room[:-1])
        return order[_position(equal) * room < self._pods]

    def _filled(self) -> Tables:
        """All domains at once: their first nodes, then their second ones, and so on."""
        nodes = self._nodes
        domain = self._domain[nodes]
        domains = int(self._domain.max(initial=0)) + 1
        tables = _empty(len(self._cost), domains, self._pods)
        equal = np.zeros(len(nodes), dtype=np.bool_)
        equal[1:] = domain[1:] == domain[:-1]
        position = _position(equal)
        order = np.argsort(position, kind="stable")
        ends = np.cumsum(np.bincount(position, minlength=1))
        for these in np.split(nodes[order], ends[:-1]):
            at = self._domain[these]
            tables[:, at] = _with_node(tables[:, at], self._room[these], self._cost[:, these])
        return tables


class _Some:
    """Domains that are not worse than many others."""

    def __init__(self, below: _Layer, which: Rows) -> None:
        self._below = below
        self._which = which
        self.tables = below.tables[:, which]

    def choose(self, domain: int, pods: int, taken: PerNode) -> None:
        self._below.choose(int(self._which[domain]), pods, taken)


class _Pairs:
    """Neighbours with the same parent as one."""

    def __init__(self, below: _Layer, parents: PerNode) -> None:
        self._below = below
        equal = np.zeros(len(parents), dtype=np.bool_)
        equal[1:] = parents[1:] == parents[:-1]
        second = equal & (_position(equal) % 2 == 1)
        self.left = np.flatnonzero(~second)
        has_second = np.append(second[1:], False)[self.left]
        self._right = np.where(has_second, self.left + 1, -1)
        self.tables = below.tables[:, self.left]
        self._combine(np.flatnonzero(has_second))

    def choose(self, domain: int, pods: int, taken: PerNode) -> None:
        left, right = int(self.left[domain]), int(self._right[domain])
        part = pods
        if right >= 0:
            tables = self._below.tables
            sums = tables[:, left, : pods + 1] + tables[:, right, pods::-1]
            part = int(np.argmax((sums == self.tables[:, domain, pods, None]).all(axis=0)))
            self._below.choose(right, pods - part, taken)
        self._below.choose(left, part, taken)

    def _combine(self, pairs: Rows) -> None:
        """Every number of pods for the one of a pair that has less room; the rest to the other."""
        most = _most(self._below.tables)
        left, right = self.left[pairs], self._right[pairs]
        small = np.where(most[left] < most[right], left, right)
        order = np.argsort(-most[small], kind="stable")
        pairs, small = pairs[order], small[order]
        large = (left + right)[order] - small
        smaller, larger = self._below.tables[:, small], self._below.tables[:, large]
        least, width = larger.copy(), larger.shape[2]
        ends = np.searchsorted(-most[small], -np.arange(width), side="right")
        for pods in range(1, int(most[small].max(initial=0)) + 1):
            n = ends[pods]
            sums = larger[:, :n, : width - pods] + smaller[:, :n, pods, None]
            _least(least[:, :n, pods:], sums)
        np.minimum(least[0], _NEVER, out=least[0])
        self.tables[:, pairs] = least


class _Paid:
    """Every used domain costs something."""

    def __init__(self, below: _Layer, cost: Costs) -> None:
        self._below = below
        self.tables = below.tables.copy()
        self.tables[:, :, 1:] += cost[:, :, None]
        np.minimum(self.tables[0], _NEVER, out=self.tables[0])

    def choose(self, domain: int, pods: int, taken: PerNode) -> None:
        if pods:
            self._below.choose(domain, pods, taken)


class _InSets:
    """A domain takes whole sets, and at most one takes the set that is not full."""

    def __init__(self, below: _Layer, size: int, pods: int, digits: _Digits) -> None:
        self._below = below
        rest = pods % size
        self._unit = gcd(size, rest)
        counts = np.arange(0, pods + 1, self._unit)
        self.tables = below.tables[:, :, counts].copy()
        if not rest:
            return
        remainder = counts % size
        self.tables[0][:, (remainder != 0) & (remainder != rest)] = _NEVER
        self.tables[:, :, remainder == rest] += digits.of_small_set()[:, :, None]
        np.minimum(self.tables[0], _NEVER, out=self.tables[0])

    def choose(self, domain: int, pods: int, taken: PerNode) -> None:
        self._below.choose(domain, pods * self._unit, taken)


def _empty(words: int, domains: int, pods: int) -> Tables:
    """Room for no pod, at no cost."""
    tables = np.zeros((words, domains, pods + 1), dtype=np.int64)
    tables[0, :, 1:] = _NEVER
    return tables


def _with_node(tables: Tables, room: PerNode, cost: Costs) -> Tables:
    """One more node in each domain."""
    before = np.maximum(np.arange(tables.shape[2]) - room[:, None], 0)
    used = np.take_along_axis(tables, before[None], axis=2) + cost[:, :, None]
    used[:, :, 0] = 0
    _least(used, tables)
    return used


def _least(tables: Tables, others: Tables) -> None:
    """The smaller of each two costs, in place."""
    if len(tables) == 1:
        np.minimum(tables, others, out=tables)
        return
    np.copyto(tables, others, where=_less(others, tables))


def _less(a: Tables, b: Tables) -> NodeMask:
    less = a[-1] < b[-1]
    for word in range(len(a) - 2, -1, -1):
        less = (a[word] < b[word]) | ((a[word] == b[word]) & less)
    found: NodeMask = less
    return found


def _useful(tables: Tables, parents: PerNode, pods: int) -> Rows:
    """Without domains that as many others as there are pods can stand in for, at no more cost.

    In a tree with thousands of racks of one node most of them are left out.
    """
    kept = np.ones(len(parents), dtype=np.bool_)
    if len(tables) > 1 or len(parents) <= pods:
        return np.flatnonzero(kept)
    most = _most(tables)
    order = np.lexsort((tables[0, np.arange(len(most)), most], most, parents))
    changes = (np.diff(parents[order]) != 0) | (np.diff(most[order]) != 0)
    for alike in np.split(order, np.flatnonzero(changes) + 1):
        if len(alike) > pods:
            largest = tables[0, alike[:pods]].max(axis=0)
            kept[alike[pods:]] = (tables[0, alike[pods:]] < largest).any(axis=1)
    return np.flatnonzero(kept)


def _most(tables: Tables) -> PerNode:
    """The largest number of pods that each domain has room for."""
    finite = tables[0] < _NEVER
    most: PerNode = finite.shape[1] - 1 - np.argmax(finite[:, ::-1], axis=1)
    return most


def _position(equal: NodeMask) -> PerNode:
    """Counts 0, 1, 2… from each entry that does not equal the one before."""
    places = np.arange(len(equal))
    starts = np.where(equal, 0, places)
    position: PerNode = places - np.maximum.accumulate(starts) if len(equal) else places
    return position
