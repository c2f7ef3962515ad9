"""JobSets with one Job in each rack: their pods come only after the first of each Job is bound."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.sim.controlplane import ChildProcess, ControlPlane
from fairleads import Pods, Running, eventually, fairlead
from peer_controllers import Peers, post

Json = dict[str, Any]
_CONFIG = {"apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration"}


@pytest.fixture(scope="module")
def controller(peers: Peers) -> ChildProcess:
    label = "jobset.sigs.k8s.io/jobset-name"
    return peers.start_with_webhooks("jobset-controller", _CONFIG, label)


@pytest.fixture(autouse=True)
def scheduler(control_plane: ControlPlane, controller: ChildProcess) -> Iterator[Running]:
    with fairlead(control_plane, kubeconfig=control_plane.kubeconfig_for()) as running:
        yield running


def jobset(name: str, jobs: int, pods: int, **annotations: str) -> Json:
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    template = {
        "spec": {
            "schedulerName": "gpu-scheduler", "restartPolicy": "Never", "containers": [container],
        },
    }  # fmt: skip
    job = {"spec": {"parallelism": pods, "completions": pods, "template": template}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"replicatedJobs": [{"name": "workers", "replicas": jobs, "template": job}]},
    }


def test_a_job_in_each_rack_starts_with_its_leader(
    control_plane: ControlPlane, namespace: str
) -> None:
    body = jobset(
        "exclusive", 2, 2, **{"alpha.jobset.sigs.k8s.io/exclusive-topology": "example.com/rack"}
    )
    root = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"
    post(control_plane, root, body)
    pods = Pods(control_plane, namespace)
    eventually(
        lambda: len(nodes := pods.nodes()) == 4 and all(nodes.values()), what="four pods bound"
    )
    racks = {(name.split("-")[2], node.split("-")[1]) for name, node in pods.nodes().items()}
    assert len(racks) == 2, "each Job is in one rack, and each in another"
