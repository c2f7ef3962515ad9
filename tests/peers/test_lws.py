"""LeaderWorkerSets whose controller describes each group as a gang of Volcano."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.sim.controlplane import ChildProcess, ControlPlane
from fairleads import Pods, Running, eventually, fairlead
from peer_controllers import EXAMPLES, Peers, items, post

Json = dict[str, Any]
_CONFIG = {
    "apiVersion": "config.lws.x-k8s.io/v1alpha1",
    "kind": "Configuration",
    "gangSchedulingManagement": {"schedulerProvider": "volcano"},
}


@pytest.fixture(scope="module")
def controller(peers: Peers) -> ChildProcess:
    peers.define("vc-controller-manager")  # the kinds alone
    label = "leaderworkerset.sigs.k8s.io/name"
    return peers.start_with_webhooks("lws-controller", _CONFIG, label)


@pytest.fixture(autouse=True)
def scheduler(control_plane: ControlPlane, controller: ChildProcess) -> Iterator[Running]:
    config = EXAMPLES / "volcano" / "fairlead.yaml"
    admin = control_plane.kubeconfig_for()
    with fairlead(control_plane, "--config", str(config), kubeconfig=admin) as running:
        yield running


def create(plane: ControlPlane, namespace: str, size: int, startup: str) -> None:
    resources = {"nvidia.com/gpu": "8"}
    container = {
        "name": "c", "image": "x", "resources": {"requests": resources, "limits": resources},
    }  # fmt: skip
    template = {"spec": {"schedulerName": "volcano", "containers": [container]}}
    body = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve"},
        "spec": {
            "replicas": 1,
            "startupPolicy": startup,
            "leaderWorkerTemplate": {"size": size, "workerTemplate": template},
        },
    }
    root = f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{namespace}/leaderworkersets"
    post(plane, root, body)


def phases(plane: ControlPlane, namespace: str) -> set[str]:
    path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"
    found = items(plane, path).values()
    return {str(each.get("status", {}).get("phase", "")) for each in found}


@pytest.mark.parametrize("startup", ["LeaderCreated", "LeaderReady"])
def test_a_group_runs_whole(control_plane: ControlPlane, namespace: str, startup: str) -> None:
    create(control_plane, namespace, 4, startup)
    pods = Pods(control_plane, namespace)
    eventually(
        lambda: len(nodes := pods.nodes()) == 4 and all(nodes.values()), what="four pods bound"
    )
    eventually(lambda: phases(control_plane, namespace) == {"Running"})


def test_a_group_that_does_not_fit_binds_nothing(
    control_plane: ControlPlane, namespace: str
) -> None:
    create(control_plane, namespace, 5, "LeaderCreated")
    pods = Pods(control_plane, namespace)
    eventually(lambda: len(pods.nodes()) == 5, what="five pods")
    for name in pods.nodes():
        eventually(
            lambda name=name: pods.condition(name).get("reason") == "Unschedulable", what=name
        )
    assert not any(pods.nodes().values())
