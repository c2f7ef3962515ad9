"""`fairlead sim --from-cluster` reads a real API server, and writes nothing to it."""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, Pods
from preloaded import run

MERGE = "application/merge-patch+json"


def sim(plane: ControlPlane, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(FAIRLEAD), "sim", "--from-cluster", *words]
    command += ["--kubeconfig", str(plane.kubeconfig_for())]
    return run(command)


def a_pod(pods: Pods, name: str, gpus: int, run_time: str = "") -> None:
    annotations = {"fairlead.dev/run-time": run_time} if run_time else {}
    pods.create(name, gpus, metadata={"annotations": annotations})


def running(pods: Pods, name: str, node: str, minutes: int) -> None:
    """It was bound, and its kubelet started it so long ago."""
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    assert pods.plane.api("POST", f"{pods.path}/{name}/binding", body)[0] == 201
    began = (datetime.now(UTC) - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"status": {"phase": "Running", "startTime": began}}
    code, answer = pods.plane.api("PATCH", f"{pods.path}/{name}/status", status, content_type=MERGE)
    assert code == 200, answer


@pytest.mark.real
def test_it_says_when_waiting_pods_start_under_each_policy(
    control_plane: ControlPlane, create_nodes: Any, pods: Pods
) -> None:
    create_nodes(["s1"], allocatable={"nvidia.com/gpu": "4"})
    a_pod(pods, "first", 4, "1h")
    running(pods, "first", "s1", minutes=20)
    a_pod(pods, "long", 4, "2h")
    a_pod(pods, "short", 4, "10m")
    versions = {name: pods.get(name)["metadata"]["resourceVersion"] for name in pods.nodes()}

    done = sim(control_plane, "--policy=current", "--policy=sjf", "--json")
    assert done.returncode == 0, done.stderr
    current, sjf = map(json.loads, done.stdout.splitlines())
    assert (current["policy"], current["jobs"], current["never_started"]) == ("current", 2, 0)
    waits = {each["name"].partition("/")[2]: each["start_s"] for each in sjf["units"]}
    assert waits["short"] == pytest.approx(2400, abs=60)
    assert waits["long"] == pytest.approx(2400 + 600, abs=60)

    text = sim(control_plane, "--policy=sjf").stdout
    assert f"{pods.namespace}/short" in text
    assert "STARTS (sjf)" in text
    again = {name: pods.get(name)["metadata"]["resourceVersion"] for name in pods.nodes()}
    assert again == versions, "nothing is written"


def test_a_pod_waits_for_its_window_in_the_look_ahead(
    control_plane: ControlPlane, create_nodes: Any, pods: Pods, tmp_path: Path
) -> None:
    """The forecast of the configuration is low from five hours from now on."""
    create_nodes(["s1"], allocatable={"nvidia.com/gpu": "4"})
    begin = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    hours = [(begin + timedelta(hours=n), 300 if n < 5 else 100) for n in range(24)]
    rows = "\n".join(f"{at.isoformat()},{value}" for at, value in hours)
    (tmp_path / "carbon.csv").write_text(f"time,value\n{rows}\n")
    config = tmp_path / "fairlead.yaml"
    config.write_text("goals:\n  forecasts: [{window: low-carbon, kind: file, file: carbon.csv}]\n")
    said = {"fairlead.dev/run-time": "2h", "fairlead.dev/start-window": "low-carbon 10h"}
    pods.create("green", 1, metadata={"annotations": said})

    done = sim(control_plane, "--json", "--config", str(config))

    assert done.returncode == 0, done.stderr
    (unit,) = json.loads(done.stdout)["units"]
    assert 4 * 3600 - 60 <= unit["start_s"] <= 5 * 3600 + 60


def test_what_is_wrong_is_one_sentence(control_plane: ControlPlane) -> None:
    done = sim(control_plane, "--policy=srtf")
    assert done.returncode == 1
    assert "the policy srtf works on traces only; leave out --from-cluster" in done.stderr
    assert sim(control_plane, "--unknown=soon").returncode == 1
