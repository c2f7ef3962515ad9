"""Pods that differ: valid placements, close to those of HiGHS."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from fairlead.placement import unequal_pods
from fairlead.placement.unequal_pods import Kinds, spread_over_few
from gang_topology import a_cluster, an_unequal_case, measured, planned, pods_of
from gang_topology_milp import unequal_optimum


@pytest.mark.parametrize("seed", [2, 9, 14, 16, 20, 25])
def test_close_to_the_optimum(seed: int) -> None:
    case = an_unequal_case(seed)
    best = unequal_optimum(case, limit_s=60.0)
    rows, _ = planned(a_cluster(case.rack, case.gpus, case.cores), pods_of(case))
    assert bool(rows) == (best is not None)
    if best is not None:
        found = measured(rows, case)
        assert found[0] == best[0]
        assert case.value(*found) <= 1.01 * case.value(*best)


@st.composite
def problems(draw: st.DrawFn) -> Kinds:
    nodes, count = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    some = st.lists(st.integers(0, 8), min_size=nodes, max_size=nodes)
    gpus, cores, domains = (np.array(draw(some), dtype=np.int64) for _ in range(3))
    needs = np.array([[draw(st.integers(1, 4)), draw(st.integers(0, 4))] for _ in range(count)])
    free = np.array([gpus, cores])
    return Kinds(
        counts=np.array([draw(st.integers(1, 4)) for _ in range(count)]),
        needs=needs,
        room=np.array([draw(some) for _ in range(count)]),
        free=free,
        size=needs[:, 0],
        left=gpus,
        used=np.array(draw(st.lists(st.booleans(), min_size=nodes, max_size=nodes))),
        domains=domains % 3,
    )


@examples(200)
@given(problems(), st.integers(1, 3))
def test_no_node_gets_more_than_it_has(kinds: Kinds, most: int) -> None:
    taken = spread_over_few(kinds, most)
    if taken is None:
        return
    assert taken.sum(axis=1).tolist() == kinds.counts.tolist()
    assert (taken <= kinds.room).all()
    assert (kinds.needs.T @ taken <= kinds.free).all()
    assert kinds.value(taken)[0] <= most


@pytest.mark.parametrize("kinds", [2, 200])
@pytest.mark.parametrize("per_rack", [1, 32])
def test_work_is_bounded(kinds: int, per_rack: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of numbers that are computed, whatever the shape of the gang and of the cluster."""
    rng = np.random.default_rng(1)
    nodes, gpus = 5000, rng.integers(0, 9, 5000)
    needs = np.stack([rng.integers(1, 5, kinds), np.arange(kinds)], axis=1)
    case = Kinds(
        counts=np.full(kinds, 400 // kinds),
        needs=needs,
        room=gpus[None] // needs[:, :1],
        free=np.array([gpus, np.full(nodes, 1 << 20)]),
        size=needs[:, 0],
        left=gpus,
        used=np.zeros(nodes, dtype=np.bool_),
        domains=np.arange(nodes) // per_rack,
    )
    filled = Counter[str]()
    for name in ("_fits", "_filled_at_once"):
        monkeypatch.setattr(unequal_pods, name, counted(getattr(unequal_pods, name), filled))
    taken = spread_over_few(case, nodes)
    assert taken is not None
    assert taken.sum(axis=1).tolist() == case.counts.tolist()
    assert filled["_fits"] * kinds < 30_000
    assert filled["_filled_at_once"] * kinds < 30_000


def counted(function: Callable[..., object], calls: Counter[str]) -> Callable[..., object]:
    def call(*arguments: object, **options: object) -> object:
        calls[function.__name__] += 1
        return function(*arguments, **options)

    return call
