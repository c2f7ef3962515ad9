"""When a source is cut off, for how long, and what brings it back."""

import pytest

from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.telemetry.sources import ReadCounts, SourceFault, SourcePlan
from fairlead.telemetry.sources.guard import SourceGuard, implausible
from fairlead.telemetry.sources.running import (
    MOST_GPUS,
    News,
    ReadingBatch,
    SourceRunner,
    SourceStatus,
)


def some_counts(
    asked: int = 1, failed: int = 0, believed: int = 100, **rejected: int
) -> ReadCounts:
    counts = ReadCounts(asked, failed, believed)
    counts.rejected.update({why.replace("_", " "): count for why, count in rejected.items()})
    return counts


def test_three_failures_in_a_row_cut_a_source_off_and_one_success_brings_it_back() -> None:
    guard = SourceGuard(15.0)
    for cut_off in (False, False, True):
        guard.taken(ReadCounts(), "it answers HTTP 500")
        assert guard.cut_off is cut_off
    guard.taken(some_counts())
    assert (guard.cut_off, guard.problem, guard.wait_s()) == (False, "", 15.0)


def test_a_source_that_stays_away_is_asked_less_and_less_often() -> None:
    guard = SourceGuard(15.0)
    waits = []
    for _ in range(10):
        guard.taken(ReadCounts(), "cannot connect")
        waits.append(guard.wait_s())
    assert waits == [15, 15, 30, 60, 120, 240, 300, 300, 300, 300]


def test_a_source_that_is_asked_seldom_is_not_asked_more_often_when_it_fails() -> None:
    guard = SourceGuard(900.0)
    for _ in range(5):
        guard.taken(ReadCounts(), "cannot connect")
    assert guard.wait_s() == 900.0


def test_impossible_values_cut_a_source_off_at_once() -> None:
    guard = SourceGuard(15.0)
    guard.taken(some_counts(believed=10, negative=11))
    assert guard.cut_off
    assert guard.problem == "most of its values are impossible: 11 negative; 10 values are valid"


@pytest.mark.parametrize(
    "counts",
    [
        some_counts(believed=10, negative=10),
        some_counts(believed=0, not_a_number=8),
        some_counts(believed=0, unknown_node=1000),
        some_counts(asked=10, failed=5),
    ],
    ids=["half", "a single GPU", "nodes of another cluster", "half of the nodes"],
)
def test_these_are_no_reason(counts: ReadCounts) -> None:
    guard = SourceGuard(15.0)
    guard.taken(counts)
    assert not guard.problem


def test_most_nodes_away_is_a_failure() -> None:
    guard = SourceGuard(15.0)
    guard.taken(some_counts(asked=10, failed=6))
    assert guard.problem.startswith("6 of 10 returned nothing")


# -- at work ---------------------------------------------------------------------------------------


class Played:
    """A source whose takes are written down beforehand."""

    name = "played"

    def __init__(self, nodes: int = 0, absurd_from: int = 10**9, fault: str = "") -> None:
        self.nodes, self.absurd_from, self.fault = nodes, absurd_from, fault

    async def take(self, nodes, counts):
        for number in range(self.nodes):
            if number >= self.absurd_from:
                counts.rejected["negative"] += 100
            else:
                counts.believed += 8
            gpus = {str(gpu): GpuReading(0.5) for gpu in range(8)}
            yield NodeReadings(f"n{number}", 1.0, gpus)
        if self.fault:
            raise SourceFault(self.fault)


async def told(source: Played) -> tuple[list[ReadingBatch], SourceStatus]:
    news: list[News] = []
    plan = SourcePlan("dcgm", "played", every_s=1.0)
    await SourceRunner(source, plan, lambda: {"n": ""}, news.append, lambda: 77.0).once()
    *batches, status = news
    assert isinstance(status, SourceStatus)
    return [batch for batch in batches if isinstance(batch, ReadingBatch)], status


async def test_news_come_in_parts_that_are_quickly_taken() -> None:
    batches, status = await told(Played(nodes=100))
    sizes = [sum(len(node.gpus) for node in batch.readings) for batch in batches]
    assert sum(sizes) == status.gpus == 800
    assert max(sizes) <= MOST_GPUS + 8
    assert (status.succeeded_s, status.problem, status.cut_off) == (77.0, "", False)


async def test_from_where_it_lies_nothing_is_passed_on() -> None:
    batches, status = await told(Played(nodes=500, absurd_from=40))
    assert {node.node for batch in batches for node in batch.readings} <= {
        f"n{n}" for n in range(64)
    }
    assert status.cut_off
    assert status.succeeded_s == 0.0


async def test_what_came_before_a_fault_counts() -> None:
    batches, status = await told(Played(nodes=64, fault="it went away"))
    assert sum(len(batch.readings) for batch in batches) == 64
    assert (status.problem, status.cut_off) == ("it went away", False)


def test_one_gpu_that_errs_is_no_lie() -> None:
    assert implausible(some_counts(believed=0, too_much=8)) == ""
