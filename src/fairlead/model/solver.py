"""Questions to the solver about gangs, and its answers.

Nodes that can take the same pods at the same cost are one class. A pattern is how many pods of each
kind one node takes. Costs are counted by level, as goals are: a level decides
before all below it.
"""

from collections.abc import Sequence

from fairlead.model.lazy_dataclass import dataclass

#: Costs are compared in so many parts of them.
_EQUAL = 1e-6


@dataclass(frozen=True, slots=True)
class SolverTerms:
    """How long the solver may work for one gang."""

    budget_s: float = 0.5
    #: Whether it is also asked about gangs that have nodes, and may have cheaper ones.
    improves: bool = True


@dataclass(frozen=True, slots=True)
class CostLevel:
    """Costs are as good as the best within this share of it, and this much."""

    tolerance: float = 0.0
    slack: float = 0.0

    def limit(self, best: float) -> float:
        return best * (1.0 + self.tolerance) + self.slack + _EQUAL * abs(best)


@dataclass(frozen=True, slots=True)
class NodeClass:
    #: How many nodes it has.
    nodes: int
    #: Numbers of the patterns that fit on each of them.
    patterns: tuple[int, ...]
    #: What a pod of each kind costs there, by level.
    costs: tuple[tuple[float, ...], ...] = ()
    #: What is added once for a node, by level: the least of the kinds that it takes.
    once: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class SolverQuestion:
    gang: str
    #: Answers to earlier questions about the gang have other numbers.
    number: int
    budget_s: float
    #: Pods of each kind.
    counts: tuple[int, ...]
    #: Of each: pods by kind.
    patterns: tuple[tuple[int, ...], ...]
    classes: tuple[NodeClass, ...]
    levels: tuple[CostLevel, ...] = ()
    #: What nodes cost that are known already: only better ones are of use. None: there are none.
    cutoff: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class PatternUse:
    """So many nodes of a class take the pods of a pattern."""

    node_class: int
    pattern: int
    nodes: int


#: None: there is no solution, none that is better, or none was found in time.
SolverAnswer = tuple[PatternUse, ...] | None


def is_valid(question: SolverQuestion, answer: tuple[PatternUse, ...]) -> bool:
    """Whether the answer gives every pod a node, and no node more than fits."""
    given = [0] * len(question.counts)
    left = [each.nodes for each in question.classes]
    for use in answer:
        if not 0 <= use.node_class < len(left) or use.nodes < 1:
            return False
        if use.pattern not in question.classes[use.node_class].patterns:
            return False
        left[use.node_class] -= use.nodes
        for kind, pods in enumerate(question.patterns[use.pattern]):
            given[kind] += pods * use.nodes
    return tuple(given) == question.counts and min(left, default=0) >= 0


def is_of_use(question: SolverQuestion, answer: tuple[PatternUse, ...]) -> bool:
    """Whether the answer is valid, and better than what is known."""
    if not is_valid(question, answer):
        return False
    cutoff = question.cutoff
    return cutoff is None or is_better(question.levels, costs_of(question, answer), cutoff)


def is_better(levels: Sequence[CostLevel], new: Sequence[float], known: Sequence[float]) -> bool:
    """Whether costs are less at a level, beyond its tolerance, and no more at those before it."""
    for level, ours, theirs in zip(levels, new, known, strict=True):
        if theirs > level.limit(ours):
            return True
        if ours > theirs + _EQUAL * abs(theirs):
            return False
    return False


def costs_of(question: SolverQuestion, answer: Sequence[PatternUse]) -> tuple[float, ...]:
    """What the pods cost together, by level."""
    total = [0.0] * len(question.levels)
    for use in answer:
        node_class, pattern = question.classes[use.node_class], question.patterns[use.pattern]
        for level, cost in enumerate(pattern_costs(node_class, pattern)):
            total[level] += use.nodes * cost
    return tuple(total)


def pattern_costs(node_class: NodeClass, pattern: Sequence[int]) -> list[float]:
    """What the pods of a pattern cost on a node of the class, by level."""
    found = []
    for costs, once in zip(node_class.costs, node_class.once, strict=True):
        each = sum(pods * cost for pods, cost in zip(pattern, costs, strict=True))
        first = (cost for pods, cost in zip(pattern, once, strict=True) if pods)
        found.append(each + min(first, default=0.0))
    return found
