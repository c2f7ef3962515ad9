"""The real engine under a virtual clock, on jobs that can be computed by hand."""

from dataclasses import replace

import pytest

from fairlead.apps.simulate.placements import placement_profile
from fairlead.engine.engine import Engine
from fairlead.engine.events import PodSeen, PricesComputed
from fairlead.placement.prices import compute
from fairlead.sim.traces.trace import JobMaker
from fairlead.sim.virtual.cluster import SimulationError, VirtualCluster, simulated_cluster
from fairlead.sim.virtual.figures import figures_of, jain
from fairlead.sim.virtual.fragments import FragmentSamples, basis_of
from fairlead.sim.virtual.jobs import SCHEDULER, SimJob, consolidated, equal_nodes
from fairlead.sim.virtual.policies.registry import find_policy
from fairlead.sim.virtual.result import SimResult

GPUS = 8


def a_cluster(policy: str, nodes: int = 1) -> VirtualCluster:
    found = find_policy(policy)
    cluster = simulated_cluster({SCHEDULER: placement_profile(found.placement)}, found)
    cluster.add_nodes(equal_nodes(nodes, GPUS))
    return cluster


def a_job(name: str, submit_s: float, run_s: float, gpus: int, **more: float) -> SimJob:
    return JobMaker().of_gpus(name, submit_s, run_s, gpus, GPUS, **more)


def times(result: SimResult) -> dict[str, tuple[float | None, float | None]]:
    return {name: (record.start_s, record.end_s) for name, record in result.records.items()}


def simulated(policy: str, *jobs: SimJob, nodes: int = 1) -> SimResult:
    cluster = a_cluster(policy, nodes)
    for job in jobs:
        cluster.submit(job)
    return cluster.run()


LONG, WIDE, SMALL = a_job("long", 0, 100, 6), a_job("wide", 10, 50, 8), a_job("small", 20, 30, 2)


def test_a_job_that_finds_no_room_is_skipped_by_fifo() -> None:
    found = times(simulated("fifo", LONG, WIDE, SMALL))
    assert found == {"long": (0, 100), "wide": (100, 150), "small": (20, 50)}


def test_a_job_that_finds_no_room_blocks_strict_fifo() -> None:
    found = times(simulated("fifo-strict", LONG, WIDE, SMALL))
    assert found == {"long": (0, 100), "wide": (100, 150), "small": (150, 180)}


@pytest.mark.parametrize("policy", ["fifo-easy", "ssf-easy"])
def test_with_backfill_a_job_starts_early_only_if_the_first_one_is_not_delayed(policy: str) -> None:
    late = a_job("late", 20, 400, 2)
    found = times(simulated(policy, LONG, WIDE, SMALL, late))
    assert found["wide"] == (100, 150), "the planned start is kept"
    assert found["small"] == (20, 50), "it ends before"
    assert found["late"] == (150, 550), "it would run past it"


def test_the_shortest_of_equal_jobs_comes_first_whenever_it_was_refused() -> None:
    jobs = [a_job("first", 0, 10, 8), *(a_job(f"run-{s}", 1, s, 8) for s in (9, 3, 7, 1))]
    found = times(simulated("sjf", *jobs))
    assert [found[f"run-{s}"][0] for s in (1, 3, 7, 9)] == [10, 11, 14, 21]


def test_the_smallest_service_comes_first_by_gpus_and_run_time() -> None:
    jobs = [a_job("first", 0, 10, 8), a_job("wide", 1, 5, 8), a_job("narrow", 1, 30, 1)]
    assert times(simulated("ssf", *jobs))["narrow"] == (10, 40), "30 GPU seconds come before 40"
    assert times(simulated("sjf", *jobs))["wide"] == (10, 15), "5 seconds come before 30"


def test_jobs_come_in_submit_order_where_keys_are_equal() -> None:
    jobs = [a_job("first", 0, 10, 8), *(a_job(f"job-{n}", 1, 5, 8) for n in range(4))]
    found = times(simulated("sjf", *jobs))
    assert [found[f"job-{n}"][0] for n in range(4)] == [10, 15, 20, 25]


def test_a_job_larger_than_a_node_is_a_gang_that_starts_whole() -> None:
    assert consolidated(20, GPUS) == [8, 8, 4]
    jobs = [a_job("one", 0, 10, 1), a_job("gang", 1, 5, 20)]
    result = simulated("fifo", *jobs, nodes=3)
    assert times(result)["gang"] == (1, 6), "the rest of it fits beside the other job"
    waits = simulated("fifo", jobs[0], a_job("gang", 1, 5, 24), nodes=3)
    assert times(waits)["gang"] == (10, 15)
    assert len(set(waits.records["gang"].nodes)) == 3


def test_a_shorter_job_interrupts_a_longer_one_that_goes_on_later() -> None:
    result = simulated("srtf", a_job("long", 0, 100, 8), a_job("short", 40, 10, 8))
    assert times(result) == {"long": (0, 110), "short": (40, 50)}
    assert result.records["long"].evictions == 1


def test_every_event_costs_running_jobs_their_restart_as_in_the_artifact_of_muri() -> None:
    result = simulated("srtf", a_job("long", 0, 100, 4, restart_s=5.0), a_job("beside", 40, 10, 4))
    # At 40 and at 50 the long job loses 5 seconds each; it is never evicted.
    assert times(result)["long"] == (0, 110)
    assert result.records["long"].evictions == 0


def test_jobs_that_fit_nowhere_never_start_and_the_run_ends() -> None:
    result = simulated("fifo", a_job("large", 0, 5, 64), SMALL)
    assert [record.name for record in result.never_started] == ["large"]
    assert times(result)["small"] == (20, 50)


def test_it_stops_where_it_is_told_to_and_goes_on_from_there() -> None:
    cluster = a_cluster("fifo")
    cluster.submit(LONG)
    cluster.submit(WIDE)
    cluster.run_until(60)
    assert cluster.now_s == 60
    assert list(cluster.running) == ["long"]
    cluster.submit(a_job("late", 0, 5, 2))
    assert times(cluster.run())["late"] == (60, 65), "the past is over"


def test_two_jobs_of_one_name_are_refused() -> None:
    cluster = a_cluster("fifo")
    cluster.submit(LONG)
    with pytest.raises(SimulationError, match="two jobs have the name long"):
        cluster.submit(LONG)


def test_running_pods_of_an_engine_are_adopted_with_the_time_they_have_left() -> None:
    source = a_cluster("fifo")
    source.submit(LONG)
    source.run_until(30)
    engine = Engine({SCHEDULER: placement_profile("BestFit")})
    cluster = VirtualCluster(engine, start_s=1000.0)
    cluster.add_nodes(equal_nodes(1, GPUS))
    pods = tuple(source.running["long"].pods.values())
    for pod in pods:
        engine.handle(PodSeen(pod), now=1000.0)
    cluster.adopt(replace(LONG, pods=pods), started_s=970.0)
    cluster.submit(WIDE)
    assert times(cluster.run()) == {"long": (970, 1070), "wide": (1070, 1120)}


def test_live_timers_end_when_nothing_can_happen_any_more() -> None:
    cluster = VirtualCluster(Engine({SCHEDULER: placement_profile("BestFit")}))
    cluster.add_nodes(equal_nodes(1, GPUS))
    cluster.submit(a_job("large", 0, 5, 64))
    cluster.submit(SMALL)
    result = cluster.run()
    assert [record.name for record in result.never_started] == ["large"]


def test_the_engine_evicts_jobs_of_lower_priority_which_start_over() -> None:
    low, high = a_job("low", 0, 100, 8), a_job("high", 40, 10, 8)
    high = replace(high, pods=tuple(replace(pod, priority=9) for pod in high.pods))
    result = simulated("fifo", low, high)
    assert times(result)["high"] == (40, 50)
    assert result.records["low"].end_s == 150, "its first 40 seconds are lost"
    assert result.records["low"].evictions == 1


def test_figures_are_those_of_the_jobs() -> None:
    figures = figures_of(simulated("fifo", LONG, WIDE, SMALL))
    assert figures.jct_s == pytest.approx((100 + 140 + 30) / 3)
    assert figures.wait_avg_s == pytest.approx((0 + 90 + 0) / 3)
    assert (figures.wait_p50_s, figures.wait_p99_s, figures.makespan_s) == (0, 90, 150)
    assert figures.utilisation == pytest.approx((600 + 400 + 60) / (8 * 150))
    # From 0 to 20 and from 50 to 100 six of the eight GPUs are held.
    assert figures.fragmentation == pytest.approx(70 / 150)
    assert (figures.evictions, figures.never_started) == (0, 0)


def test_fairness_is_that_of_users() -> None:
    assert jain([2.0, 2.0, 2.0]) == 1.0
    assert jain([1.0, 0.0, 0.0, 0.0]) == 0.25
    jobs = [a_job("a", 0, 100, 8, user="a"), a_job("b", 0, 100, 8, user="b")]
    assert figures_of(simulated("fifo", *jobs)).fairness == pytest.approx(9 / 10)


def test_unusable_gpus_are_those_that_no_typical_pod_could_use() -> None:
    jobs = [a_job("six", 0, 100, 6), a_job("four", 10, 100, 4)]
    nodes = equal_nodes(1, GPUS)
    cluster = a_cluster("fifo", 0)
    cluster.add_nodes(nodes)
    prices = compute(basis_of(nodes, jobs * 50))
    assert prices is not None
    cluster.engine.handle(PricesComputed(prices), now=0.0)
    samples = FragmentSamples(0.0)
    samples.look(cluster.engine.cluster, GPUS, 0.0)
    assert samples.mean == 0, "an empty node has room for both"
    cluster.submit(jobs[0])
    cluster.run_until(5.0)
    beside = FragmentSamples(0.0)
    beside.look(cluster.engine.cluster, GPUS, 5.0)
    assert beside.mean == pytest.approx(2 / 8), "two GPUs are left, too few for either"
    assert FragmentSamples(1.0).mean is None
