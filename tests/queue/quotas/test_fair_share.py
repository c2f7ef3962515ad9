"""The division of one resource among queues, beside an exact one in rational numbers."""

from collections.abc import Sequence
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from fairlead.queue.quotas.fair_share import QueueDemand, continuous

AMOUNTS = st.integers(0, 64_000)
WEIGHTS = st.one_of(st.just(0.0), st.integers(1, 100).map(float), st.floats(0.01, 1000.0))
QUEUES = st.builds(
    QueueDemand,
    most=AMOUNTS,
    guaranteed=st.one_of(st.just(0), AMOUNTS),
    weight=WEIGHTS,
    past=st.one_of(st.just(0.0), st.floats(0.0, 1.0)),
)
LEVELS = st.lists(QUEUES, min_size=1, max_size=12)


def in_rounds(total: Fraction, room: list[Fraction], weights: list[Fraction]) -> list[Fraction]:
    """Those that need no more than their part get it, then the rest is divided again."""
    given = [Fraction(0)] * len(room)
    unmet = {index for index, weight in enumerate(weights) if weight and room[index]}
    while unmet:
        whole = sum(weights[index] for index in unmet)
        met = {index for index in unmet if room[index] * whole <= total * weights[index]}
        for index in met or unmet:
            given[index] = room[index] if met else total * weights[index] / whole
        if not met:
            return given
        total -= sum(room[index] for index in met)
        unmet -= met
    return given


def by_weight(total: Fraction, room: list[Fraction], weights: list[Fraction]) -> list[Fraction]:
    given = in_rounds(total, room, weights)
    without = [Fraction(not weight) for weight in weights]
    rest = in_rounds(total - sum(given), room, without)
    return [some + more for some, more in zip(given, rest, strict=True)]


def exactly(total: int, queues: Sequence[QueueDemand]) -> list[Fraction]:
    shares = [min(Fraction(queue.guaranteed), Fraction(queue.most)) for queue in queues]
    if sum(shares) > total:
        return [share * total / sum(shares) for share in shares]
    whole = sum(Fraction(queue.weight) for queue in queues)
    weights = [
        Fraction(queue.weight) / (1 + Fraction(queue.past) * whole / Fraction(queue.weight))
        if queue.weight
        else Fraction(0)
        for queue in queues
    ]
    room = [Fraction(queue.most) - share for queue, share in zip(queues, shares, strict=True)]
    more = by_weight(total - sum(shares), room, weights)
    return [share + extra for share, extra in zip(shares, more, strict=True)]


def near(one: float, other: float, total: float) -> bool:
    return abs(one - other) <= 1e-9 * max(1.0, total)


@given(st.integers(0, 256_000), LEVELS)
@examples(150)
def test_shares_are_those_of_an_exact_division(total: int, queues: list[QueueDemand]) -> None:
    shares = continuous(total, queues)
    for share, exact in zip(shares, exactly(total, queues), strict=True):
        assert near(share, float(exact), total)
    assert near(sum(shares), min(total, sum(queue.most for queue in queues)), total)
    assert all(0 <= share <= queue.most for share, queue in zip(shares, queues, strict=True))


@given(st.integers(0, 256_000), LEVELS, st.data())
def test_a_small_change_changes_no_share_by_more(
    total: int, queues: list[QueueDemand], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(queues) - 1))
    field = data.draw(st.sampled_from(["most", "guaranteed"]))
    change = data.draw(st.floats(0.0, 10.0))
    before = continuous(total, queues)
    changed = list(queues)
    changed[index] = queues[index]._replace(**{field: getattr(queues[index], field) + change})
    for shares in (continuous(total, changed), continuous(total + change, queues)):
        for one, other in zip(before, shares, strict=True):
            assert abs(one - other) <= change + 1e-9 * max(1, total)


@given(st.integers(1, 256_000), LEVELS, st.data(), st.floats(0.0001, 0.01))
def test_shares_are_continuous_in_weight_and_past_use(
    total: int, queues: list[QueueDemand], data: st.DataObject, part: float
) -> None:
    index = data.draw(st.integers(0, len(queues) - 1))
    queue, before = queues[index], continuous(total, queues)
    heavier, used = list(queues), list(queues)
    heavier[index] = queue._replace(weight=queue.weight * (1 + part))
    used[index] = queue._replace(past=queue.past + part * queue.weight / 1e6)
    for shares, most in ((continuous(total, heavier), 2 * part), (continuous(total, used), part)):
        for one, other in zip(before, shares, strict=True):
            assert abs(one - other) <= most * total + 1e-9 * total


@given(st.integers(0, 256_000), LEVELS, st.data(), st.floats(0.0, 1000.0))
def test_a_queue_never_loses_by_more_weight_or_by_asking_for_more(
    total: int, queues: list[QueueDemand], data: st.DataObject, more: float
) -> None:
    index = data.draw(st.integers(0, len(queues) - 1))
    queue, before = queues[index], continuous(total, queues)
    for changed in (
        queue._replace(weight=queue.weight + more),
        queue._replace(most=queue.most + more),
        queue._replace(guaranteed=queue.guaranteed + more),
    ):
        after = continuous(total, [*queues[:index], changed, *queues[index + 1 :]])
        assert after[index] >= before[index] - 1e-9 * max(1, total)


def test_without_weight_a_queue_gets_what_the_others_leave() -> None:
    guest, team = QueueDemand(most=60, weight=0.0), QueueDemand(most=100)
    assert continuous(100, [guest, team]) == [0, 100]
    assert continuous(100, [guest, team._replace(most=70)]) == [30, 70]
    assert continuous(100, [guest, guest]) == [50, 50]


def test_a_weight_next_to_nothing_is_none() -> None:
    assert continuous(10, [QueueDemand(8, weight=5e-324), QueueDemand(8)]) == [2, 8]
    queues = [QueueDemand(8, weight=5e-324), QueueDemand(8, weight=2.0, past=0.5)]
    assert continuous(10, queues) == [2, 8]
    assert continuous(10, [QueueDemand(8, weight=5e-324)] * 2) == [5, 5]


def test_guarantees_above_what_there_is_are_reduced_in_proportion() -> None:
    shares = continuous(100, [QueueDemand(60, 60), QueueDemand(60, 60), QueueDemand(30, 0)])
    assert shares == [50, 50, 0]


def test_past_use_moves_the_surplus_and_no_guarantee() -> None:
    fresh, spent = QueueDemand(100, 20), QueueDemand(100, 20, past=0.5)
    # Half the cluster was its part of it: its weight is halved.
    assert continuous(100, [fresh, spent]) == [60, 40]
    assert continuous(100, [fresh, spent._replace(past=1e6)])[1] >= 20


def test_no_queue_and_no_resource() -> None:
    assert continuous(100, []) == []
    assert continuous(0, [QueueDemand(10, 5), QueueDemand(0)]) == [0, 0]
