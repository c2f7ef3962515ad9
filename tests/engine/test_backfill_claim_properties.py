"""No unit with resource claims delays a planned start: all orders of small cases, drawn ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_backfill_properties import BOUNDS, CONSERVATIVE, EASY, TERMS
from test_extended_resources import MAPPED, gpu_pod

from claim_objects import GPU_CLASS, a_claim, a_device, a_slice
from examples import examples, some
from fairlead.engine.plans import Plans
from fairlead.model.backfill import BackfillTerms
from fairlead.model.claims import DeviceNeed, DeviceRequest, ResourceClaim
from fairlead.model.pods import Pod
from timed_claims import ClaimWorld, a_claiming_job, a_sharing_job, nodes_with
from timed_world import bounded


@dataclass(frozen=True)
class Job:
    pods: int
    bound_s: float
    #: Devices of each pod; of which colour, if not any.
    count: int = 1
    colour: str = ""
    at_s: float = 0.0
    #: How long it really runs; None: until its bound.
    run_s: float | None = None
    #: Whether its pods share one claim, or have none of their own, as plain GPU pods.
    shared: bool = False
    plain: bool = False

    def made(self, name: str) -> list[Pod]:
        if self.plain:
            pod = gpu_pod(name, self.count)
            return [replace(pod, uid=name, run_time=bounded(self.bound_s))]
        if self.shared:
            return a_sharing_job(name, self.pods, self.bound_s, f"{name}-{self.count}")
        return a_claiming_job(name, self.pods, self.bound_s, self.count)


class WatchedClaims(ClaimWorld):
    """A planned start never moves later, and is never lost before the unit starts."""

    def __init__(self, devices: Sequence[int], terms: BackfillTerms) -> None:
        self.promised: dict[str, float] = {}
        self.colours: dict[str, str] = {}
        super().__init__(*nodes_with(*(0 for _ in devices)), terms=terms)
        self.show(MAPPED)
        for at, count in enumerate(devices):
            colours = ("red", "blue")
            found = [a_device(f"d{n}", colour=colours[n % 2]) for n in range(count)]
            self.show(a_slice(f"n{at}", *found))

    def made(self, name: str, count: int, **more: object) -> ResourceClaim:
        colour = self.colours.get(name.partition("-")[0], "")
        if not colour:
            return a_claim(name, count)
        chosen = f"device.attributes['gpu.nvidia.com'].colour == '{colour}'"
        need = DeviceNeed(GPU_CLASS.name, (chosen,), count=count)
        return a_claim(name, requests=(DeviceRequest("r", need),))

    def work(self) -> None:
        super().work()
        waiting = {entry.unit.key for entry in self.engine.queue.entries()}
        planned = {each.unit_key: each.start_s for each in self.engine.plans}
        for key in self.promised.keys() & waiting:
            assert key in planned, f"{key} lost its planned start"
        for key, start_s in planned.items():
            assert start_s <= self.promised.get(key, start_s), f"{key} moved later"
            self.promised[key] = start_s


def check(jobs: Sequence[Job], terms: BackfillTerms, devices: Sequence[int]) -> None:
    world = WatchedClaims(devices, terms)
    for number, job in sorted(enumerate(jobs), key=lambda each: each[1].at_s):
        world.run_until(job.at_s)
        world.colours[f"j{number}"] = job.colour
        world.submit(*job.made(f"j{number}"), runs_s=job.run_s)
    world.run_until(200.0)
    for number, job in enumerate(jobs):
        key = f"j{number}" if job.pods == 1 or job.plain else f"fairlead/default/j{number}"
        assert world.runs(f"j{number}"), f"j{number} never starts: {jobs}"
        if key in world.promised:
            assert world.start_of(f"j{number}") <= world.promised[key], (number, jobs)


KINDS = list(product((1, 2, 3), (1, 3)))


@TERMS
@pytest.mark.parametrize("second", KINDS, ids=str)
def test_no_claim_delays_a_planned_start(terms: BackfillTerms, second: tuple[int, int]) -> None:
    """All sequences of three claims behind one that has two of three devices."""
    for third, last in some(product(KINDS, repeat=2), 6, second):
        asked = [(2, 2, 0), (*second, 0), (*third, 0), (*last, 1)]
        check([Job(1, run_s, count, at_s=at_s) for count, run_s, at_s in asked], terms, [3])


def test_the_cases_show_delays_where_nothing_is_left_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plans, "limit", lambda _plans, _entry, _now: None)
    with pytest.raises(AssertionError, match="moved later"):
        check([Job(1, 2, 2), Job(1, 1, 3), Job(1, 3, 1)], EASY, [3])


@st.composite
def drawn_jobs(draw: st.DrawFn) -> list[Job]:
    """Some end before their bound."""
    found = []
    for _ in range(draw(st.integers(3, 8))):
        bound_s = draw(BOUNDS)
        run_s = draw(st.sampled_from([bound_s, bound_s, max(1, bound_s // 2)]))
        kind = draw(st.sampled_from(["any", "any", "red", "shared", "plain"]))
        count = 1 if kind == "red" else draw(st.integers(1, 2))
        pods = 1 if kind in ("red", "plain") else draw(st.integers(1, 2))
        colour = kind if kind == "red" else ""
        at_s, shared, plain = draw(st.integers(0, 6)), kind == "shared", kind == "plain"
        found.append(Job(pods, bound_s, count, colour, at_s, run_s, shared, plain))
    return found


@TERMS
@given(jobs=drawn_jobs())
@examples(15)
def test_no_unit_with_claims_delays_a_planned_start(terms: BackfillTerms, jobs: list[Job]) -> None:
    check(jobs, terms, [2, 3])


@given(jobs=drawn_jobs())
@examples(15)
def test_no_unit_with_claims_delays_any_of_many_planned_starts(jobs: list[Job]) -> None:
    check(jobs, CONSERVATIVE, [2, 2, 2])
