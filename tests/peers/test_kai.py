"""Workloads that KAI's podgrouper groups, placed by Fairlead under its own scheduler name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.sim.controlplane import ChildProcess, ControlPlane
from fairleads import Pods, Running, eventually, fairlead
from peer_controllers import Peers, items, post

Json = dict[str, Any]
_GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups"
_PYTORCH = "/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def podgrouper(peers: Peers, control_plane: ControlPlane) -> ChildProcess:
    """With our scheduler name, as a site would start it."""
    _define_pytorch_jobs(control_plane)
    return peers.start(
        "kai-podgrouper",
        lambda kubeconfig: [
            f"--kubeconfig={kubeconfig}",
            "--scheduler-name=gpu-scheduler",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
        ],
    )


@pytest.fixture(autouse=True)
def scheduler(
    control_plane: ControlPlane, podgrouper: ChildProcess, tmp_path: Path
) -> Iterator[Running]:
    config = tmp_path / "fairlead.yaml"
    config.write_text(
        yaml.safe_dump({
            "apiVersion": "fairlead.dev/v1alpha1",
            "kind": "SchedulerConfiguration",
            "gangs": {"grouped": ["gpu-scheduler"]},
        })
    )  # fmt: skip
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


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Pods:
    return Pods(control_plane, namespace)


def test_a_gang_is_bound_when_its_last_pod_is_there(
    control_plane: ControlPlane, namespace: str, pods: Pods
) -> None:
    owner = pytorch_job(control_plane, namespace, "train", workers=3)
    for number in range(3):
        pods.create(f"train-{number}", gpus=8, metadata={"ownerReferences": [owner]})
    group = eventually(lambda: items(control_plane, _GROUPS.format(namespace)))
    assert [each["spec"]["minMember"] for each in group.values()] == [4]
    waiting = "waits for its pods"
    eventually(lambda: waiting in pods.condition("train-0").get("message", ""), what=waiting)
    assert not any(pods.nodes().values())
    pods.create("train-3", gpus=8, metadata={"ownerReferences": [owner]})
    nodes = pods.wait_bound(*(f"train-{number}" for number in range(4)))
    assert len(set(nodes.values())) == 4


def test_a_gang_that_does_not_fit_binds_nothing_and_its_group_says_why(
    control_plane: ControlPlane, namespace: str, pods: Pods
) -> None:
    owner = pytorch_job(control_plane, namespace, "large", workers=4)
    for number in range(5):
        pods.create(f"large-{number}", gpus=8, metadata={"ownerReferences": [owner]})

    def condition() -> Json | None:
        groups = items(control_plane, _GROUPS.format(namespace)).values()
        found = [each.get("status", {}).get("schedulingConditions") for each in groups]
        return found[0][0] if found and found[0] else None

    found = eventually(condition, what="a scheduling condition")
    assert (found["type"], found["status"]) == ("UnschedulableOnNodePool", "True")
    assert "nvidia.com/gpu" in found["message"]
    assert not any(pods.nodes().values())


def test_pods_of_a_plain_job_are_grouped_and_run(
    control_plane: ControlPlane, namespace: str, pods: Pods
) -> None:
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    template = {
        "metadata": {"annotations": {"fairlead.dev/run-for": "1s"}},
        "spec": {
            "schedulerName": "gpu-scheduler", "restartPolicy": "Never", "containers": [container],
        },
    }  # fmt: skip
    root = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    spec = {"parallelism": 3, "completions": 3, "template": template}
    post(control_plane, root, {"metadata": {"name": "batch"}, "spec": spec})

    def completed() -> bool:
        _, job = control_plane.api("GET", f"{root}/batch")
        return job.get("status", {}).get("succeeded") == 3

    eventually(completed, what="the Job completed")
    groups = items(control_plane, _GROUPS.format(namespace)).values()
    assert {each["spec"]["minMember"] for each in groups} == {1}
