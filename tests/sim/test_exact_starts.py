"""Planned starts of the engine against the rules as they are published, by counts of GPUs.

Both start the same jobs at the same times where nodes are equal and jobs take whole GPUs.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counted_room import GpuRoom, Parts
from counted_starts import StartsByService
from examples import examples
from fairlead.apps.simulate.placements import placement_profile
from fairlead.model.run_times import RunTime
from fairlead.model.start_terms import EASY_TERMS, SHORT_FIRST_TERMS, StartTerms
from fairlead.sim.virtual.cluster import simulated_cluster
from fairlead.sim.virtual.jobs import (
    SCHEDULER,
    SimJob,
    consolidated,
    equal_nodes,
    unit_pods,
    whole_gpus,
)
from fairlead.sim.virtual.policies.registry import find_policy

NODES, GPUS = 4, 4


def a_job(number: int, submit_s: float, run_s: float, gpus: int) -> SimJob:
    requests = [whole_gpus(count) for count in consolidated(gpus, GPUS)]
    pods = unit_pods(f"job-{number}", requests, RunTime(run_s, run_s, "test"))
    return SimJob(f"job-{number}", submit_s, run_s, pods, gpus=gpus)


def counted(jobs: Sequence[SimJob], terms: StartTerms) -> dict[str, float]:
    """When each starts by the rule alone."""
    rule = StartsByService(GpuRoom(NODES, GPUS), terms)
    moments = [(job.submit_s, 1, number) for number, job in enumerate(jobs)]
    heapify(moments)
    starts: dict[str, float] = {}
    while moments:
        now = moments[0][0]
        while moments and moments[0][0] == now:
            _, comes, number = heappop(moments)
            job = jobs[number]
            if comes:
                rule.came(number, job.run_s, int(job.gpus), now)
            else:
                rule.room.end(number, now)
        while (started := rule.next(now)) is not None:
            job = jobs[started]
            place = rule.room.best_fit(int(job.gpus))
            assert place is not None
            starts[job.name] = now
            rule.room.start(started, place, now + job.run_s)
            heappush(moments, (now + job.run_s, 0, started))
    return starts


def counted_fifo(jobs: Sequence[SimJob]) -> dict[str, float]:
    """By arrival, with one planned start."""
    room, starts = GpuRoom(NODES, GPUS), dict[str, float]()
    moments = [(job.submit_s, 1, number) for number, job in enumerate(jobs)]
    heapify(moments)
    waiting: list[int] = []
    while moments:
        now = moments[0][0]
        while moments and moments[0][0] == now:
            _, comes, number = heappop(moments)
            if comes:
                waiting.append(number)
            else:
                room.end(number, now)
        while (found := _next_by_arrival(jobs, waiting, room, now)) is not None:
            number, place = found
            waiting.remove(number)
            starts[jobs[number].name], end_s = now, now + jobs[number].run_s
            room.start(number, place, end_s)
            heappush(moments, (end_s, 0, number))
    return starts


def _next_by_arrival(
    jobs: Sequence[SimJob], waiting: Sequence[int], room: GpuRoom, now: float
) -> tuple[int, Parts] | None:
    planned: tuple[float, list[int], int] | None = None
    for number in waiting:
        gpus, place = int(jobs[number].gpus), room.best_fit(int(jobs[number].gpus))
        if place is not None and planned is not None and now + jobs[number].run_s > planned[0]:
            left = list(planned[1])
            for node, count in place:
                left[node] -= count
            place = place if room.best_fit(planned[2], left) is not None else None
        if place is not None:
            return number, place
        if planned is None and (found := room.first_room(gpus, now)) is not None:
            planned = *found, gpus
    return None


def simulated(jobs: Sequence[SimJob], policy: str) -> dict[str, float | None]:
    """When each starts in the engine."""
    found = find_policy(policy)
    cluster = simulated_cluster({SCHEDULER: placement_profile(found.placement)}, found)
    cluster.add_nodes(equal_nodes(NODES, GPUS))
    for job in jobs:
        cluster.submit(job)
    return {name: record.start_s for name, record in cluster.run().records.items()}


@st.composite
def drawn_jobs(draw: st.DrawFn) -> list[SimJob]:
    """More than the nodes have room for, so that some wait for long."""
    count = draw(st.integers(5, 25))
    said = st.tuples(st.integers(0, 60), st.integers(1, 97), st.sampled_from([1, 2, 3, 4, 8, 12]))
    drawn = sorted(draw(said) for _ in range(count))
    # No two have the same service: the order of equal ones is not part of the rule.
    return [
        a_job(number, float(submit_s), run_s + number / 32, gpus)
        for number, (submit_s, run_s, gpus) in enumerate(drawn)
    ]


@pytest.mark.parametrize(
    ("policy", "terms"), [("ssf-easy", EASY_TERMS), ("short-first", SHORT_FIRST_TERMS)]
)
@given(data=st.data())
@examples(25)
def test_jobs_start_as_the_published_rule_says(
    policy: str, terms: StartTerms, data: st.DataObject
) -> None:
    jobs = data.draw(drawn_jobs())
    assert simulated(jobs, policy) == counted(jobs, terms)


@given(drawn_jobs())
@examples(25)
def test_jobs_start_by_arrival_as_easy_backfill_says(jobs: list[SimJob]) -> None:
    assert simulated(jobs, "fifo-easy") == counted_fifo(jobs)
