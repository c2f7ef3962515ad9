"""The divisions of KAI, Volcano and Koordinator, by their own figures."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.queue.quotas.fair_share import QueueDemand
from fairlead.queue.quotas.peer_shares import GPU_MILLI, first_come, kai, proportion, runtime

#: Guaranteed, weight, asked, past use of each queue, the oldest first; and what each gets of 100.
KAI = [
    ([(20, 1, 100, 0.0), (20, 3, 100, 0.0)], [35, 65]),
    ([(20, 1, 100, 0.3), (20, 3, 100, 0.1)], [28, 72]),
    ([(20, 1, 100, 0.6), (20, 3, 100, 0.1)], [20, 80]),
    ([(20, 1, 100, 0.0), (20, 3, 50, 0.0)], [50, 50]),
    ([(60, 1, 60, 0.0), (60, 1, 60, 0.0)], [60, 60]),
    ([(0, 1, 100, 0.0), (0, 1, 100, 0.0), (0, 1, 100, 0.0)], [34, 33, 33]),
]


def oldest_first(*rows: tuple[float, float, float, float]) -> list[QueueDemand]:
    return [
        QueueDemand(most, guaranteed, weight, past, created_s=age, uid=f"uid-{age}")
        for age, (guaranteed, weight, most, past) in enumerate(rows)
    ]


@pytest.mark.parametrize(("rows", "shares"), KAI)
def test_kai_to_the_digit(
    rows: list[tuple[float, float, float, float]], shares: list[float]
) -> None:
    assert kai(100.0, oldest_first(*rows)) == shares
    thousandths = [(g * 1000, weight, most * 1000, past) for g, weight, most, past in rows]
    assert kai(100_000.0, oldest_first(*thousandths), GPU_MILLI) == [
        share * 1000 for share in shares
    ]


def test_kai_serves_the_highest_priority_first() -> None:
    high, low = QueueDemand(70, priority=2), QueueDemand(70, 10, priority=1)
    assert kai(100.0, [low, high]) == [30, 70]


def test_kai_gives_nothing_to_a_queue_without_weight() -> None:
    assert kai(100.0, [QueueDemand(50, weight=0.0), QueueDemand(20)]) == [0, 20]
    assert kai(100.0, [QueueDemand(50, 5, weight=0.0)]) == [5]


def test_kai_gives_a_part_of_a_gpu_to_a_queue_that_asks_for_one() -> None:
    shares = kai(10.0, [QueueDemand(0.5), QueueDemand(20, created_s=1), QueueDemand(20)])
    # 9.5 are left: 4 each, one more for the older one, and the last half for the other.
    assert shares == [0.5, 4.5, 5.0]


@given(st.lists(st.tuples(*[st.integers(0, 40)] * 3, st.floats(0, 1)), min_size=1, max_size=5))
def test_kai_gives_the_same_in_any_order_and_never_more_than_asked(
    rows: list[tuple[int, int, int, float]],
) -> None:
    queues = oldest_first(*rows)
    shares = dict(zip([queue.uid for queue in queues], kai(64.0, queues), strict=True))
    for queue in queues:
        assert min(queue.guaranteed, queue.most) <= shares[queue.uid] <= queue.most
    if not any(queue.past for queue in queues):  # sums of fractions depend on their order
        for order in list(permutations(queues))[:6]:
            again = kai(64.0, order)
            assert [shares[queue.uid] for queue in order] == pytest.approx(again, abs=1.0)


def test_proportion_of_volcano() -> None:
    queues = [QueueDemand(2, weight=1.0), QueueDemand(12, weight=2.0), QueueDemand(12, weight=1.0)]
    assert proportion(12.0, queues) == pytest.approx([2, 20 / 3, 10 / 3])


def test_proportion_keeps_back_what_is_guaranteed_to_an_idle_queue() -> None:
    assert proportion(12.0, [QueueDemand(0, 4), QueueDemand(12)]) == [4, 8]
    assert proportion(12.0, [QueueDemand(12, weight=0.0), QueueDemand(3)]) == [0, 3]


def test_runtime_quota_of_koordinator() -> None:
    queues = [
        QueueDemand(5, 10, 40),
        QueueDemand(20, 15, 60),
        QueueDemand(40, 20, 50),
        QueueDemand(70, 15, 80),
    ]
    assert runtime(100.0, queues) == [5, 20, 35, 40]


@pytest.mark.parametrize(
    ("asked", "shares"), [((0, 90), [0, 90]), ((30, 90), [30, 70]), ((60, 90), [60, 50])]
)
def test_runtime_quota_with_minimums_above_the_total(
    asked: tuple[int, int], shares: list[float]
) -> None:
    queues = [QueueDemand(asked[0], 60), QueueDemand(asked[1], 50)]
    assert runtime(100.0, queues) == shares


def test_runtime_quota_divides_whole_units_without_loss() -> None:
    queues = [QueueDemand(100, uid=name) for name in "cab"]
    assert runtime(100.0, queues) == [33, 34, 33]
    assert runtime(100.0, [QueueDemand(100, weight=0.0)]) == [0]


def test_first_come_has_what_the_object_says() -> None:
    assert first_come(10.0, [QueueDemand(8, 5), QueueDemand(3, 5)]) == [5, 3]
