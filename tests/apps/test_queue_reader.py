"""Queues and their units as an engine has them, and what explain says of a pod in a queue."""

import io
from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine, decide, see
from fairlead.apps.explain.explain import show
from fairlead.apps.explain.explanation import ALL, Explainer
from fairlead.apps.queues.reader import NoSuchQueue, QueueReader
from fairlead.engine.engine import Engine
from fairlead.engine.events import BindDone, BudgetSeen, QueueKindSeen, QueueSeen
from fairlead.engine.instructions import AnnounceFailure, Bind
from fairlead.model.budgets import Budget
from fairlead.model.consolidation import time_of
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.queues import GPUS, QueueSpec, Victims
from fairlead.model.selectors import LabelSelector, Requirement
from queue_reports import gpus

COMPANY = QueueSpec("fairlead/company", guaranteed=gpus(8))
RESEARCH = QueueSpec(
    "fairlead/research", "fairlead/company", guaranteed=gpus(4), limit=gpus(6), weight=2.0
)
UTC_S = time_of("2026-11-16T12:00:00Z")
PRODUCT = QueueSpec("fairlead/product", "fairlead/company", guaranteed=gpus(2))


def engine_with(*specs: QueueSpec) -> Engine:
    engine = an_engine(a_node("n1", gpus=8))
    for spec in specs or (COMPANY, RESEARCH, PRODUCT):
        engine.handle(QueueSeen(spec), now=0.0)
    engine.handle(QueueKindSeen("fairlead", is_served=True), now=0.0)
    return engine


def place(engine: Engine, *pods) -> list[AnnounceFailure]:
    see(engine, *pods)
    made = decide(engine)
    for each in made:
        if isinstance(each, Bind):
            engine.handle(BindDone(each.pod.uid), now=0.0)
    return [each for each in made if isinstance(each, AnnounceFailure)]


def of(queue: str, name: str, **more):
    return a_pod(name, queue=f"fairlead/{queue}", **more)


def test_what_pods_hold_is_used_and_what_is_above_the_guarantee_is_borrowed():
    engine = engine_with()
    place(engine, of("product", "serve", gpus=3))
    found = {row.name: row for row in QueueReader(engine).listing().queues}
    assert [row.name for row in QueueReader(engine).listing().queues] == [
        "company", "product", "research",
    ]  # fmt: skip
    assert found["product"].used[GPUS] == 3
    assert found["product"].borrowed == {GPUS: 1}
    assert found["company"].running_pods == found["product"].running_pods == 1


def test_one_queue_lists_its_units_in_order_with_the_reason_of_each():
    engine = engine_with()
    place(engine, of("research", "running", gpus=4))
    place(
        engine,
        of("research", "later", gpus=3, priority=1),
        of("research", "first", gpus=4, priority=5),
        of("product", "other", gpus=1),
    )
    found = QueueReader(engine).detail("research")
    assert [(unit.position, unit.name) for unit in found.pending] == [
        (1, "default/first"), (2, "default/later"),
    ]  # fmt: skip
    assert found.pending[0].reason == (
        "queue research has a limit of 6 nvidia.com/gpu: 4 used, 4 requested"
    )
    assert [unit.name for unit in found.running] == ["default/running"]
    assert [row.name for row in found.ancestors] == ["company"]
    row = next(row for row in QueueReader(engine).listing().queues if row.name == "research")
    assert (row.first, row.reason) == ("default/first", found.pending[0].reason)


def test_a_queue_does_not_borrow_from_itself():
    engine = engine_with()
    place(engine, of("product", "serve", gpus=3))
    place(engine, of("product", "wide", gpus=8))
    assert QueueReader(engine).detail("product").borrowers == []
    found = QueueReader(engine).detail("research").borrowers
    assert [each.queue for each in found] == ["fairlead/product"]


def test_a_guarantee_that_cannot_be_kept_is_shown_until_it_is_corrected():
    engine = engine_with()
    found = {row.name: row.problem for row in QueueReader(engine).listing().queues}
    assert set(found.values()) == {""}
    engine.handle(QueueSeen(replace(COMPANY, guaranteed=gpus(1))), now=0.0)
    found = {row.name: row.problem for row in QueueReader(engine).listing().queues}
    assert all("raise spec.guaranteed of company" in said for said in found.values())
    engine.handle(QueueSeen(COMPANY), now=0.0)
    found = {row.name: row.problem for row in QueueReader(engine).listing().queues}
    assert set(found.values()) == {""}


def test_a_gang_is_one_unit():
    engine = engine_with()
    spec = GangSpec("fairlead/default/train", minimum=4)
    members = [
        of("research", f"train-{n}", gpus=2, gang=Membership(spec.key, spec=spec)) for n in range(4)
    ]
    place(engine, *members)
    found = QueueReader(engine).detail("research")
    (unit,) = found.pending
    assert (unit.name, unit.kind, unit.pods, unit.amounts[GPUS]) == (
        "default/train", "gang", 4, 8.0,
    )  # fmt: skip
    assert "limit of 6 nvidia.com/gpu: 0 used, 8 requested" in unit.reason


def test_a_queue_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(NoSuchQueue, match="choose one of: fairlead/company, fairlead/product"):
        QueueReader(engine_with()).detail("none")
    with pytest.raises(NoSuchQueue, match="there are no queues"):
        QueueReader(an_engine()).detail("none")


def explained(engine: Engine, pod) -> dict:
    found = Explainer(engine, lambda _: pod)(pod.key, ALL)
    assert found is not None
    return found


def text_of(answer: dict) -> str:
    out = io.StringIO()
    show(answer, "text", out)
    return out.getvalue()


def test_explain_names_the_limit_with_both_numbers_and_what_would_help():
    engine = engine_with()
    waits = of("research", "waits", gpus=4)
    place(engine, of("research", "runs", gpus=4))
    (failure,) = place(engine, waits)
    assert failure.reason == "QueueLimit"
    found = explained(engine, waits)
    assert (found["state"], found["message"]) == ("held back", failure.message)
    assert found["queue"]["position"] == 1
    assert found["queue"]["limits"] == [
        {
            "queue": "fairlead/research", "resource": GPUS, "limit": 6.0, "used": 4.0, "asked": 4.0,
        }
    ]  # fmt: skip
    assert found["queue"]["remedies"] == [
        "raise limit nvidia.com/gpu of queue research to 8, or wait until its pods use 2 less"
    ]
    shown = text_of(found)
    assert "queue research (fairlead): position 1 of 1 pending units" in shown
    assert "what would help: raise limit nvidia.com/gpu of queue research to 8" in shown


def test_explain_says_which_queue_borrows_what_is_guaranteed():
    engine = engine_with()
    waits = of("research", "waits", gpus=4)
    place(engine, of("product", "greedy", gpus=8))
    place(engine, waits)
    found = explained(engine, waits)
    (borrower,) = [each for each in found["queue"]["borrowers"] if each["resource"] == GPUS]
    assert (borrower["queue"], borrower["borrowed"]) == ("fairlead/product", 6.0)
    assert "queue product borrows 6 nvidia.com/gpu" in text_of(found)


def test_explain_says_which_pods_would_be_evicted():
    """Others are counted, where the reader may not list their pods."""
    engine = engine_with()
    greedy = [of("product", f"greedy-{n}", gpus=2) for n in range(4)]
    place(engine, *(replace(pod, namespace="shop") for pod in greedy))
    waits = of("research", "waits", gpus=2)
    see(engine, waits)
    found = explained(engine, waits)["queue"]["wouldEvict"]
    assert found["count"] == len(found["pods"]) == 1
    assert found["pods"][0].startswith("shop/greedy-")
    assert f"would be evicted for it: {found['pods'][0]}" in text_of(explained(engine, waits))
    hidden = Explainer(engine, lambda _: waits)(waits.key, replace(ALL, pods=False))
    assert hidden["queue"]["wouldEvict"] == {"pods": [], "count": 1}
    assert "would be evicted for it: 1 pod(s) of others" in text_of(hidden)
    assert "greedy" not in text_of(hidden)


def test_explain_of_a_queue_that_does_not_exist():
    engine = engine_with()
    waits = of("none", "waits", gpus=1)
    (failure,) = place(engine, waits)
    assert failure.reason == "QueueNotFound"
    found = explained(engine, waits)
    assert found["message"] == failure.message
    assert "create the queue, or correct the label fairlead.dev/queue" in text_of(found)


def test_a_pod_without_a_queue_is_explained_as_before():
    engine = engine_with()
    pod = a_pod("plain", gpus=9)
    place(engine, pod)
    assert "queue" not in explained(engine, pod)


@pytest.mark.parametrize(
    ("product", "more", "reason"),
    [
        ({"reclaimable": False}, {}, "3 of queues that are not reclaimable"),
        ({"min_run_reclaim_s": 600.0}, {}, "3 run for less than the minimum run time"),
        ({}, {"labels": {"app": "serve"}}, "3 protected by disruption budgets"),
        ({}, {"priority": 7}, "3 not of lower priority"),
    ],
)
def test_explain_says_why_what_is_borrowed_can_not_be_reclaimed(product, more, reason):
    research = replace(RESEARCH, reclaims=Victims.LOWER_PRIORITY)
    engine = engine_with(COMPANY, research, replace(PRODUCT, guaranteed=(), **product))
    engine.wall_offset_s = UTC_S
    selector = LabelSelector((Requirement("app", "In", ("serve",)),))
    engine.handle(BudgetSeen(Budget("default", "b", selector=selector)), now=0.0)
    labelled = {"priority": 1, **more}
    serving = of("product", "serve", gpus=3, started="2026-11-16T11:58:00Z", **labelled)
    see(engine, replace(serving, node="n1"))
    pod = of("research", "train", gpus=6, priority=5)
    place(engine, pod)
    expected = f"borrows 3 nvidia.com/gpu, of which nothing can be reclaimed ({reason})"
    found = Explainer(engine, lambda _: pod, now_s=lambda: UTC_S)(pod.key, ALL)
    assert expected in text_of(found)
    (borrower,) = QueueReader(engine).detail("research", 0.0).borrowers
    kept = {reason.partition(" ")[2]: 3.0} if "priority" not in more else {}
    assert borrower.not_reclaimable == kept, "without a unit, no priority is known"
