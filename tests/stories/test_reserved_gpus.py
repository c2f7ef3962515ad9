"""Shares beside NVIDIA's device plugin, on a real API server; the test plays kubelet and plugin."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from autoscaler_rules import gpu_utilisation
from fairlead.kube.reservations import LABEL, reservation_name
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, Running, eventually, fairlead

MERGE = "application/merge-patch+json"
GPU = "nvidia.com/gpu"
HALF = {"fairlead.dev/gpu-share": "0.5"}


class Kubelet:
    """That of one node, with a device plugin that picks the GPUs."""

    def __init__(self, pods: Pods, node: str) -> None:
        self.pods = pods
        self.node = node

    def reservations(self) -> list[dict[str, Any]]:
        """Reservation pods, in the order of their numbers."""
        path = f"{self.pods.path}?labelSelector={LABEL.replace('/', '%2F')}"
        found = self.pods.plane.api("GET", path)[1]["items"]
        return sorted(found, key=lambda pod: int(pod["metadata"]["labels"][LABEL]))

    def wait(self, count: int) -> list[dict[str, Any]]:
        return eventually(
            lambda: (len(found := self.reservations()) == count and found) or count == 0
        )

    def report(self, number: int, uuid: str) -> None:
        """The init container has ended, and said which GPU it had."""
        ended = {"exitCode": 0, "message": uuid, "reason": "Completed"}
        init = {
            "name": "report", "state": {"terminated": ended}, "ready": True, "restartCount": 0,
            "image": "x", "imageID": "x",
        }  # fmt: skip
        self._patch(number, {"phase": "Running", "initContainerStatuses": [init]})

    def reject(self, number: int, message: str) -> None:
        reason = "UnexpectedAdmissionError"
        self._patch(number, {"phase": "Failed", "reason": reason, "message": message})

    def end_deleted(self) -> bool:
        """Ends the containers of pods that are being deleted; whether none is left."""
        for pod in self.reservations():
            if pod["metadata"].get("deletionTimestamp"):
                self.pods.delete(pod["metadata"]["name"])
        return not self.reservations()

    def _patch(self, number: int, status: dict[str, Any]) -> None:
        path = f"{self.pods.path}/{reservation_name(self.node, number)}/status"
        answer = self.pods.plane.api("PATCH", path, {"status": status}, content_type=MERGE)
        assert answer[0] == 200, answer


@pytest.fixture
def kubelet(pods: Pods, create_nodes: Callable[..., list[str]], namespace: str) -> Kubelet:
    labels = {"only": namespace}
    (node,) = create_nodes([f"stock-{namespace}"], allocatable={GPU: "2"}, labels=labels)
    return Kubelet(pods, node)


@contextmanager
def scheduling(plane: ControlPlane, namespace: str) -> Iterator[Running]:
    options = ("--reservation-image", "fairlead:test", "--reservation-namespace", namespace)
    with fairlead(
        plane, *options, "--reservation-grace", "1s", kubeconfig=plane.kubeconfig_for()
    ) as running:
        yield running


@pytest.fixture
def scheduler(control_plane: ControlPlane, namespace: str) -> Iterator[Running]:
    with scheduling(control_plane, namespace) as running:
        yield running


def ask(pods: Pods, name: str, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    where = {"only": pods.namespace}
    pods.create(name, metadata={"annotations": annotations or HALF}, nodeSelector=where, **spec)


def gpu_of(pods: Pods, name: str) -> str:
    return pods.get(name)["metadata"]["annotations"]["fairlead.dev/gpus"]


def test_a_gpu_is_reserved_shared_and_given_back(
    pods: Pods, kubelet: Kubelet, scheduler: Running
) -> None:
    ask(pods, "one")
    ask(pods, "two")
    (reservation,) = kubelet.wait(1)
    assert reservation["spec"]["nodeName"] == kubelet.node
    assert not pods.node("one"), "its GPU is not known yet"

    kubelet.report(0, "GPU-00000000-aaaa")
    pods.wait_bound("one", "two")
    assert {gpu_of(pods, name) for name in ("one", "two")} == {"GPU-00000000-aaaa"}
    assert scheduler.metric("fairlead_gpu_reservations", state="shared") == 1
    seen = gpu_utilisation(pods.plane, kubelet.node)
    assert seen == 0.5, "the shares request no GPU, their reservation does"

    pods.create("whole", gpus=2, nodeSelector={"only": pods.namespace})
    assert "Insufficient nvidia.com/gpu" in pods.wait_refused("whole")["message"]
    pods.delete("one")
    pods.delete("two")
    eventually(kubelet.end_deleted)
    pods.wait_bound("whole")


def test_a_reservation_that_the_kubelet_rejects_is_removed_and_tried_again(
    pods: Pods, kubelet: Kubelet, scheduler: Running
) -> None:
    ask(pods, "one")
    kubelet.wait(1)
    kubelet.reject(0, "Allocate failed due to requested number of devices unavailable")
    eventually(lambda: pods.events("one", "FailedScheduling"))
    said = eventually(lambda: pods.events("one", "FailedScheduling"))[0]["note"]
    assert "UnexpectedAdmissionError" in said

    def again() -> bool:
        found = kubelet.reservations()
        return bool(found) and found[0]["status"]["phase"] == "Pending"

    eventually(again)
    kubelet.report(0, "GPU-00000000-aaaa")
    pods.wait_bound("one")


def test_a_restart_finds_the_reservation_at_every_point(
    pods: Pods, kubelet: Kubelet, control_plane: ControlPlane, namespace: str
) -> None:
    with scheduling(control_plane, namespace):
        ask(pods, "one")
        kubelet.wait(1)
    with scheduling(control_plane, namespace):
        kubelet.report(0, "GPU-00000000-aaaa")
        pods.wait_bound("one")
        assert len(kubelet.reservations()) == 1
    ask(pods, "two")
    with scheduling(control_plane, namespace):
        pods.wait_bound("two")
        assert gpu_of(pods, "two") == "GPU-00000000-aaaa"
    pods.delete("one")
    pods.delete("two")
    with scheduling(control_plane, namespace):
        eventually(kubelet.end_deleted)


def test_a_pod_that_is_deleted_while_it_waits_leaves_nothing(
    pods: Pods, kubelet: Kubelet, scheduler: Running
) -> None:
    ask(pods, "one")
    kubelet.wait(1)
    pods.delete("one")
    eventually(kubelet.end_deleted)
    eventually(lambda: scheduler.metric("fairlead_gpu_reservations", state="pending") == 0)


def test_the_shares_of_a_reservation_that_was_deleted_are_reported(
    pods: Pods, kubelet: Kubelet, scheduler: Running
) -> None:
    ask(pods, "one")
    kubelet.wait(1)
    kubelet.report(0, "GPU-00000000-aaaa")
    pods.wait_bound("one")
    pods.delete(reservation_name(kubelet.node, 0))
    (event,) = eventually(lambda: pods.events("one", "GPUReservationLost"))
    assert "GPU-00000000-aaaa" in event["note"]
    assert scheduler.metric("fairlead_pod_warnings_total", reason="GPUReservationLost") == 1


@pytest.mark.real
def test_without_the_right_to_create_pods_the_refusal_says_so(
    pods: Pods, kubelet: Kubelet, control_plane: ControlPlane, namespace: str
) -> None:
    options = ("--reservation-image", "x", "--reservation-namespace", namespace)
    with fairlead(control_plane, *options):
        ask(pods, "one")
        said = eventually(lambda: pods.events("one", "FailedScheduling"))[0]["note"]
    assert "cannot create resource" in said
    assert json.dumps(kubelet.reservations()) == "[]"
