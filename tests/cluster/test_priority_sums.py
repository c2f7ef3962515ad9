"""Whoever comes and goes, the sums equal a look at every pod."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cluster.columns import Columns
from fairlead.cluster.priority_sums import PrioritySums

ROWS = 2
PODS = st.tuples(st.integers(0, ROWS - 1), st.integers(-2, 2), st.integers(1, 3))
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.integers(-3, 3)),
    st.tuples(st.just("come"), PODS),
    st.tuples(st.just("go"), st.integers(0, 5)),
)


@given(st.lists(STEPS, max_size=20), st.booleans())
def test_sums_follow_the_pods(steps, below: bool) -> None:
    columns = Columns()
    sums, there = PrioritySums(columns, below=below), []

    def vector(amount: int) -> np.ndarray:
        found = np.zeros(len(columns.requested), dtype=np.int64)
        found[0] = amount
        return found

    def shares():
        return [(row, its, vector(amount)) for row, its, amount in there]

    for step, what in steps:
        if step == "come":
            there.append(what)
            sums.follow(what[0], what[1], vector(what[2]), +1)
        elif step == "go" and what < len(there):
            row, its, amount = there.pop(what)
            sums.follow(row, its, vector(amount), -1)
        elif step == "ask":
            wanted = [0] * ROWS
            for row, its, amount in there:
                wanted[row] += amount if (its < what if below else its >= what) else 0
            assert sums.of(what, shares)[0, :ROWS].tolist() == wanted


def test_all_priorities_that_are_asked_for_share_what_the_pods_have() -> None:
    columns = Columns()
    sums = PrioritySums(columns, below=True)
    one = np.ones(len(columns.requested), dtype=np.int64)
    for asked in range(1, 1000):
        sums.of(asked, lambda: [(0, 0, one), (1, 0, one)])
    assert columns.work.pods == 2
