"""A gang is placed if and only if brute force finds a placement, on small clusters."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from builders import a_node, a_pod, an_engine, decide, pod_term, see
from examples import examples
from fairlead.engine.instructions import Bind
from fairlead.model.gangs import GangSpec, Membership

FREE = st.lists(st.integers(0, 5), min_size=1, max_size=4)
HOST = "kubernetes.io/hostname"


def fits(free: tuple[int, ...], sizes: tuple[int, ...], needed: int) -> bool:
    """Whether so many of the pods can be placed at once."""

    @cache
    def most(left: tuple[int, ...], index: int) -> int:
        if index == len(sizes):
            return 0
        best = most(left, index + 1)
        for row, amount in enumerate(left):
            if amount >= sizes[index]:
                after = tuple(sorted((*left[:row], amount - sizes[index], *left[row + 1 :])))
                best = max(best, 1 + most(after, index + 1))
        return best

    return most(tuple(sorted(free)), 0) >= needed


def bound(free: list[int], sizes: list[int], minimum: int, **more: object) -> int:
    """How many pods of the gang are bound."""
    nodes = [a_node(f"n{n}", gpus=gpus, labels={HOST: f"n{n}"}) for n, gpus in enumerate(free)]
    engine = an_engine(*nodes)
    spec = GangSpec("fairlead/default/job", minimum)
    pods = [
        a_pod(f"p{n}", gpus=size, gang=Membership(spec.key, rank=n, spec=spec), **more)
        for n, size in enumerate(sizes)
    ]
    see(engine, *pods)
    made = decide(engine)
    assert not engine.in_flight.gangs or len(made) >= minimum
    return sum(isinstance(each, Bind) for each in made)


@examples(120)
@given(free=FREE, size=st.integers(1, 3), count=st.integers(1, 8), data=st.data())
def test_equal_pods_are_placed_if_they_can_be(free, size: int, count: int, data) -> None:
    minimum = data.draw(st.integers(1, count))
    placed = bound(free, [size] * count, minimum)
    most = min(count, sum(amount // size for amount in free))
    assert placed == (most if most >= minimum else 0)


@examples(120)
@given(free=FREE, sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_unequal_pods_are_never_placed_in_part(free, sizes: list[int]) -> None:
    """Largest first is not always the best; what brute force does not find is never placed."""
    placed = bound(free, sizes, len(sizes))
    possible = fits(tuple(free), tuple(sizes), len(sizes))
    assert placed in ((0, len(sizes)) if possible else (0,))


@examples(120)
@given(free=FREE, size=st.sampled_from([1, 2]), counts=st.tuples(*[st.integers(0, 4)] * 2))
def test_pods_of_sizes_that_divide_each_other_are_placed_if_they_can_be(
    free, size: int, counts: tuple[int, int]
) -> None:
    sizes = [size] * counts[0] + [2 * size] * counts[1]
    if sizes:
        possible = fits(tuple(free), tuple(sizes), len(sizes))
        assert bound(free, sizes, len(sizes)) == (len(sizes) if possible else 0)


@examples(60)
@given(free=FREE, count=st.integers(1, 5))
def test_pods_that_avoid_each_other_get_a_node_each(free, count: int) -> None:
    apart = pod_term(HOST, app="x")
    placed = bound(free, [1] * count, count, labels={"app": "x"}, anti_affinity=(apart,))
    assert placed == (count if sum(amount > 0 for amount in free) >= count else 0)


@examples(60)
@given(free=FREE, count=st.integers(1, 5))
def test_pods_that_seek_each_other_get_one_node(free, count: int) -> None:
    together = pod_term(HOST, app="x")
    placed = bound(free, [1] * count, count, labels={"app": "x"}, required_affinity=(together,))
    assert placed == (count if max(free) >= count else 0)
