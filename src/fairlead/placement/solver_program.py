"""The program that HiGHS solves: how many nodes of each class take which pattern of pods."""

from collections.abc import Sequence

import numpy as np

from fairlead.model.solver import NodeClass, PatternUse, SolverAnswer, SolverQuestion, is_valid

#: What a node more costs, beside the dearest pod: enough to decide between equal costs only.
_PER_NODE = 1e-4


def solve_program(question: SolverQuestion) -> SolverAnswer:
    """The cheapest nodes for all pods, and of equally cheap ones the fewest; None without any.

    If time runs out, the best that was found. Importing the solver takes half a second.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    uses = [(c, p) for c, each in enumerate(question.classes) for p in each.patterns]
    if not uses:
        return None
    most = np.array([question.classes[c].nodes for c, _ in uses])
    found = milp(
        _costs(question, uses),
        constraints=[
            LinearConstraint(_pods(question, uses), question.counts, question.counts),
            LinearConstraint(_nodes(question, uses), -np.inf, [c.nodes for c in question.classes]),
        ],
        bounds=Bounds(0, most),
        integrality=np.ones(len(uses)),
        options={"time_limit": question.budget_s},
    )
    if found.x is None:
        return None
    counts = np.rint(found.x).astype(int).tolist()
    answer = tuple(
        PatternUse(c, p, count) for (c, p), count in zip(uses, counts, strict=True) if count
    )
    return answer if is_valid(question, answer) else None


def total_cost(question: SolverQuestion, answer: Sequence[PatternUse]) -> tuple[float, int]:
    """What the pods cost together, and how many nodes they use."""
    cost = sum(
        use.nodes * _cost(question.classes[use.node_class], question.patterns[use.pattern])
        for use in answer
    )
    return cost, sum(use.nodes for use in answer)


def _cost(node_class: NodeClass, pattern: tuple[int, ...]) -> float:
    return sum(pods * cost for pods, cost in zip(pattern, node_class.costs, strict=True))


def _costs(question: SolverQuestion, uses: list[tuple[int, int]]) -> list[float]:
    dearest = max((cost for each in question.classes for cost in each.costs), default=0.0)
    each = _PER_NODE * max(dearest, 1.0)
    return [each + _cost(question.classes[c], question.patterns[p]) for c, p in uses]


def _pods(question: SolverQuestion, uses: list[tuple[int, int]]) -> object:
    from scipy.sparse import csr_array

    return csr_array(np.array([question.patterns[p] for _, p in uses]).T)


def _nodes(question: SolverQuestion, uses: list[tuple[int, int]]) -> object:
    from scipy.sparse import coo_array

    rows, columns = [c for c, _ in uses], list(range(len(uses)))
    shape = len(question.classes), len(uses)
    return coo_array((np.ones(len(uses)), (rows, columns)), shape=shape).tocsr()
