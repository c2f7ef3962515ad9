"""No unit that starts early delays a planned start: all orders of small cases, and drawn ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_node
from examples import examples, some
from fairlead.engine.plans import Plans
from fairlead.model.backfill import BackfillMode, BackfillTerms
from fairlead.model.gpus import Gpu, GpuRequest, Inventory, MigProfile
from fairlead.model.nodes import Node
from fairlead.testing.builders import DIALECT, a_gpu_node, gpu_share
from timed_world import TimedWorld, a_job

EASY = BackfillTerms(BackfillMode.EASY, resolution_s=0.0)
CONSERVATIVE = BackfillTerms(BackfillMode.CONSERVATIVE, resolution_s=0.0)


@dataclass(frozen=True)
class Job:
    pods: int
    bound_s: float | None
    at_s: float = 0.0
    #: How long it really runs; None: until its bound.
    run_s: float | None = None
    #: What each pod asks for.
    asks: dict[str, object] = field(default_factory=lambda: {"gpus": 1})


class WatchedWorld(TimedWorld):
    """A planned start never moves later, and is never lost before the unit starts."""

    def __init__(self, *nodes: Node, terms: BackfillTerms) -> None:
        self.promised: dict[str, float] = {}
        super().__init__(*nodes, terms=terms)

    def work(self) -> None:
        super().work()
        waiting = {entry.unit.key for entry in self.engine.queue.entries()}
        planned = {each.unit_key: each.start_s for each in self.engine.plans}
        for key in self.promised.keys() & waiting:
            assert key in planned, f"{key} lost its planned start"
        for key, start_s in planned.items():
            assert start_s <= self.promised.get(key, start_s), f"{key} moved later"
            self.promised[key] = start_s


def run(jobs: Sequence[Job], terms: BackfillTerms, nodes: Sequence[Node]) -> WatchedWorld:
    world = WatchedWorld(*nodes, terms=terms)
    for number, job in sorted(enumerate(jobs), key=lambda each: each[1].at_s):
        world.run_until(job.at_s)
        pods = a_job(f"j{number}", job.pods, job.bound_s, **job.asks)
        world.submit(*pods, runs_s=job.run_s)
    world.run_until(200.0)
    return world


def check(jobs: Sequence[Job], terms: BackfillTerms, nodes: Sequence[Node]) -> None:
    world = run(jobs, terms, nodes)
    for number, job in enumerate(jobs):
        key = f"j{number}" if job.pods == 1 else f"fairlead/default/j{number}"
        assert world.runs(f"j{number}"), f"j{number} never starts: {jobs}"
        if key in world.promised:
            assert world.start_of(f"j{number}") <= world.promised[key], (number, jobs)


THREE_NODES = [a_node(f"n{at}", gpus=1) for at in range(3)]
KINDS = list(product((1, 2, 3), (1, 3)))


@pytest.mark.parametrize("terms", [EASY, CONSERVATIVE], ids=["easy", "conservative"])
@pytest.mark.parametrize("second", KINDS, ids=str)
def test_no_unit_delays_a_planned_start(terms: BackfillTerms, second: tuple[int, int]) -> None:
    """All sequences of three jobs behind one that takes two of three nodes."""
    for third, last in some(product(KINDS, repeat=2), 8, second):
        jobs = [Job(2, 2), Job(*second), Job(*third), Job(*last, at_s=1)]
        check(jobs, terms, THREE_NODES)


def test_the_cases_show_delays_where_nothing_is_left_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plans, "limit", lambda _plans, _entry, _now: None)
    with pytest.raises(AssertionError, match="moved later"):
        check([Job(2, 2), Job(3, 1), Job(1, 3)], EASY, THREE_NODES)


TERMS = pytest.mark.parametrize("terms", [EASY, CONSERVATIVE], ids=["easy", "conservative"])


def a_share(milli: int) -> dict[str, object]:
    return {"gpus": 0, "gpu_request": gpu_share(milli)}


def a_slice(profile: str) -> dict[str, object]:
    return {"gpus": 0, "gpu_request": GpuRequest(1, False, 0, profile=profile)}


MIG = (MigProfile("1g.10gb", 1, (0, 1, 2, 3)), MigProfile("2g.20gb", 2, (0, 2)))


def a_cut_node(name: str, gpus: int) -> Node:
    """Each GPU has four slices."""
    listed = tuple(Gpu(f"GPU-{name}-{at}", at, "A100", 40_960, mig=MIG) for at in range(gpus))
    return a_node(name, gpus, inventory=Inventory(listed, dialects=frozenset({DIALECT})))


PARTS = [(500, 1), (500, 3), (700, 3), (1000, 1)]


@TERMS
@pytest.mark.parametrize("second", PARTS, ids=str)
def test_no_share_delays_a_planned_start_in_any_order(
    terms: BackfillTerms, second: tuple[int, int]
) -> None:
    """All sequences of three shares behind two that take both GPUs in part."""
    for third, last in some(product(PARTS, repeat=2), 4, second):
        asked = [(2, 700, 2), (2, *second), (1, *third), (1, *last)]
        jobs = [Job(pods, run_s, asks=a_share(milli)) for pods, milli, run_s in asked]
        check(jobs, terms, [a_gpu_node("n0", gpus=2)])


def test_a_planned_start_that_moved_earlier_is_not_put_off_to_where_it_was() -> None:
    jobs = [
        Job(1, 13, run_s=6, asks=a_share(300)),
        Job(2, 2, asks=a_share(1000)),
        Job(1, 8, at_s=2, asks=a_share(700)),
        Job(1, 8, at_s=3, asks=a_share(700)),
        Job(1, 3, at_s=3, run_s=1, asks=a_share(1000)),
    ]
    check(jobs, EASY, [a_gpu_node("n0", gpus=2)])


SHARES = st.sampled_from([300, 500, 700, 1000]).map(a_share)
SLICES = st.sampled_from(["1g.10gb", "2g.20gb"]).map(a_slice)
WHOLE = st.sampled_from([1, 2]).map(lambda gpus: {"gpus": gpus})
BOUNDS = st.sampled_from([1, 2, 3, 5, 8, 13])


@st.composite
def drawn_jobs(draw: st.DrawFn, asks: st.SearchStrategy[dict[str, object]]) -> list[Job]:
    """Some end before their bound."""
    found = []
    for _ in range(draw(st.integers(3, 9))):
        bound_s = draw(BOUNDS)
        run_s = draw(st.sampled_from([bound_s, bound_s, max(1, bound_s // 2)]))
        at_s = draw(st.integers(0, 6))
        found.append(Job(draw(st.integers(1, 3)), bound_s, at_s, run_s, draw(asks)))
    return found


@TERMS
@given(jobs=drawn_jobs(SHARES))
@examples(40)
def test_no_share_of_a_gpu_delays_a_planned_start(terms: BackfillTerms, jobs: list[Job]) -> None:
    check(jobs, terms, [a_gpu_node("n0", gpus=2), a_gpu_node("n1", gpus=1)])


@TERMS
@given(jobs=drawn_jobs(SLICES))
@examples(30)
def test_no_slice_of_a_gpu_delays_a_planned_start(terms: BackfillTerms, jobs: list[Job]) -> None:
    check(jobs, terms, [a_cut_node("n0", 1), a_cut_node("n1", 1)])


@given(drawn_jobs(WHOLE))
@examples(40)
def test_no_unit_on_unequal_nodes_delays_any_of_many_planned_starts(jobs: list[Job]) -> None:
    check(jobs, CONSERVATIVE, [a_node("n0", gpus=2), a_node("n1", gpus=3), a_node("n2", gpus=2)])


@given(drawn_jobs(WHOLE))
@examples(40)
def test_no_unit_on_nodes_with_several_gpus_delays_a_planned_start(jobs: list[Job]) -> None:
    check(jobs, EASY, [a_node("n0", gpus=2), a_node("n1", gpus=3), a_node("n2", gpus=2)])


class LyingWorld(TimedWorld):
    """Evictions are carried out at once; those who were evicted come back and never end."""

    def work(self) -> None:
        super().work()
        while self.evictions:
            self.evict_all()
            super().work()


LIES = list(product((1, 3, 5), (0, 2, 4)))


@pytest.mark.parametrize("first", LIES, ids=str)
@pytest.mark.parametrize("mode", [BackfillMode.EASY, BackfillMode.CONSERVATIVE])
def test_no_unit_gains_by_a_run_time_that_is_100_times_too_short(
    mode: BackfillMode, first: tuple[int, int]
) -> None:
    """All orders of two units that say they end before the planned start, and do not."""
    for second in some(LIES, 3, first):
        world = LyingWorld(*THREE_NODES, terms=BackfillTerms(mode, resolution_s=0.0))
        world.submit(*a_job("r", 2, 5))
        world.submit(*a_job("head", 3, 7))
        for number, (bound_s, at_s) in enumerate(sorted((first, second), key=lambda lie: lie[1])):
            world.run_until(at_s)
            world.submit(*a_job(f"liar{number}", 1, bound_s), runs_s=100 * bound_s)
        world.run_until(20)
        assert world.start_of("head") == 5, (first, second)
