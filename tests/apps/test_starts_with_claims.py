"""Planned starts of units with claims, in `fairlead what-if` and `fairlead queue --start`."""

from dataclasses import replace
from datetime import datetime

import pytest
from test_what_if import ask
from test_what_if_claims import a_job, a_template, work

from builders import a_node
from claim_objects import GPU_CLASS, a_claim, a_claim_user, a_claiming_pod, a_slice, an_allocation
from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.apps.queues.starts import StartRow, starts_among
from fairlead.engine.events import ClaimObjectSeen, Event, NodeSeen, PodSeen
from fairlead.model.backfill import BackfillMode
from fairlead.model.run_times import RunTime

ENDS_S, HEAD_RUNS_S = 600.0, 3600.0
MODES = ("none", "easy")


def a_cluster() -> list[Event]:
    """One of two devices is used for ten minutes, and the first waiting pod claims both."""
    runs = a_claiming_pod("r", "of-r", node="n1", controller="Job/r", run_time=RunTime(ENDS_S))
    used = a_claim("of-r", allocation=an_allocation("n1", "gpu-0"),
                   reserved_for=(a_claim_user(runs),))  # fmt: skip
    shown = (GPU_CLASS, a_slice("n1", "gpu-0", "gpu-1"), used)
    nodes = [NodeSeen(a_node("n1", gpus=0)), *map(ClaimObjectSeen, shown), PodSeen(runs)]
    return [*nodes, *waits("head", 2, HEAD_RUNS_S)]


def waits(name: str, devices: int, run_s: float) -> list[Event]:
    pod = a_claiming_pod(name, f"of-{name}", run_time=RunTime(run_s))
    return [ClaimObjectSeen(a_claim(f"of-{name}", devices)), PodSeen(pod)]


def started_s(mode: str, run_time: str) -> dict[str, float | None]:
    """When the pod that waits and a new job would start; the job claims one device."""
    job = a_job()
    job["spec"]["template"]["metadata"] = {"annotations": {"fairlead.dev/run-time": run_time}}
    units = ask(a_cluster(), work=work(a_template(), job), backfill=mode).after.units
    return {name: units[f"default/{name}"].start_s for name in ("head", "train-0")}


@pytest.mark.parametrize("mode", MODES)
def test_what_if_says_that_a_short_job_starts_before_a_planned_claim(mode: str) -> None:
    found = started_s(mode, "5m")
    assert found["train-0"] == 0.0
    assert found["head"] == pytest.approx(ENDS_S, abs=5.0)


def test_what_if_says_that_a_long_job_waits_for_a_planned_claim() -> None:
    found = started_s("easy", "2h")
    assert found["head"] == pytest.approx(ENDS_S, abs=5.0)
    assert found["train-0"] == pytest.approx(ENDS_S + HEAD_RUNS_S, abs=10.0)


def test_what_if_says_that_without_backfill_a_long_job_delays_the_claim() -> None:
    found = started_s("none", "2h")
    assert found["train-0"] == 0.0
    assert found["head"] == pytest.approx(7200.0, abs=10.0)


def rows(mode: str, *more: Event) -> dict[str, StartRow]:
    planned = plan(RunOptions())
    planned = replace(planned, backfill=replace(planned.backfill, mode=BackfillMode(mode)))
    found = starts_among([*a_cluster(), *more], planned)
    return {row.unit.removeprefix("default/"): row for row in found}


def between_s(first: StartRow, second: StartRow) -> float:
    assert first.start is not None
    assert second.start is not None
    times = [datetime.fromisoformat(each.start or "") for each in (first, second)]
    return (times[1] - times[0]).total_seconds()


def test_queue_start_lists_claims_in_the_order_of_their_planned_starts() -> None:
    found = rows("easy", *waits("long", 1, 7200.0), *waits("short", 1, 300.0))
    assert list(found) == ["short", "head", "long"]
    assert [found[name].gpus for name in found] == [1.0, 2.0, 1.0]
    assert {name for name in found if found[name].nodes != ["n1"]} == set()
    assert between_s(found["short"], found["head"]) == pytest.approx(ENDS_S, abs=5.0)
    assert between_s(found["head"], found["long"]) == pytest.approx(HEAD_RUNS_S, abs=10.0)


def test_queue_start_says_that_without_backfill_a_long_claim_comes_first() -> None:
    found = rows("none", *waits("long", 1, 7200.0))
    assert list(found) == ["long", "head"]
    assert between_s(found["long"], found["head"]) == pytest.approx(7200.0, abs=10.0)
