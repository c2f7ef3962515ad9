"""Pods that differ: valid placements, close to those of HiGHS."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


@settings(max_examples=200, deadline=None)
@given(problems(), st.integers(1, 3))
def test_no_node_gets_more_than_it_has(kinds: Kinds, most: int) -> None:
    taken = spread_over_few(kinds, most)
    if taken is None:
        return
    assert taken.sum(axis=1).tolist() == kinds.counts.tolist()
    assert (taken <= kinds.room).all()
    assert (kinds.needs.T @ taken <= kinds.free).all()
    assert kinds.value(taken)[0] <= most
