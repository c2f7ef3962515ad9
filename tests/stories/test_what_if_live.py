"""What-if on a real API server equals what then happens when nothing else does."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, PATIENCE_S, Pods, eventually, fairlead
from preloaded import run
from yaml_texts import yaml_of

GPU = "nvidia.com/gpu"


def asked(plane: ControlPlane, pods: Pods, *options: str, status: int = 0) -> dict[str, Any]:
    done = run(
        [str(FAIRLEAD), "what-if", "-o", "json", "-n", pods.namespace, "--kubeconfig",
         str(plane.kubeconfig_for()), *options], timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def listed(plane: ControlPlane, command: str, *words: str) -> Any:
    options = ["--start"] if command == "queue" else []
    done = run(
        [str(FAIRLEAD), command, *words, *options, "-o", "json",
         "--kubeconfig", str(plane.kubeconfig_for())], timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def manifest(tmp_path: Path, pods: Pods, name: str, gpus: int, **spec: Any) -> Path:
    resources = {"limits": {GPU: str(gpus)}}
    container = {"name": "main", "image": "x", "resources": resources}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": pods.namespace},
        "spec": {"schedulerName": "gpu-scheduler", "containers": [container], **spec},
    }
    file = tmp_path / f"{name}.yaml"
    file.write_text(yaml.safe_dump(body))
    return file


def by_unit(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {each["unit"].rpartition("/")[2]: each for each in answer["units"]}


def create(plane: ControlPlane, pods: Pods, file: Path) -> None:
    status, said = plane.api("POST", pods.path, yaml_of(file))
    assert status == 201, said


@pytest.mark.real
def test_what_if_equals_what_then_happens(
    control_plane: ControlPlane, pods: Pods, create_nodes, tmp_path: Path
) -> None:
    create_nodes(["a", "b"], allocatable={GPU: "8"})
    with fairlead(control_plane):
        for name in ("one", "two"):
            pods.create(name, gpus=5, terminationGracePeriodSeconds=0)
        pods.wait_bound("one", "two")
        before = pods.nodes()

        small = manifest(tmp_path, pods, "small", 2)
        said = by_unit(asked(control_plane, pods, "-f", str(small)))["small"]
        assert pods.nodes() == before, "asking changes nothing"
        create(control_plane, pods, small)
        assert [pods.wait_bound("small")["small"]] == said["after"]["nodes"]

        large = manifest(tmp_path, pods, "large", 8, priorityClassName="system-cluster-critical")
        found = by_unit(asked(control_plane, pods, "-f", str(large)))
        evicted = {name for name, each in found.items() if each["effect"] == "evicted"}
        create(control_plane, pods, large)
        assert [pods.wait_bound("large")["large"]] == found["large"]["after"]["nodes"]
        assert evicted == {"one", "two", "small"} - pods.nodes().keys()
        assert evicted

        waits = manifest(tmp_path, pods, "waits", 8)
        asked(control_plane, pods, "-f", str(waits), status=3)
        create(control_plane, pods, waits)
        pods.wait_refused("waits")
        more = by_unit(asked(control_plane, pods, "--add-nodes", "1", "--like", "a"))["waits"]
        assert more["effect"] == "starts"
        create_nodes(more["after"]["nodes"], allocatable={GPU: "8"})
        assert [pods.wait_bound("waits")["waits"]] == more["after"]["nodes"]


def test_starts_in_the_future_are_those_that_happen_when_pods_end(
    control_plane: ControlPlane, pods: Pods, create_nodes, tmp_path: Path
) -> None:
    create_nodes(["only"], allocatable={GPU: "8"})
    runs = {"short": "10m", "long": "3h"}
    with fairlead(control_plane):
        for name, run_time in runs.items():
            words = {"annotations": {"fairlead.dev/run-time": run_time}}
            pods.create(name, gpus=4, metadata=words, terminationGracePeriodSeconds=0)
        pods.wait_bound(*runs)
        pods.create("first", gpus=4, metadata={"annotations": {"fairlead.dev/run-time": "1h"}})
        pods.wait_refused("first")
        job = manifest(tmp_path, pods, "second", 4)
        found = by_unit(asked(control_plane, pods, "-f", str(job)))
        starts = {name: each["after"]["start"] for name, each in found.items()}
        assert starts["first"] < starts["second"]
        create(control_plane, pods, job)
        pods.wait_refused("second")
        rows = {row["unit"].rpartition("/")[2]: row for row in listed(control_plane, "queue")}
        assert rows["first"]["earliest"] < rows["first"]["start"] < rows["first"]["latest"]
        assert rows["first"]["start"] < rows["second"]["start"]
        told = listed(control_plane, "explain", f"{pods.namespace}/first")
        assert told["start"]["waitsFor"] == [f"{pods.namespace}/short"]
        assert told["start"]["message"].startswith("start: between ")
        pods.delete("short")  # it has ended
        pods.wait_bound("first")
        assert not pods.node("second")
        pods.delete("first")
        eventually(lambda: pods.node("second") == found["second"]["after"]["nodes"][0])
