"""`fairlead explain` finds the pod of a workload, as kubectl would."""

import subprocess
from typing import Any

from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, Pods
from preloaded import run


def explain(plane: ControlPlane, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(FAIRLEAD), "explain", *words, "--kubeconfig", str(plane.kubeconfig_for())]
    return run(command)


def template(labels: dict[str, str], scheduler: str = "gpu-scheduler") -> dict[str, Any]:
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "x"}]}
    return {"metadata": {"labels": labels}, "spec": spec}


def create(plane: ControlPlane, path: str, body: dict[str, Any]) -> None:
    status, answer = plane.api("POST", path, body)
    assert status == 201, answer


def test_a_deployment_and_a_pod_by_kind_and_namespace(
    control_plane: ControlPlane, pods: Pods, create_nodes
) -> None:
    """No controller runs here: the pods of the Deployment are made by hand."""
    create_nodes(["one"])
    name, labels = pods.namespace, {"app": "web"}
    selector = {"matchLabels": labels, "matchExpressions": [{"key": "app", "operator": "Exists"}]}
    body = {
        "metadata": {"name": "web"},
        "spec": {"selector": selector, "template": template(labels)},
    }
    create(control_plane, f"/apis/apps/v1/namespaces/{name}/deployments", body)
    told = explain(control_plane, "deploy/web", "-n", name)
    assert f"{name}/web has no pods" in told.stderr
    pods.create("web-a", metadata={"labels": labels}, nodeName="one")
    pods.create("web-b", gpus=99, metadata={"labels": labels})
    for words in (("deploy/web", "-n", name), ("pod/web-b", "-n", name), ("-n", name, "web-b")):
        done = explain(control_plane, *words)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{name}/web-b: 0/1 nodes are available")
    told = explain(control_plane, "job/none", "-n", name)
    assert told.stderr == "fairlead: no none found among the jobs of that namespace\n"


def test_a_scheduler_name_that_is_not_served(control_plane: ControlPlane, pods: Pods) -> None:
    pods.create("typo", scheduler="gpu-schedular")
    told = explain(control_plane, f"{pods.namespace}/typo").stderr
    assert "did you mean 'gpu-scheduler'? served: gpu-scheduler, toyscheduler" in told


def test_a_gang_by_its_name(control_plane: ControlPlane, pods: Pods, create_nodes) -> None:
    create_nodes(["one", "two"], allocatable={"nvidia.com/gpu": "4"})
    annotations = {"fairlead.dev/gang": "train", "fairlead.dev/gang-min": "3"}
    for number in range(3):
        pods.create(f"train-{number}", gpus=4, metadata={"annotations": annotations})
    for words in ("gang/train", "podgroup/train"):
        done = explain(control_plane, words, "-n", pods.namespace)
        assert done.returncode == 0, done.stderr
        assert f"gang {pods.namespace}/train: 2 of 3 pods fit" in done.stdout
        assert "what would help: it fits now with a minimum of 2 instead of 3" in done.stdout
    none = explain(control_plane, "gang/none", "-n", pods.namespace)
    assert f"gang {pods.namespace}/none has no pods" in none.stderr
