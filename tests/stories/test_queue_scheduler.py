"""Queues with a running scheduler on a real API server."""

from collections.abc import Iterator
from typing import Any

import pytest

import queue_crds
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead

GPU, QUEUE, CHARGED = "nvidia.com/gpu", "fairlead.dev/queue", "fairlead.dev/charged-queue"
MERGE = "application/merge-patch+json"


@pytest.fixture
def plane(control_plane: ControlPlane, create_nodes: Any) -> Iterator[ControlPlane]:
    create_nodes(1, prefix="queues-", allocatable={GPU: "8"})
    with queue_crds.installed(control_plane):
        yield control_plane


def named(queue: str) -> dict[str, Any]:
    return {"labels": {QUEUE: queue}}


def used(plane: ControlPlane, name: str) -> str:
    status = plane.api("GET", f"{queue_crds.QUEUES}/{name}")[1].get("status") or {}
    return str((status.get("used") or {}).get(GPU, "0"))


def message(pods: Pods, name: str) -> str:
    found = pods.get(name)["status"].get("conditions") or []
    return next((each.get("message", "") for each in found if each["type"] == "PodScheduled"), "")


def test_a_limit_holds_whatever_is_edited_and_restarted(
    plane: ControlPlane, namespace: str
) -> None:
    for name in ("research", "other"):
        assert queue_crds.create(plane, name, limit={GPU: 2})[0] == 201
    pods = Pods(plane, namespace)
    admin = plane.kubeconfig_for()
    with fairlead(plane, kubeconfig=admin):
        for name in ("a", "b"):
            pods.create(name, gpus=1, metadata=named("research"))
            pods.wait_bound(name)
        pods.create("c", gpus=1, metadata=named("research"))
        eventually(lambda: "limit of 2 nvidia.com/gpu" in message(pods, "c"))
        assert pods.get("a")["metadata"]["annotations"][CHARGED] == "fairlead/research"
        eventually(lambda: used(plane, "research") == "2", what="the status is written")
        path = f"/api/v1/namespaces/{namespace}/pods/a"
        body = {"metadata": named("other")}
        assert plane.api("PATCH", path, body, content_type=MERGE)[0] == 200
        eventually(lambda: pods.events("a", "QueueChangeIgnored"), what="the user is told")
    with fairlead(plane, kubeconfig=admin):
        pods.create("d", gpus=1, metadata=named("research"))
        eventually(lambda: "2 used, 1 requested" in message(pods, "d"))
        # Deleting a queue in use: what runs stays, what waits says why.
        assert plane.api("DELETE", f"{queue_crds.QUEUES}/research")[0] == 200
        pods.create("e", gpus=1, metadata=named("research"))
        eventually(lambda: "the queue research does not exist" in message(pods, "e"))
        assert all(pods.get(name)["spec"].get("nodeName") for name in ("a", "b"))
        assert queue_crds.create(plane, "research", limit={GPU: 5})[0] == 201
        for name in ("c", "d", "e"):
            pods.wait_bound(name)


def test_words_of_queues_that_are_not_installed_have_no_effect(
    plane: ControlPlane, namespace: str
) -> None:
    pods = Pods(plane, namespace)
    with fairlead(plane, kubeconfig=plane.kubeconfig_for()):
        pods.create("kai", gpus=1, metadata={"labels": {"kai.scheduler/queue": "team"}})
        pods.create("volcano", gpus=1, metadata={"labels": {"volcano.sh/queue-name": "team"}})
        pods.wait_bound("kai")
        pods.wait_bound("volcano")
