"""Pods of a few kinds on a few nodes: no way to place them is better."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from fairlead.placement.exact_kinds import ExactKinds, PodTable


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, ...]:
    """Counts, needs, room, free, left and used."""
    nodes, kinds = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    some = st.lists(st.integers(0, 5), min_size=nodes, max_size=nodes)
    free = np.array([draw(some), draw(some)])
    return (
        np.array([draw(st.integers(1, 3)) for _ in range(kinds)]),
        np.array([[draw(st.integers(1, 3)), draw(st.integers(0, 3))] for _ in range(kinds)]),
        np.array([draw(some) for _ in range(kinds)]),
        free,
        free[0],
        np.array(draw(st.lists(st.booleans(), min_size=nodes, max_size=nodes))),
    )


def cost(taken: PodTable, left: np.ndarray, used: np.ndarray) -> tuple[int, int]:
    new = taken.any(axis=0) & ~used
    return int(new.sum()), int(left[new].sum())


def by_brute_force(
    counts: np.ndarray, needs: np.ndarray, room: np.ndarray, free: np.ndarray, left: np.ndarray,
    used: np.ndarray,
) -> tuple[int, int] | None:  # fmt: skip
    nodes = room.shape[1]
    of_node = [
        [
            way
            for way in product(*(range(most + 1) for most in np.minimum(room[:, n], counts)))
            if (np.array(way) @ needs <= free[:, n]).all()
        ]
        for n in range(nodes)
    ]
    found = (np.array(each).T for each in product(*of_node))
    whole = [cost(t, left, used) for t in found if (t.sum(axis=1) == counts).all()]
    return min(whole, default=None)


@examples(150)
@given(problems())
def test_no_placement_is_better(problem: tuple[np.ndarray, ...]) -> None:
    counts, needs, room, free, left, used = problem
    exact = ExactKinds(counts, needs, room, free, left, used)
    taken, best = exact.solve(), by_brute_force(*problem)
    assert (taken is None) == (best is None)
    if taken is not None:
        assert taken.sum(axis=1).tolist() == counts.tolist()
        assert (taken <= room).all()
        assert (needs.T @ taken <= free).all()
        assert cost(taken, left, used) == best


def test_its_work_is_known_before() -> None:
    many = np.full(6, 40)
    table = np.ones((6, 500), dtype=np.int64)
    exact = ExactKinds(many, np.ones((6, 1)), 8 * table, table[:1], table[0], table[0] > 1)
    assert exact.work > 10**9
