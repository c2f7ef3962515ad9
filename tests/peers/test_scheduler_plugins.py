"""PodGroups of scheduler-plugins: its controller writes phases, Fairlead places the pods."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.sim.controlplane import ChildProcess, ControlPlane
from fairleads import Pods, Running, eventually, fairlead
from peer_controllers import EXAMPLES, Peers, items, post

Json = dict[str, Any]
_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/podgroups"


@pytest.fixture(scope="module")
def controller(peers: Peers) -> ChildProcess:
    return peers.start(
        "scheduler-plugins-controller",
        lambda kubeconfig: [
            f"--kubeconfig={kubeconfig}",
            "--metricsAddr=0",
            "--probeAddr=0",
        ],
    )


@pytest.fixture(autouse=True)
def scheduler(control_plane: ControlPlane, controller: ChildProcess) -> Iterator[Running]:
    config = EXAMPLES / "scheduler-plugins" / "fairlead.yaml"
    admin = control_plane.kubeconfig_for()
    with fairlead(control_plane, "--config", str(config), kubeconfig=admin) as running:
        yield running


def test_the_phases_of_a_gang_follow_its_pods(control_plane: ControlPlane, namespace: str) -> None:
    path, pods = _GROUPS.format(namespace), Pods(control_plane, namespace)

    def phase() -> str:
        return str(items(control_plane, path)["train"].get("status", {}).get("phase", ""))

    post(control_plane, path, {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": "train"}, "spec": {"minMember": 2},
    })  # fmt: skip
    meta: Json = {"labels": {"scheduling.x-k8s.io/pod-group": "train"}}
    pods.create("a", gpus=8, scheduler="scheduler-plugins-scheduler", metadata=meta)
    eventually(lambda: phase() == "Pending", what="Pending, with one pod of two")
    assert not pods.node("a")
    meta = {**meta, "annotations": {"fairlead.dev/run-for": "2s"}}
    pods.create("b", gpus=8, scheduler="scheduler-plugins-scheduler", metadata=meta)
    pods.wait_bound("a", "b")
    eventually(lambda: phase() == "Running", what="Running, with both")
