"""Ray clusters whose operator describes them as gangs, in two of the APIs that it knows."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, Running, eventually, fairlead
from peer_controllers import EXAMPLES, Peers, items, post

Json = dict[str, Any]
#: By the name that `--batch-scheduler` knows: the kinds, and the group of its PodGroups.
APIS = {
    "scheduler-plugins": ("scheduler-plugins-controller", "scheduling.x-k8s.io/v1alpha1"),
    "volcano": ("vc-controller-manager", "scheduling.volcano.sh/v1beta1"),
}


@pytest.fixture(params=APIS)
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def operator(peers: Peers, namespace: str, api: str) -> Iterator[None]:
    """For this namespace alone, with the kinds of the API and without their controllers."""
    peers.define(APIS[api][0])
    with peers.running(
        "kuberay-operator",
        lambda kubeconfig: [
            f"--kubeconfig={kubeconfig}",
            f"--batch-scheduler={api}",
            f"--watch-namespace={namespace}",
            "--enable-leader-election=false",
            "--metrics-addr=0",
            "--health-probe-bind-address=0",
        ],
    ):
        yield


@pytest.fixture(autouse=True)
def scheduler(control_plane: ControlPlane, api: str, operator: None) -> Iterator[Running]:
    config, admin = EXAMPLES / api / "fairlead.yaml", control_plane.kubeconfig_for()
    with fairlead(control_plane, "--config", str(config), kubeconfig=admin) as running:
        yield running


def template(gpus: int) -> Json:
    amounts = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    resources = {"requests": amounts, "limits": amounts}
    return {"spec": {"containers": [{"name": "ray", "image": "x", "resources": resources}]}}


def ray_cluster(workers: int) -> Json:
    """A head without GPUs, and workers with eight each."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray", "labels": {"ray.io/gang-scheduling-enabled": "true"}},
        "spec": {
            "rayVersion": "2.46.0",
            "headGroupSpec": {"rayStartParams": {}, "template": template(0)},
            "workerGroupSpecs": [{
                "groupName": "gpus", "replicas": workers, "minReplicas": workers,
                "maxReplicas": workers, "rayStartParams": {}, "template": template(8),
            }],
        },
    }  # fmt: skip


@pytest.mark.parametrize(("workers", "fits"), [(3, True), (5, False)])
def test_a_ray_cluster_gets_its_nodes_whole_or_not_at_all(
    control_plane: ControlPlane, namespace: str, api: str, workers: int, fits: bool
) -> None:
    pods = Pods(control_plane, namespace)
    root = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters"
    post(control_plane, root, ray_cluster(workers))
    eventually(lambda: len(pods.nodes()) == workers + 1, what="the pods of the cluster")
    path = f"/apis/{APIS[api][1]}/namespaces/{namespace}/podgroups"
    groups = items(control_plane, path).values()
    assert [each["spec"]["minMember"] for each in groups] == [workers + 1]
    if fits:
        eventually(lambda: all(pods.nodes().values()), what="all pods bound")
        return
    for name in pods.nodes():
        condition = pods.wait_refused(name)
        assert condition["reason"] == "Unschedulable"
    assert not any(pods.nodes().values())
