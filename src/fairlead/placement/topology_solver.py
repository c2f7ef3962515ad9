"""Nodes for equal pods under the topology rules of their group, at one moment."""

from dataclasses import field

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode, Rows
from fairlead.cluster.topology_levels import DomainTree
from fairlead.model.gangs import TopologyRule
from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.tree_knapsack import EVERYWHERE, Knapsack, Objective, Problem, Sets

#: Beyond so many numbers in the tables the nodes are chosen greedily.
MOST_WORK = 16_000_000
#: Domains are compared by the room that they have in so many steps.
_ROOM_STEPS = 31


@dataclass(frozen=True, slots=True)
class LevelLimits:
    """What rules say now, by the number of the level."""

    #: How many domains may be used.
    most: dict[int, int] = field(default_factory=dict)
    #: Levels of which few domains should be used, the most important first.
    few: tuple[int, ...] = ()

    @property
    def only(self) -> int | None:
        """The narrowest level of which only one domain may be used."""
        return max((level for level, most in self.most.items() if most == 1), default=None)


def limits_of(rules: tuple[TopologyRule, ...], tree: DomainTree, waited_s: float) -> LevelLimits:
    """A preferred rule with patience is a required one until the gang has waited so long."""
    most: dict[int, int] = {}
    few: list[int] = []
    for rule in rules:
        level = tree.place(rule.level)
        if level is None:
            continue
        allowed = domains_allowed(rule, waited_s)
        if allowed is not None:
            most[level] = min(allowed, most.get(level, allowed))
        if allowed != 1:
            few.append(level)
    return LevelLimits(most, tuple(few))


def domains_allowed(rule: TopologyRule, waited_s: float) -> int | None:
    """How many domains may be used after this time; None: any number."""
    patience = rule.patience_s
    if rule.required:
        return 1 if not patience else 1 + int(waited_s // patience)
    return 1 if patience and waited_s < patience else None


@dataclass(frozen=True, slots=True)
class Question:
    """Equal pods, and where they may go."""

    pods: int
    tree: DomainTree
    limits: LevelLimits
    #: By row.
    room: PerNode
    #: Thousandths of GPUs that are free, and what scores have against a node.
    free_milli: PerNode
    penalty: PerNode
    #: Rows with pods that the rules are about, too: their domains count as used.
    bound: Rows
    #: Rows that cost nothing more, since other pods of the gang use them.
    used: Rows
    sets: Sets | None = None


def solve(question: Question) -> PerNode | None:
    """How many pods each row takes; None if the rules cannot be kept."""
    rows = _candidates(question)
    if not len(rows):
        return None
    compact = _Compact(question, rows)
    taken = compact.solve()
    if taken is None:
        return None
    found = np.zeros(len(question.room), dtype=np.int64)
    found[compact.rows] = taken
    return found if _keeps_limits(question, found) else None


def domain_room(question: Question, level: int, rows: NodeMask) -> PerNode:
    """How many of the pods each domain of a level has room for, whole sets only."""
    domains, _ = question.tree.at(level)
    sets = question.sets
    room = np.where(rows, np.minimum(question.room, question.pods), 0)
    if sets is None or sets.level < level:
        return _sums(domains, room)
    inner, _ = question.tree.at(sets.level)
    by_set = _sums(inner, room)
    whole, rest = by_set // sets.size * sets.size, question.pods % sets.size
    above = np.zeros(len(by_set), dtype=np.int64)
    above[inner] = domains
    total = np.zeros(int(domains.max(initial=0)) + 1, dtype=np.int64)
    np.add.at(total, above, whole)
    if rest:
        spare = np.zeros_like(total)
        np.maximum.at(spare, above, np.where(by_set % sets.size >= rest, rest, 0))
        total += spare
    return total


def most_in_a_domain(question: Question) -> int:
    """How many of the pods fit where only one domain of a level may be used, or at all."""
    rows: NodeMask = question.room > 0
    only = question.limits.only
    if only is None:
        return min(question.pods, int(np.where(rows, question.room, 0).sum()))
    domains, inside = question.tree.at(only)
    room = domain_room(question, only, rows & inside)
    bound = question.bound[inside[question.bound]]
    found = room[domains[bound]] if len(bound) else room
    return min(question.pods, int(found.max(initial=0)))


def _candidates(question: Question) -> Rows:
    """Rows with room that are in domains with enough room, as far as one domain must do."""
    tree, limits = question.tree, question.limits
    rows: NodeMask = question.room > 0
    levels = [*limits.most, *([question.sets.level] if question.sets else [])]
    for level in levels:
        rows &= tree.at(level)[1]
    only = limits.only
    if only is not None:
        domains, inside = tree.at(only)
        bound = question.bound[inside[question.bound]]
        if len(bound):
            rows &= np.isin(domains, domains[bound])
        else:
            rows &= (domain_room(question, only, rows) >= question.pods)[domains]
    return np.flatnonzero(rows)


def _sums(domains: PerNode, amounts: PerNode) -> PerNode:
    sums = np.zeros(int(domains.max(initial=0)) + 1, dtype=np.int64)
    np.add.at(sums, domains, amounts)
    return sums


def _keeps_limits(question: Question, taken: PerNode) -> bool:
    rows = np.union1d(np.flatnonzero(taken), question.bound)
    before = question.bound
    for level, most in question.limits.most.items():
        domains, _ = question.tree.at(level)
        allowed = max(most, len(np.unique(domains[before])))
        if len(np.unique(domains[rows])) > allowed:
            return False
    return True


class _Compact:
    """The same question about some rows, in the order of their domains."""

    def __init__(self, question: Question, rows: Rows) -> None:
        self._question = question
        tree = question.tree
        order = np.lexsort((rows, *tree.domains[::-1, rows]))
        self.rows = rows[order]
        self._only = question.limits.only
        self._narrow()

    def _narrow(self) -> None:
        """Without domains that cannot be among the fewest of the most important level."""
        question = self._question
        if self._only is not None or len(question.bound) or not question.limits.few:
            return
        first = question.limits.few[0]
        domains, inside = question.tree.at(first)
        mask = np.zeros(len(question.room), dtype=np.bool_)
        mask[self.rows] = True
        room = domain_room(question, first, mask & inside)
        descending = np.sort(room)[::-1]
        enough = np.cumsum(descending) >= question.pods
        if not enough.any():
            return  # rows outside the level are needed
        fewest = int(np.argmax(enough)) + 1
        if question.sets and fewest > 1:
            return
        least = question.pods - int(descending[: fewest - 1].sum())
        self.rows = self.rows[(room[domains] >= least)[self.rows] & inside[self.rows]]
        if fewest == 1:
            self._only = first

    def solve(self) -> PerNode | None:
        question = self._question
        levels = self._levels()
        numbers = {level: place for place, level in enumerate(levels)}
        room = question.room[self.rows]
        sets = question.sets
        if sets is not None:
            sets = Sets(sets.size, numbers[sets.level]) if sets.level in numbers else None
        problem = Problem(
            question.pods, room, self._domains(levels), self._objectives(numbers), sets
        )
        if len(question.bound) and self._only is not None:
            top = EVERYWHERE  # all that are left are allowed
        else:
            top = numbers[self._only] if self._only is not None else EVERYWHERE
        if _work(problem) > MOST_WORK:
            return _greedy(problem, top)
        knapsack = Knapsack(problem, top)
        feasible = knapsack.feasible()
        return knapsack.chosen(int(feasible[0])) if len(feasible) else None

    def _levels(self) -> list[int]:
        """From the level of which one domain is used; of levels with equal domains only one."""
        question, tree = self._question, self._question.tree
        named = {*question.limits.most, *question.limits.few, self._only}
        named.add(question.sets.level if question.sets else None)
        counts = [len(np.unique(tree.at(level)[0][self.rows])) for level in range(tree.depth)]
        found = []
        for level, count in enumerate(counts):
            same = level + 1 < tree.depth and counts[level + 1] == count
            if level >= (self._only or 0) and (level in named or not same):
                found.append(level)
        return [*found, tree.depth] if tree.depth in named else found

    def _domains(self, levels: list[int]) -> PerNode:
        """Numbered from 0 without gaps, in the order of the rows."""
        found = np.zeros((len(levels), len(self.rows)), dtype=np.int64)
        for place, level in enumerate(levels):
            if level == self._question.tree.depth:
                found[place] = np.arange(len(self.rows))
                continue
            codes = self._question.tree.domains[level, self.rows]
            found[place, 1:] = np.cumsum(np.diff(codes) != 0)
        return found

    def _objectives(self, numbers: dict[int, int]) -> tuple[Objective, ...]:
        question, tree = self._question, self._question.tree
        few = [level for level in question.limits.few if level in numbers]
        wider = [level for level in numbers if few and level < few[0] and level not in few]
        rest = [level for level in numbers if level not in few and level not in wider]
        outside = [Objective((~tree.at(level)[1][self.rows]).astype(np.int64)) for level in few]
        node = np.ones(len(self.rows), dtype=np.int64)
        left = question.free_milli[self.rows]
        left = left // max(int(np.gcd.reduce(left)), 1)  # whole GPUs need fewer digits
        used = np.isin(self.rows, np.union1d(question.used, question.bound))
        node[used] = left[used] = 0
        counted = [
            Objective(node)
            if level == tree.depth
            else Objective(self._costs(level), numbers[level])
            for level in (*few, *wider, *rest)
            if level != self._only
        ]
        fullest = [self._room_cost(numbers)] if few or self._only is not None else []
        return (
            *(each for each in outside if each.cost.any()),
            *counted,
            Objective(node),
            Objective(left),
            *(each for each in fullest if each is not None),
            Objective(question.penalty[self.rows]),
        )

    def _costs(self, level: int) -> PerNode:
        """One for each domain that no pod of the gang is in."""
        domains, _ = self._question.tree.at(level)
        codes = domains[self.rows]
        starts = np.flatnonzero(np.append([True], np.diff(codes) != 0))
        used = np.union1d(self._question.used, self._question.bound)
        free: PerNode = (~np.isin(codes[starts], domains[used])).astype(np.int64)
        return free

    def _room_cost(self, numbers: dict[int, int]) -> Objective | None:
        """Of equal domains the fullest, so that others stay free for larger gangs."""
        few = self._question.limits.few
        level = self._only if self._only is not None else few[0]
        if level not in numbers or level == self._question.tree.depth:
            return None
        domains = self._domains([level])[0]
        room = _sums(domains, self._question.room[self.rows])
        largest = max(int(room.max(initial=0)), 1)
        return Objective(room * _ROOM_STEPS // largest, numbers[level])


def _work(problem: Problem) -> int:
    """About how many numbers are computed."""
    width = problem.pods + 1
    nodes = min(len(problem.room), width * 8)
    merged = sum(int(level.max(initial=0)) + 1 for level in problem.domains[-1:])
    inner = min(width, int(np.minimum(problem.room, problem.pods).sum()) // max(merged, 1) + 1)
    return width * (nodes + merged * inner)


def _greedy(problem: Problem, top: int) -> PerNode | None:
    """The domains with most room first, and in them the nodes with most room."""
    room = np.minimum(problem.room, problem.pods)
    order = _by_room(problem, room)
    if top != EVERYWHERE:
        order = order[problem.domains[top][order] == problem.domains[top][order[0]]]
    rest = problem.pods % problem.sets.size if problem.sets else 0
    taken = _filled(problem, room, order, problem.pods - rest)
    if rest and taken is not None:
        domains = problem.domains[problem.sets.level] if problem.sets else problem.domains[0]
        spare = np.where(np.isin(np.arange(len(room)), order), room - taken, 0)
        large = np.flatnonzero(_sums(domains, spare) >= rest)
        if not len(large):
            return None
        nodes = order[domains[order] == large[0]]
        taken[nodes] += _first(spare[nodes], rest)
    return taken


def _by_room(problem: Problem, room: PerNode) -> Rows:
    keys = [-room]
    for place in reversed(range(len(problem.domains))):
        level = problem.domains[place]
        sums = _sums(level, room)
        if problem.sets and place == problem.sets.level:
            sums = sums // problem.sets.size
        keys += [level, -sums[level]]
    return np.lexsort(keys)


def _filled(problem: Problem, room: PerNode, order: Rows, pods: int) -> PerNode | None:
    if problem.sets:
        room = _whole_sets(problem, room, order)
    taken = np.zeros_like(room)
    taken[order] = _first(room[order], pods)
    return taken if int(taken.sum()) == pods else None


def _first(room: PerNode, pods: int) -> PerNode:
    """As many as there is room for, node by node."""
    taken: PerNode = np.clip(pods - (np.cumsum(room) - room), 0, room)
    return taken


def _whole_sets(problem: Problem, room: PerNode, order: Rows) -> PerNode:
    """In each domain of the sets' level no more than whole sets, in this order of nodes."""
    assert problem.sets is not None
    domains, size = problem.domains[problem.sets.level][order], problem.sets.size
    by_domain = order[np.argsort(domains, kind="stable")]
    sums = _sums(problem.domains[problem.sets.level], np.where(_mask(order, room), room, 0))
    whole = (sums // size * size)[problem.domains[problem.sets.level][by_domain]]
    ordered = room[by_domain]
    start = np.append([True], np.diff(problem.domains[problem.sets.level][by_domain]) != 0)
    before = np.cumsum(ordered) - ordered
    before -= np.maximum.accumulate(np.where(start, before, 0))
    limited = np.zeros_like(room)
    limited[by_domain] = np.clip(whole - before, 0, ordered)
    return limited


def _mask(rows: Rows, like: PerNode) -> NodeMask:
    mask = np.zeros(len(like), dtype=np.bool_)
    mask[rows] = True
    return mask
