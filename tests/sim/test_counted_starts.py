"""Which waiting jobs start now, by counts of GPUs."""

from itertools import count
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from counted_room import GpuRoom
from counted_starts import StartsByService
from fairlead.model.start_terms import EASY_TERMS, SHORT_FIRST_TERMS, StartTerms

#: When it comes, how long it runs, and its GPUs.
SimpleJob = tuple[float, float, int]


class Small:
    """A cluster in which jobs end as expected."""

    def __init__(self, terms: StartTerms, nodes: int = 2, gpus: int = 4) -> None:
        self.room = GpuRoom(nodes, gpus)
        self.rule = StartsByService(self.room, terms)
        self.jobs: dict[int, SimpleJob] = {}
        self.starts: dict[int, float] = {}
        self.ends: dict[int, float] = {}
        #: Planned starts of each job, as they were seen.
        self.planned: dict[int, list[float]] = {}

    def run(self, *jobs: SimpleJob) -> list[float]:
        self.jobs = dict(enumerate(jobs))
        moments = sorted({come for come, _, _ in jobs})
        while moments:
            now = moments.pop(0)
            self._at(now)
            moments = sorted({*moments, *self.ends.values()})
        return [self.starts.get(number, inf) for number in self.jobs]

    def _at(self, now: float) -> None:
        for number in [number for number, end in self.ends.items() if end == now]:
            self.room.end(number, self.ends.pop(number))
        for number, (come, run, gpus) in self.jobs.items():
            if come == now:
                self.rule.came(number, run, gpus, now)
        while (number := self.rule.next(now)) is not None:
            _, run, gpus = self.jobs[number]
            place = self.room.best_fit(gpus)
            assert place is not None
            self.starts[number], self.ends[number] = now, now + run
            self.room.start(number, place, now + run)
        for number in self.jobs:
            if (start := self.rule.start_s(number)) is not None and number not in self.starts:
                self.planned.setdefault(number, []).append(start)


def test_the_smallest_service_comes_first() -> None:
    assert Small(EASY_TERMS, 1).run((0, 9, 4), (1, 5, 4), (1, 2, 4)) == [0, 11, 9]


def test_a_job_that_ends_before_the_planned_start_begins_at_once() -> None:
    # Job 1 needs both nodes, from 10 on. Job 2 has the larger service, and ends by then.
    assert Small(EASY_TERMS).run((0, 10, 4), (1, 1, 8), (1, 9, 4)) == [0, 10, 1]


def test_a_job_that_would_delay_the_planned_start_waits() -> None:
    assert Small(EASY_TERMS).run((0, 10, 4), (1, 1, 8), (1, 10, 4)) == [0, 10, 11]


def test_others_may_put_a_planned_start_off_by_a_part_of_the_wait() -> None:
    # Planned at 1 for 10: with a give of a half until 14.5.
    terms = StartTerms(give=0.5)
    assert Small(terms).run((0, 10, 4), (1, 1, 8), (1, 13, 4)) == [0, 14, 1]
    assert Small(terms).run((0, 10, 4), (1, 1, 8), (1, 14, 4)) == [0, 10, 11]


def test_a_planned_start_is_put_off_once_however_many_come() -> None:
    short = [(float(t), 3.0, 4) for t in range(1, 30)]
    small = Small(StartTerms(give=0.5))
    starts = small.run((0, 10, 4), (1, 0.5, 8), *short)
    assert starts[1] <= 14.5


def test_a_long_job_does_not_start_beside_a_planned_start() -> None:
    # Job 1 needs three GPUs, and has them at 10 on either node: job 2 delays nothing.
    jobs = ((0.0, 10.0, 3), (0.0, 10.0, 3), (1.0, 1.0, 3), (1.0, 1000.0, 1))
    assert Small(EASY_TERMS).run(*jobs)[3] == 1
    # All GPUs give 8 * 9 until then.
    assert Small(StartTerms(outlast=13.0)).run(*jobs)[3] > 1
    assert Small(StartTerms(outlast=14.0)).run(*jobs)[3] == 1


def test_a_job_has_a_planned_start_after_it_has_waited_for_its_run_time() -> None:
    # At 1 the job that needs both nodes has not waited, so the one of 10 starts; at 11 it has.
    jobs = ((0.0, 10.0, 4), (1.0, 1.0, 8), (1.0, 10.0, 4), (5.0, 50.0, 4), (11.0, 60.0, 4))
    assert Small(StartTerms(patience=1.0)).run(*jobs)[:3] == [0, 11, 1]


def test_the_weight_of_gpus() -> None:
    jobs = ((0.0, 5.0, 4), (1.0, 10.0, 1), (1.0, 3.0, 4))
    assert Small(StartTerms(weight=1.0), 1).run(*jobs) == [0, 5, 15]
    assert Small(StartTerms(weight=0.5), 1).run(*jobs) == [0, 8, 5]


def test_a_job_with_more_gpus_than_there_are_holds_no_other_back() -> None:
    assert Small(EASY_TERMS).run((0, 1, 9), (0, 50, 8)) == [inf, 0]


def test_jobs_that_should_have_ended_are_taken_to_end_now() -> None:
    room = GpuRoom(1, 4)
    room.start(0, ((0, 4),), 10.0)
    assert room.first_room(4, 25.0) == (25.0, [4])


SIZES = st.sampled_from([1, 2, 4, 6, 8])
RUNS = st.integers(1, 30).map(float)
JOBS = st.lists(st.tuples(st.integers(0, 20).map(float), RUNS, SIZES), min_size=1, max_size=12)
TOGETHER = st.lists(st.tuples(st.just(0.0), RUNS, SIZES), min_size=1, max_size=12)


@given(TOGETHER)
def test_no_job_delays_a_planned_start_and_all_jobs_start(jobs: list[SimpleJob]) -> None:
    small = Small(EASY_TERMS)
    starts = small.run(*jobs)
    assert inf not in starts
    for planned in small.planned.values():
        assert planned == sorted(planned, reverse=True), "a start moved to a later time"


@given(JOBS)
def test_with_a_give_the_first_planned_start_bounds_the_delay(jobs: list[SimpleJob]) -> None:
    small = Small(SHORT_FIRST_TERMS)
    assert inf not in small.run(*jobs)
    assert _most_running(small, jobs) <= small.room.total


def _most_running(small: Small, jobs: list[SimpleJob]) -> int:
    numbered = list(zip(count(), jobs, strict=False))
    return max(
        sum(g for n, (_, run, g) in numbered if small.starts[n] <= at < small.starts[n] + run)
        for at in small.starts.values()
    )
