"""The knapsack over a tree finds what trying everything finds, and what HiGHS finds."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from fairlead.placement.tree_knapsack import EVERYWHERE, Knapsack, Objective, Problem, Sets
from gang_topology_milp import optimum

SMALL = st.integers(0, 4)


@dataclass(frozen=True)
class Case:
    problem: Problem
    #: The levels whose domains are counted, in order.
    order: tuple[int, ...]

    def values(self, taken: np.ndarray) -> tuple[int, ...]:
        used = taken > 0
        domains = [len(set(self.problem.domains[level][used])) for level in self.order]
        return (*domains, *(int(each.cost[used].sum()) for each in self.problem.objectives[-2:]))


def nested(blocks: list[int], racks: list[int]) -> np.ndarray:
    """Racks are numbered in the order of their blocks."""
    order = np.argsort(blocks, kind="stable")
    block = np.unique(np.array(blocks)[order], return_inverse=True)[1]
    rack = np.unique(block * 10 + np.array(racks)[order], return_inverse=True)[1]
    return np.array([block, rack], dtype=np.int64)


def a_case(
    pods: int, room: list[int], domains: np.ndarray, order: tuple[int, ...], sets: Sets | None
) -> Case:
    counted = [np.ones(int(domains[level].max()) + 1, dtype=np.int64) for level in order]
    nodes = np.ones(len(room), dtype=np.int64)
    free = np.array(room, dtype=np.int64) + np.arange(len(room)) % 3
    objectives = (
        *(Objective(cost, level) for cost, level in zip(counted, order, strict=True)),
        Objective(nodes),
        Objective(free),
    )
    problem = Problem(pods, np.array(room, dtype=np.int64), domains, objectives, sets)
    return Case(problem, order)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes = draw(st.integers(1, 6))
    lists = [draw(st.lists(SMALL, min_size=nodes, max_size=nodes)) for _ in range(3)]
    order = draw(st.sampled_from([(), (0,), (1,), (1, 0), (0, 1)]))
    sets = draw(st.none() | st.builds(Sets, st.integers(1, 4), st.integers(0, 1)))
    return a_case(draw(st.integers(1, 8)), lists[0], nested(lists[1], lists[2]), order, sets)


def in_sets(case: Case, taken: np.ndarray) -> bool:
    sets, pods = case.problem.sets, case.problem.pods
    if sets is None:
        return True
    rests = np.bincount(case.problem.domains[sets.level], weights=taken).astype(int) % sets.size
    return sorted(rests[rests > 0]) == [pods % sets.size] * bool(pods % sets.size)


def by_trying_everything(case: Case) -> tuple[int, ...] | None:
    pods = case.problem.pods
    counts = (range(min(room, pods) + 1) for room in case.problem.room.tolist())
    found = (np.array(taken) for taken in product(*counts) if sum(taken) == pods)
    return min((case.values(taken) for taken in found if in_sets(case, taken)), default=None)


@examples(200)
@given(cases())
def test_nothing_is_better(case: Case) -> None:
    knapsack = Knapsack(case.problem)
    best = by_trying_everything(case)
    assert len(knapsack.feasible()) == (best is not None)
    if best is None:
        return
    taken = knapsack.chosen(0)
    assert knapsack.values(0) == case.values(taken) == best
    assert taken.sum() == case.problem.pods
    assert (taken <= case.problem.room).all()
    assert in_sets(case, taken)


@examples(100)
@given(cases(), st.integers(0, 1))
def test_each_domain_is_solved_as_if_there_were_no_other(case: Case, level: int) -> None:
    if case.problem.sets and case.problem.sets.level < level:
        return
    knapsack = Knapsack(case.problem, level)
    feasible = knapsack.feasible().tolist()
    order = tuple(each for each in case.order if each >= level)
    domains = case.problem.domains
    for domain in range(int(domains[level].max()) + 1):
        rows = domains[level] == domain
        room = np.where(rows, case.problem.room, 0)
        alone = a_case(case.problem.pods, room.tolist(), domains, order, case.problem.sets)
        best = by_trying_everything(alone)
        assert (domain in feasible) == (best is not None)
        if best is not None:
            assert case.values(knapsack.chosen(domain))[-2] == best[-2]
    costs = [knapsack.values(domain) for domain in feasible]
    assert costs == sorted(costs)


@pytest.mark.parametrize("seed", range(6))
def test_highs_finds_the_same_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    room = rng.integers(0, 9, 60)
    rack = np.arange(60) // 7
    case = a_case(40, room.tolist(), np.array([rack // 3, rack]), (1, 0), None)
    assert Knapsack(case.problem).values(0) == optimum(case.problem)


def test_digits_of_objectives_do_not_run_into_each_other() -> None:
    """The bounds of these take more than one integer."""
    rng = np.random.default_rng(1)
    domains = np.array([[0, 0, 0, 1, 1, 1], [0, 0, 1, 2, 2, 3]])
    room = np.array([2, 3, 1, 2, 2, 4])
    large = [rng.integers(0, 1 << 40, 6) for _ in range(4)]
    objectives = (
        Objective(large[0]),
        Objective(np.ones(2, dtype=np.int64), 0),
        *(Objective(each) for each in large[1:]),
    )
    problem = Problem(7, room, domains, objectives)
    knapsack = Knapsack(problem)

    def cost(taken: np.ndarray) -> tuple[int, ...]:
        used = taken > 0
        nodes = [int(each[used].sum()) for each in large]
        return nodes[0], len(set(domains[0][used])), *nodes[1:]

    counts = product(*(range(each + 1) for each in room.tolist()))
    best = min(cost(np.array(taken)) for taken in counts if sum(taken) == 7)
    assert knapsack.values(0) == cost(knapsack.chosen(0)) == best


@pytest.mark.parametrize(
    "domains",
    [
        pytest.param(np.arange(5000)[None], id="a rack for each node"),
        pytest.param(np.zeros((1, 5000), dtype=np.int64), id="one rack"),
        pytest.param(np.array([np.arange(5000) // (4096 >> n) for n in range(12)]), id="deep"),
        pytest.param(np.zeros((20, 5000), dtype=np.int64), id="20 levels"),
    ],
)
def test_any_shape_of_tree_is_solved(domains: np.ndarray) -> None:
    room = np.random.default_rng(2).integers(0, 9, 5000)
    case = a_case(64, room.tolist(), domains, tuple(range(len(domains))), None)
    knapsack = Knapsack(case.problem, EVERYWHERE)
    taken = knapsack.chosen(0)
    assert case.values(taken) == knapsack.values(0)
    assert taken.sum() == 64
