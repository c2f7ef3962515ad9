"""`fairlead top` beside whom it asks: a scheduler, an exporter, a Prometheus that remembers."""

import json
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from exporters import Exporter, exporting
from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, PATIENCE_S, eventually, fairlead
from preloaded import run
from prometheuses import Prometheus

NODE, HOUR_S = "top-h200", 3600.0
UUIDS = ("GPU-top-0", "GPU-top-1")
INVENTORY = {
    "version": 2,
    "fabric": "nvlink",
    "gpus": [
        {"index": index, "uuid": uuid, "model": "NVIDIA H200", "memoryMib": 143771}
        for index, uuid in enumerate(UUIDS)
    ],
}
HOST = {"address": "127.0.0.1", "type": "InternalIP"}


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """One node with two GPUs: a pod that works on the first, and one that idles on the other."""
    api = control_plane.api
    amounts = {"nvidia.com/gpu": "2", "cpu": "8", "memory": "64Gi", "pods": "10"}
    node = {
        "metadata": {
            "name": NODE,
            "annotations": {"fairlead.dev/inventory": json.dumps(INVENTORY)},
        },
        "status": {"allocatable": amounts, "capacity": amounts, "addresses": [HOST]},
    }
    assert api("POST", "/api/v1/nodes", node)[0] == 201
    assert api("PUT", f"/api/v1/nodes/{NODE}/status", node)[0] == 200
    for name, uuid in zip(("worker", "idler"), UUIDS, strict=True):
        _bind(control_plane, name, uuid)
    yield control_plane
    for name in ("worker", "idler"):
        api("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")
    api("DELETE", f"/api/v1/nodes/{NODE}")


def _bind(plane: ControlPlane, name: str, uuid: str) -> None:
    """As if it had been placed ten hours ago."""
    asked = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
    pod = {
        "metadata": {
            "name": name,
            "annotations": {
                "fairlead.dev/gpus": uuid,
                "fairlead.dev/assignment": json.dumps({"devices": [{"u": uuid}]}),
            },
        },
        "spec": {
            "schedulerName": "gpu-scheduler",
            "nodeName": NODE,
            "containers": [{"name": "c", "image": "x", "resources": asked}],
        },
    }
    path = "/api/v1/namespaces/default/pods"
    status, made = plane.api("POST", path, pod)
    assert status == 201, made
    started = datetime.fromtimestamp(time.time() - 10 * HOUR_S, UTC)
    made["status"] = {"phase": "Running", "startTime": f"{started:%Y-%m-%dT%H:%M:%SZ}"}
    status, made = plane.api("PUT", f"{path}/{name}/status", made)
    assert status == 200, made


def top(plane: ControlPlane, *options: str) -> dict[str, Any]:
    access = ["--kubeconfig", str(plane.kubeconfig_for())]
    done = run([FAIRLEAD, "top", "-o", "json", *access, *options], timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """As dcgm-exporter would say it: the first GPU is busy, the second is not."""
    told = {"DCGM_FI_DEV_GPU_UTIL": (90, 0), "DCGM_FI_DEV_POWER_USAGE": (190, 100)}
    lines = [
        f'{series}{{gpu="{uuid[-1]}",UUID="{uuid}",Hostname="{NODE}"}} {value}'
        for series, values in told.items()
        for uuid, value in zip(UUIDS, values, strict=True)
    ]
    with exporting() as served:
        served.text = "\n".join([*lines, ""]).encode()
        yield served


def by_name(told: dict[str, Any]) -> dict[str, Any]:
    return {pod["name"]: pod for pod in told["pods"]}


def configured(folder: Path, exporter: Exporter) -> str:
    file = folder / "config.yaml"
    file.write_text(
        "telemetry: {sources: [{kind: dcgm, url: '%s', every: 1s}]}" % exporter.url  # noqa: UP031
    )
    return str(file)


@pytest.mark.real
def test_without_readings_it_says_who_has_what(plane: ControlPlane) -> None:
    told = top(plane, "--node", NODE)
    assert told["total"]["held"] == 2
    assert {name: pod["asked"] for name, pod in by_name(told).items()} == {
        "worker": "1",
        "idler": "1",
    }
    assert {pod["advice"]["kind"] for pod in told["pods"]} == {"unmeasured"}


def test_it_asks_the_sources_of_a_configuration(
    plane: ControlPlane, exporter: Exporter, tmp_path: Path
) -> None:
    told = top(plane, "--node", NODE, "--by", "gpus", "--config", configured(tmp_path, exporter))
    used = {gpu["uuid"]: (gpu["utilisation"], gpu["powerW"]) for gpu in told["gpus"]}
    assert used == {UUIDS[0]: (0.9, 190), UUIDS[1]: (0, 100)}
    assert [gpu["holders"][0]["pod"] for gpu in told["gpus"]] == [
        "default/worker",
        "default/idler",
    ]


def test_a_source_that_is_away_is_named(
    plane: ControlPlane, exporter: Exporter, tmp_path: Path
) -> None:
    exporter.status = 500
    told = top(plane, "--node", NODE, "--config", configured(tmp_path, exporter))
    assert "dcgm: " in told["notes"][0]


def test_a_running_scheduler_knows_what_happened_since_it_began(
    plane: ControlPlane, exporter: Exporter, tmp_path: Path
) -> None:
    with fairlead(plane, "--config", configured(tmp_path, exporter)) as running:
        url = running.url

        def watched() -> dict[str, Any]:
            told = by_name(top(plane, "--scheduler", url, "--node", NODE))
            return told if told and told["worker"]["watchedS"] > 0 else {}

        told = eventually(watched, what="a second look at both pods")
        assert told["worker"]["mean"] == pytest.approx(0.9)
        assert told["idler"]["idleForS"] > 0
        assert running.metric("fairlead_gpus_allocated", model="NVIDIA H200") == 2
        assert running.metric("fairlead_gpus_wasted", model="NVIDIA H200") == pytest.approx(
            1.1, abs=0.05
        )
        assert running.metric("fairlead_gpus_held", pod_namespace="default") == 2
        assert running.metric("fairlead_gpu_idle_seconds_total", pod_namespace="default") > 0


COUNTED = "top-counted"


@pytest.fixture
def counted(control_plane: ControlPlane) -> Iterator[Exporter]:
    """A node whose GPUs nobody lists, and an exporter that names the pod on one of them."""
    api = control_plane.api
    amounts = {"nvidia.com/gpu": "2", "cpu": "8", "memory": "64Gi", "pods": "10"}
    status = {"allocatable": amounts, "capacity": amounts, "addresses": [HOST]}
    node = {"metadata": {"name": COUNTED}, "status": status}
    assert api("POST", "/api/v1/nodes", node)[0] == 201
    assert api("PUT", f"/api/v1/nodes/{COUNTED}/status", node)[0] == 200
    asked = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {
        "schedulerName": "gpu-scheduler", "nodeName": COUNTED,
        "containers": [{"name": "c", "image": "x", "resources": asked}],
    }  # fmt: skip
    pod = {"metadata": {"name": "worker"}, "spec": spec}
    assert api("POST", "/api/v1/namespaces/default/pods", pod)[0] == 201
    with exporting() as served:
        labels = f'gpu="0",UUID="GPU-x",Hostname="{COUNTED}",namespace="default",pod="worker"'
        served.text = f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 90\n".encode()
        yield served
    api("DELETE", "/api/v1/namespaces/default/pods/worker?gracePeriodSeconds=0")
    api("DELETE", f"/api/v1/nodes/{COUNTED}")


def test_a_scheduler_knows_what_pods_do_where_gpus_are_only_counted(
    control_plane: ControlPlane, counted: Exporter, tmp_path: Path
) -> None:
    with fairlead(control_plane, "--config", configured(tmp_path, counted)) as running:
        url = running.url

        def measured() -> float | None:
            told = by_name(top(control_plane, "--scheduler", url, "--node", COUNTED))
            return told["worker"]["utilisation"] if told else None

        assert eventually(measured, what="a reading of the pod") == pytest.approx(0.9)


def test_a_prometheus_remembers(plane: ControlPlane, prometheus: Path, tmp_path: Path) -> None:
    """Twelve hours of history: both pods came two hours after it began."""
    now = int(time.time())
    lines = ["# TYPE DCGM_FI_DEV_GPU_UTIL gauge", "# TYPE DCGM_FI_DEV_FB_USED gauge"]
    for name, values in (("GPU_UTIL", (10, 0)), ("FB_USED", (9000, 500))):
        for uuid, value in zip(UUIDS, values, strict=True):
            labels = f'{{UUID="{uuid}",Hostname="{NODE}",gpu="{uuid[-1]}"}}'
            lines += [
                f"DCGM_FI_DEV_{name}{labels} {value} {at}"
                for at in range(now - int(12 * HOUR_S), now, 60)
            ]
    (tmp_path / "past.txt").write_text("\n".join([*lines, "# EOF", ""]))
    subprocess.run(
        [
            str(prometheus.with_name("promtool")), "tsdb", "create-blocks-from", "openmetrics",
            str(tmp_path / "past.txt"), str(tmp_path / "data"),
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    with Prometheus.start(prometheus, tmp_path, {}) as server:
        told = top(plane, "--prometheus", server.url, "--since", "12h", "--node", NODE)
    pods = by_name(told)
    assert pods["worker"]["watchedS"] == pytest.approx(10 * HOUR_S, rel=0.02)
    assert pods["worker"]["mean"] == pytest.approx(0.1)
    assert pods["worker"]["wastedHours"] == pytest.approx(9, rel=0.02)
    assert pods["worker"]["advice"] == {
        "kind": "smaller",
        "share": 0.2,
        "memoryMib": 11 * 1024,
        "profile": "2g.35gb",
        "text": "0.2 of a GPU with 11 GiB would have been enough, or a MIG 2g.35gb",
    }
    assert pods["idler"]["idleHours"] == pytest.approx(10, rel=0.02)
    assert pods["idler"]["advice"]["kind"] == "idle"


def test_what_is_no_address_leaves_no_connection_open(plane: ControlPlane) -> None:
    with pytest.raises(AssertionError) as refused:
        top(plane, "--scheduler", "foo")
    assert "write a URL, or NAMESPACE/SERVICE[:PORT]" in str(refused.value)
    assert "Unclosed" not in str(refused.value)


@pytest.mark.parametrize("options", [("--scheduler", "http://127.0.0.1:1"),
                                     ("--prometheus", "http://127.0.0.1:1")])  # fmt: skip
def test_who_does_not_answer_is_named(plane: ControlPlane, options: tuple[str, str]) -> None:
    with pytest.raises(AssertionError, match="no answer from"):
        top(plane, *options)
