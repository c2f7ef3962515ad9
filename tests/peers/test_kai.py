"""Workloads that KAI's podgrouper groups, with Fairlead in the place of KAI's scheduler."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.sim.controlplane import ChildProcess, ControlPlane
from fairleads import Pods, Running, eventually, fairlead
from peer_controllers import EXAMPLES, Peers, create, items, post

Json = dict[str, Any]
_GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups"
_QUEUES = "/apis/scheduling.run.ai/v2/queues"
_PYTORCH = "/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def podgrouper(peers: Peers, control_plane: ControlPlane) -> ChildProcess:
    """As KAI starts it."""
    _define_pytorch_jobs(control_plane)
    return peers.start(
        "kai-podgrouper",
        lambda kubeconfig: [
            f"--kubeconfig={kubeconfig}",
            "--scheduler-name=kai-scheduler",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
        ],
    )


@pytest.fixture(autouse=True)
def scheduler(control_plane: ControlPlane, podgrouper: ChildProcess) -> Iterator[Running]:
    config = EXAMPLES / "kai" / "fairlead.yaml"
    admin = control_plane.kubeconfig_for()
    with fairlead(control_plane, "--config", str(config), kubeconfig=admin) as running:
        yield running


def _define_pytorch_jobs(plane: ControlPlane) -> None:
    """The kind alone: what its controller would create is created by the test."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    body = {
        "metadata": {"name": "pytorchjobs.kubeflow.org"},
        "spec": {
            "group": "kubeflow.org",
            "scope": "Namespaced",
            "names": {"plural": "pytorchjobs", "kind": "PyTorchJob"},
            "versions": [
                {"name": "v1", "served": True, "storage": True,
                 "schema": {"openAPIV3Schema": anything}}
            ],
        },
    }  # fmt: skip
    plane.api("POST", _CRDS, body)


def pytorch_job(plane: ControlPlane, namespace: str, name: str, workers: int) -> Json:
    """Its owner reference."""
    replicas = {"Master": {"replicas": 1}, "Worker": {"replicas": workers}}
    body = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": replicas},
    }
    path = _PYTORCH.format(namespace)
    eventually(lambda: plane.api("GET", path)[0] == 200)
    made = post(plane, path, body)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "name": name,
        "uid": made["metadata"]["uid"],
        "controller": True,
    }


def member(pods: Pods, name: str, owner: Json) -> None:
    pods.create(name, gpus=8, scheduler="kai-scheduler", metadata={"ownerReferences": [owner]})


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Pods:
    return Pods(control_plane, namespace)


def test_a_gang_is_bound_when_its_last_pod_is_there(
    control_plane: ControlPlane, namespace: str, pods: Pods
) -> None:
    owner = pytorch_job(control_plane, namespace, "train", workers=3)
    for number in range(3):
        pods.create(
            f"train-{number}",
            gpus=8,
            scheduler="kai-scheduler",
            metadata={"ownerReferences": [owner]},
        )
    group = eventually(lambda: items(control_plane, _GROUPS.format(namespace)))
    assert [each["spec"]["minMember"] for each in group.values()] == [4]
    waiting = "waits for its pods"
    eventually(lambda: waiting in pods.condition("train-0").get("message", ""), what=waiting)
    assert not any(pods.nodes().values())
    member(pods, "train-3", owner)
    nodes = pods.wait_bound(*(f"train-{number}" for number in range(4)))
    assert len(set(nodes.values())) == 4


def test_a_gang_that_does_not_fit_binds_nothing_and_its_group_says_why(
    control_plane: ControlPlane, namespace: str, pods: Pods
) -> None:
    owner = pytorch_job(control_plane, namespace, "large", workers=4)
    for number in range(5):
        pods.create(
            f"large-{number}",
            gpus=8,
            scheduler="kai-scheduler",
            metadata={"ownerReferences": [owner]},
        )

    def condition() -> Json | None:
        groups = items(control_plane, _GROUPS.format(namespace)).values()
        found = [each.get("status", {}).get("schedulingConditions") for each in groups]
        return found[0][0] if found and found[0] else None

    found = eventually(condition, what="a scheduling condition")
    assert (found["type"], found["status"]) == ("UnschedulableOnNodePool", "True")
    assert "nvidia.com/gpu" in found["message"]
    assert not any(pods.nodes().values())


def test_the_example_of_the_migration_runs(
    control_plane: ControlPlane, namespace: str, pods: Pods
) -> None:
    create(control_plane, namespace, EXAMPLES / "kai" / "before.yaml")
    eventually(lambda: len(pods.nodes()) == 3 and all(pods.nodes().values()), what="three bound")
    groups = items(control_plane, _GROUPS.format(namespace)).values()
    assert {each["spec"]["minMember"] for each in groups} == {1}


def test_a_queue_limits_its_jobs_with_kais_meaning_of_unset(
    control_plane: ControlPlane, namespace: str, pods: Pods
) -> None:
    unlimited = {"quota": -1, "overQuotaWeight": 1, "limit": -1}
    everything = {"gpu": unlimited, "cpu": unlimited, "memory": unlimited}
    queues = {
        "org": {"resources": everything},
        "team": {"parentQueue": "org", "resources": everything | {"gpu": {"limit": 8}}},
        "unset": {"parentQueue": "org"},
    }
    for name, spec in queues.items():
        body = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "spec": spec}
        post(control_plane, _QUEUES, body | {"metadata": {"name": name}})

    def create(name: str, queue: str) -> None:
        label = {"kai.scheduler/queue": queue}
        pods.create(name, gpus=8, scheduler="kai-scheduler", metadata={"labels": label})

    create("first", "team")
    pods.wait_bound("first")
    for name, queue, why in (
        ("second", "team", "queue team has a limit of 8 nvidia.com/gpu: 8 used, 8 requested"),
        ("never", "unset", "queue unset has a limit of 0 nvidia.com/gpu"),
        ("inner", "org", "queue org has queues beneath it"),
        ("typo", "nothing", "the queue nothing does not exist"),
    ):
        create(name, queue)
        eventually(lambda name=name, why=why: why in pods.condition(name).get("message", ""))
    for name in queues:
        control_plane.api("DELETE", f"{_QUEUES}/{name}")
