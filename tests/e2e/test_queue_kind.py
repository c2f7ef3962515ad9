"""The kind Queue on a real API server: what its schema accepts, and what kubectl shows."""

from collections.abc import Iterator
from typing import Any

import pytest

import queue_crds
from fairlead.sim.controlplane import ControlPlane
from manifests import kubectl

pytestmark = pytest.mark.server

FULL = {
    "parent": "company",
    "guaranteed": {"nvidia.com/gpu": 16, "cpu": "200", "fairlead.dev/gpu-H100": "7.5"},
    "limit": {"nvidia.com/gpu": 32, "memory": "4Gi"},
    "weight": 2.5,
    "priority": -3,
    "budgets": [{"period": "Day", "gpuHours": 100}, {"period": "Month", "gpuHours": 1500.5}],
    "namespaces": ["team-a", "team-b"],
    "order": "ShortestFirst",
    "preemption": {"withinQueue": "Never", "reclaim": "LowerPriority", "reclaimable": False},
    "minRunTime": "1h30m",
}


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    with queue_crds.installed(control_plane):
        yield control_plane


def test_kubectl_shows_a_queue_by_its_short_name(plane: ControlPlane) -> None:
    status, answer = queue_crds.create(plane, "shown", **FULL)
    assert status == 201, answer
    said = {
        "status": {
            "used": {"nvidia.com/gpu": "12"},
            "fairShare": {"nvidia.com/gpu": "20.5"},
            "pendingPods": 3,
        }
    }
    path = f"{queue_crds.QUEUES}/shown/status"
    assert plane.api("PATCH", path, said, content_type="application/merge-patch+json")[0] == 200
    header, row = kubectl(plane, "get fq shown").splitlines()
    assert header.split() == [
        "NAME",
        "PARENT",
        "GUARANTEED",
        "GPUS",
        "USED",
        "FAIR",
        "SHARE",
        "PENDING",
        "AGE",
    ]
    assert row.split()[:-1] == ["shown", "company", "16", "12", "20.5", "3"]


def test_what_is_not_said_has_the_documented_default(plane: ControlPlane) -> None:
    status, answer = queue_crds.create(plane, "plain", preemption={})
    assert status == 201, answer
    assert answer["spec"] == {
        "weight": 1,
        "priority": 0,
        "order": "Priority",
        "preemption": {
            "withinQueue": "LowerPriority", "reclaim": "Any", "reclaimable": True,
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"weight": -1}, "spec.weight"),
        ({"weight": "heavy"}, "spec.weight"),
        ({"weight": 9e18}, "spec.weight"),
        ({"priority": 2**33}, "spec.priority"),
        ({"guaranteed": {"cpu": "-1"}}, "spec.guaranteed.cpu"),
        ({"guaranteed": {"cpu": -1}}, "spec.guaranteed.cpu"),
        ({"limit": {"cpu": "many"}}, "spec.limit.cpu"),
        ({"limit": {"cpu": "1e4000"}}, "spec.limit.cpu"),
        ({"limit": {f"r{n}": 1 for n in range(65)}}, "spec.limit"),
        ({"minRunTime": "soon"}, "spec.minRunTime"),
        ({"minRunTime": "-5m"}, "spec.minRunTime"),
        ({"order": "Random"}, "spec.order"),
        ({"preemption": {"withinQueue": "Any"}}, "spec.preemption.withinQueue"),
        ({"budgets": [{"period": "Year", "gpuHours": 1}]}, "spec.budgets[0].period"),
        ({"budgets": [{"period": "Day", "gpuHours": -1}]}, "spec.budgets[0].gpuHours"),
        ({"namespaces": ["a", "a"]}, "spec.namespaces[1]"),
        ({"parent": "refused"}, "a queue cannot be its own parent"),
        (
            {"limit": {"nvidia.com/gpu": 4}, "guaranteed": {"nvidia.com/gpu": "4.5"}},
            "a limit is below what is guaranteed",
        ),
    ],
)
def test_the_schema_refuses_what_makes_no_sense(
    plane: ControlPlane, spec: dict[str, Any], why: str
) -> None:
    status, answer = queue_crds.create(plane, "refused", **spec)
    assert status == 422, answer
    assert why in answer["message"]
