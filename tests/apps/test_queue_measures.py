"""Metrics by queue: bounded, and 0 where a guarantee is not used."""

import pytest
from prometheus_client import generate_latest

from fairlead.apps.run import queue_measures
from fairlead.apps.run.queue_measures import MOST_RESOURCES, expose_queues
from fairlead.model.queues import GPUS
from fairlead.telemetry.metrics import Metrics
from queue_reports import TREE, gpus, report


def served(*reports) -> dict[str, float]:
    metrics = Metrics()
    expose_queues(metrics, lambda: reports)
    lines = generate_latest(metrics.registry).decode().splitlines()
    found = (line.rpartition(" ") for line in lines if line.startswith("fairlead_queue_"))
    return {name: float(value) for name, _, value in found}


def test_each_queue_is_served_with_its_amounts():
    found = served(*TREE)
    labels = 'queue="fairlead/product",resource="nvidia.com/gpu"'
    assert found[f"fairlead_queue_used{{{labels}}}"] == 40
    assert found[f"fairlead_queue_guaranteed{{{labels}}}"] == 32
    assert found[f"fairlead_queue_borrowed{{{labels}}}"] == 8
    assert found[f"fairlead_queue_fair_share{{{labels}}}"] == 24
    assert found['fairlead_queue_pending_pods{queue="fairlead/research"}'] == 8
    assert found['fairlead_queue_past_gpu_seconds{queue="fairlead/product"}'] == 27_000
    ratio = 'fairlead_queue_budget_used_ratio{period="Day",queue="fairlead/product"}'
    assert found[ratio] == pytest.approx(0.9)


def test_an_unused_guarantee_is_served_as_0():
    found = served(report("idle", guaranteed=gpus(8)))
    assert found['fairlead_queue_used{queue="fairlead/idle",resource="nvidia.com/gpu"}'] == 0


def test_nothing_is_served_without_queues():
    assert served() == {}


def test_queues_beyond_the_most_are_added_up_and_parents_are_not_counted_twice(monkeypatch):
    monkeypatch.setattr(queue_measures, "MOST_QUEUES", 2)
    found = served(
        report("a", used=gpus(1)),
        report("b", used=gpus(1)),
        report("c", used=gpus(5), pending_units=3),
        report("c1", "c", 1, used=gpus(2), pending_units=1),
        report("c2", "c", 1, used=gpus(3), pending_units=2),
    )
    used = {name: value for name, value in found.items() if name.startswith("fairlead_queue_used")}
    assert used == {
        f'fairlead_queue_used{{queue="{name}",resource="{GPUS}"}}': value
        for name, value in (("fairlead/a", 1), ("fairlead/b", 1), ("(others)", 5))
    }
    assert found['fairlead_queue_pending_units{queue="(others)"}'] == 3


def test_few_resources_are_served():
    many = tuple((f"example.com/{number:02}", 1) for number in range(40))
    found = served(report("a", guaranteed=many, used=gpus(1)))
    named = {name for name in found if name.startswith("fairlead_queue_guaranteed")}
    assert len(named) == MOST_RESOURCES - 1
