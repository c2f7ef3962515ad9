"""Queues and the webhook on a real API server: what is refused, and in which words."""

from collections.abc import Iterator
from typing import Any

import pytest

import queue_crds
from fairlead.sim.controlplane import ControlPlane
from fairleads import eventually
from webhooks import configured, free_port, pod, webhook

pytestmark = pytest.mark.server

TRIED = "/api/v1/namespaces/default/pods?dryRun=All"
GPUS = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def plane(real_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A webhook that has heard of queues."""
    port = free_port()
    with (
        queue_crds.installed(real_plane),
        configured(real_plane, port),
        webhook(real_plane, port),
    ):
        refused = {"fairlead.dev/queue": "nothing"}
        eventually(lambda: tried(real_plane, refused)[0] == 422, what="the webhook knows queues")
        tree: dict[str, dict[str, Any]] = {
            "company": {"guaranteed": {GPUS: 16}},
            "research": {"parent": "company", "guaranteed": {GPUS: 10}},
            "closed": {"namespaces": ["team-a"]},
            "below": {"parent": "closed"},
        }
        for name, spec in tree.items():
            status, answer = queue_crds.create(real_plane, name, **spec)
            assert status == 201, answer
        yield real_plane


def tried(plane: ControlPlane, labels: dict[str, str]) -> tuple[int, dict[str, Any]]:
    body = pod("tried")
    body["metadata"]["labels"] = labels
    return plane.api("POST", TRIED, body)


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        ("typo", "the queue typo does not exist; create it, or change fairlead.dev/queue of the"),
        ("closed", "pods of namespace default may not use queue closed; change fairlead.dev/queue"),
        ("below", "pods of namespace default may not use queue closed; change fairlead.dev/queue"),
    ],
)
def test_a_pod_that_cannot_use_its_queue_is_refused(
    plane: ControlPlane, queue: str, why: str
) -> None:
    status, answer = tried(plane, {"fairlead.dev/queue": queue})
    assert status == 422, answer
    assert why in answer["message"]


def test_other_pods_are_created(plane: ControlPlane) -> None:
    for labels in ({}, {"fairlead.dev/queue": "research"}, {"kai.scheduler/queue": "nothing"}):
        assert tried(plane, labels)[0] == 201
    # Of other schedulers nothing is asked.
    body = pod("foreign", scheduler="default-scheduler")
    body["metadata"]["labels"] = {"fairlead.dev/queue": "nothing"}
    assert plane.api("POST", TRIED, body)[0] == 201


def test_a_queue_is_known_at_once(plane: ControlPlane) -> None:
    for number in range(10):
        name = f"new-{number}"
        assert queue_crds.create(plane, name, parent="company")[0] == 201
        status, answer = tried(plane, {"fairlead.dev/queue": name})
        assert status == 201, answer


@pytest.mark.parametrize(
    ("name", "spec", "why"),
    [
        ("lost", {"parent": "typo"}, "names the parent typo, which does not exist"),
        (
            "second",
            {"parent": "company", "guaranteed": {GPUS: 7}},
            "the queues beneath company are guaranteed 17 nvidia.com/gpu together, and company",
        ),
        ("long", {"minRunTime": "1.h2.m"}, ""),
    ],
)
def test_a_queue_that_makes_no_sense_is_refused(
    plane: ControlPlane, name: str, spec: dict[str, Any], why: str
) -> None:
    status, answer = queue_crds.create(plane, name, **spec)
    assert status == (422 if why else 201), answer
    assert why in answer.get("message", "")


def test_a_change_that_makes_no_sense_is_refused(plane: ControlPlane) -> None:
    merge = "application/merge-patch+json"

    def changed(name: str, **spec: Any) -> tuple[int, dict[str, Any]]:
        path = f"{queue_crds.QUEUES}/{name}"
        return plane.api("PATCH", path, {"spec": spec}, content_type=merge)

    status, answer = changed("company", parent="research")
    assert status == 422
    assert "the queues company, research are parents of each other" in answer["message"]
    status, answer = changed("company", guaranteed={GPUS: 9})
    assert status == 422
    assert "are guaranteed 10 nvidia.com/gpu together, and company itself 9" in answer["message"]
    assert changed("company", guaranteed={GPUS: 12})[0] == 200


def test_a_queue_in_use_may_be_deleted(plane: ControlPlane) -> None:
    assert queue_crds.create(plane, "short")[0] == 201
    assert plane.api("DELETE", f"{queue_crds.QUEUES}/short")[0] == 200
    eventually(lambda: tried(plane, {"fairlead.dev/queue": "short"})[0] == 422)
