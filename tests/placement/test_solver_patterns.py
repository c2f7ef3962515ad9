"""Which pods of a gang some node might take together."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.placement.solver_question import patterns_of

_AMOUNTS = st.lists(st.integers(0, 4), min_size=2, max_size=2)


@given(
    st.lists(st.tuples(st.integers(0, 4), _AMOUNTS), min_size=1, max_size=3),
    st.lists(st.integers(0, 6), min_size=2, max_size=2),
)
def test_they_are_all_that_fit(kinds: list[tuple[int, list[int]]], largest: list[int]) -> None:
    most, needs = [each for each, _ in kinds], np.array([each for _, each in kinds])
    every = product(*(range(each + 1) for each in most))
    fitting = [each for each in every if (np.array(each) @ needs <= largest).all() and any(each)]
    assert list(patterns_of(most, needs, np.array(largest))) == fitting


@pytest.mark.parametrize("most", [[7, 7, 7, 10**9], [10**9, 1]])
def test_too_many_are_not_made(most: list[int]) -> None:
    """They would not fit in memory."""
    needs = np.eye(len(most), dtype=np.int64)
    assert patterns_of(most, needs, np.full(len(most), 10**9)) == ()
