"""Consolidation on the real API server, with the real ReplicaSet controller."""

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, Pods, eventually, fairlead
from preloaded import run

MERGE = "application/merge-patch+json"
CONFIG = """\
apiVersion: fairlead.dev/v1alpha1
kind: SchedulerConfiguration
consolidation: {enabled: true, after: 1s, minRunTime: 1m}
"""


@pytest.fixture
def controllers(control_plane: ControlPlane) -> Iterator[None]:
    names = ["replicaset-controller", "disruption-controller"]
    with control_plane.start_controller_manager(names):
        yield


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    return file


def defrag(plane: ControlPlane, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(FAIRLEAD), "defrag", "--plan", *words]
    command += ["--kubeconfig", str(plane.kubeconfig_for())]
    return run(command)


def replica_set(pods: Pods, name: str, replicas: int) -> None:
    """Pods of one GPU, which end at once when they are deleted: there is no kubelet."""
    container = {"name": "m", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {
        "schedulerName": "gpu-scheduler",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    body = {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }
    path = f"/apis/apps/v1/namespaces/{pods.namespace}/replicasets"
    status, answer = pods.plane.api("POST", path, body)
    assert status == 201, answer


def bind(pods: Pods, name: str, node: str) -> None:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    status, answer = pods.plane.api("POST", f"{pods.path}/{name}/binding", body)
    assert status == 201, answer


def run_for_a_while(pods: Pods) -> dict[str, str]:
    """What kubelets would report; nodes by pod."""
    began = (datetime.now(UTC) - timedelta(minutes=20)).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "startTime": began, "conditions": ready}
    nodes = pods.nodes()
    for name in nodes:
        path = f"{pods.path}/{name}/status"
        code, answer = pods.plane.api("PATCH", path, {"status": status}, content_type=MERGE)
        assert code == 200, answer
    return nodes


def bound(pods: Pods, count: int) -> dict[str, str]:
    def all_bound() -> dict[str, str] | None:
        nodes = pods.nodes()
        return nodes if len(nodes) == count and all(nodes.values()) else None

    found: dict[str, str] = eventually(all_bound)
    return found


@pytest.mark.usefixtures("controllers")
def test_pods_move_and_run_again_and_the_waiting_pod_starts(
    control_plane: ControlPlane, create_nodes: Any, pods: Pods, config: Path
) -> None:
    create_nodes(["d1", "d2", "d3"], allocatable={"nvidia.com/gpu": "4"})
    replica_set(pods, "web", 9)
    names = eventually(lambda: len(pods.nodes()) == 9 and sorted(pods.nodes()))
    for number, name in enumerate(names):  # one GPU stays free on each node
        bind(pods, name, f"d{number % 3 + 1}")
    before = run_for_a_while(pods)
    pods.create("big", 3, terminationGracePeriodSeconds=0)
    _check_plan(control_plane, pods, before)
    admin = control_plane.kubeconfig_for()
    with fairlead(control_plane, "--config", str(config), kubeconfig=admin) as running:
        after = bound(pods, 10)
        moved = before.keys() - after.keys()
        assert len(moved) == 2
        assert {before[name] for name in moved} == {after["big"]}
        for name in moved:
            assert eventually(lambda name=name: pods.events(name, "Consolidated"))
        assert eventually(lambda: pods.events("big", "Consolidated"))
        assert running.metric("fairlead_consolidation_moves_total") == len(moved)


def _check_plan(plane: ControlPlane, pods: Pods, before: dict[str, str]) -> None:
    done = defrag(plane, "--for", f"{pods.namespace}/big", "-o", "json")
    assert done.returncode == 0, done.stderr
    [told] = json.loads(done.stdout)
    assert told["helps"], told
    [start] = told["starts"]
    assert {before[move["pod"].partition("/")[2]] for move in told["moves"]} == {start["node"]}
    assert told["gpusMoved"] == 2
    assert told["gpuSecondsLost"] < told["gpuSecondsGained"]
    explained = [str(FAIRLEAD), "explain", f"{pods.namespace}/big"]
    explained += ["--kubeconfig", str(plane.kubeconfig_for())]
    command = f"fairlead defrag --plan --for {pods.namespace}/big"
    offer = f"2 moves of running pods would let it run: {command}"
    assert offer in run(explained).stdout
    text = defrag(plane).stdout
    assert text.startswith(f"{pods.namespace}/big (3 GPUs) starts after "), text
