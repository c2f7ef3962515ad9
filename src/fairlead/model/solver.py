"""Questions to the solver about gangs whose pods differ, and its answers.

Nodes that can take the same pods at the same cost are one class. A pattern is how many pods of each
kind one node takes.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SolverTerms:
    """How long the solver may work for one gang."""

    budget_s: float = 0.5


@dataclass(frozen=True, slots=True)
class NodeClass:
    #: How many nodes it has.
    nodes: int
    #: Numbers of the patterns that fit on each of them.
    patterns: tuple[int, ...]
    #: What a pod of each kind costs there.
    costs: tuple[float, ...]


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


@dataclass(frozen=True, slots=True)
class PatternUse:
    """So many nodes of a class take the pods of a pattern."""

    node_class: int
    pattern: int
    nodes: int


#: None: there is no solution, or none was found in time.
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
