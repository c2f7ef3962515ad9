"""Pods go where GPUs are quiet: exporter, reader process, engine, API server, all of it."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporters import Exporter, exporting
from fairleads import FAIRLEAD, Pods, Running, eventually, fairlead
from preloaded import run
from prometheuses import scraping


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    with exporting() as served:
        yield served


@pytest.fixture
def pods(control_plane, namespace, create_nodes) -> Pods:
    """A namespace, and two nodes of two GPUs each."""
    create_nodes(["quiet-a", "quiet-b"], allocatable={"nvidia.com/gpu": "2"})
    return Pods(control_plane, namespace)


def configured(folder: Path, **source: Any) -> str:
    profile = {"schedulerName": "gpu-scheduler", "scores": ["LowUtilisation"]}
    told = {"profiles": [profile], "telemetry": {"sources": [source]}}
    file = folder / "fairlead.yaml"
    file.write_text(yaml.safe_dump(told))
    return str(file)


def readings(program: Running, source: str = "dcgm") -> float:
    return program.metric("fairlead_telemetry_readings_total", source=source)


@pytest.mark.real
def test_pods_follow_the_load(pods: Pods, exporter: Exporter, tmp_path: Path) -> None:
    # Utilisation is smoothed over a minute, and so that nobody waits for that, minutes pass in
    # the times that the exporter tells.
    exporter.show({"quiet-a": {0: 95, 1: 95}, "quiet-b": {0: 5, 1: 5}}, age_s=200)
    config = configured(tmp_path, kind="dcgm", url=exporter.url, every="1s")
    with fairlead(pods.plane, "--config", config) as program:
        eventually(lambda: readings(program) >= 4)
        pods.create("first", gpus=1)
        assert pods.wait_bound("first") == {"first": "quiet-b"}

        exporter.show({"quiet-a": {0: 0, 1: 0}, "quiet-b": {0: 100, 1: 100}})
        before = readings(program)
        eventually(lambda: readings(program) >= before + 8)
        pods.create("second", gpus=1)
        assert pods.wait_bound("second") == {"second": "quiet-a"}


def test_a_source_that_fails_is_cut_off_with_one_line_and_pods_go_on(
    pods: Pods, exporter: Exporter, tmp_path: Path
) -> None:
    exporter.status = 500
    config = configured(tmp_path, kind="dcgm", url=exporter.url, every="1s")
    with fairlead(pods.plane, "--config", config) as program:
        eventually(lambda: program.metric("fairlead_telemetry_cut_off", source="dcgm") == 1)
        pods.create("first", gpus=1)
        pods.wait_bound("first")
        asked = len(exporter.asked)
        exporter.show({"quiet-a": {0: 10, 1: 10}})
        exporter.status = 200
        # By the log: the source is read every second again, and metrics take longer to come.
        restored = "telemetry source restored"
        eventually(lambda: any(r["event"] == restored for r in program.records))
        assert len(exporter.asked) <= asked + 3
        eventually(lambda: program.metric("fairlead_telemetry_cut_off", source="dcgm") == 0)
        assert program.metric("fairlead_telemetry_age_seconds", source="dcgm") < 20
        said = [r for r in program.records if r["event"].startswith("telemetry source")]
    assert [r["event"] for r in said] == ["telemetry source cut off", "telemetry source restored"]
    assert said[0]["error"] == "it answers HTTP 500"


def test_a_source_that_lies_changes_nothing(pods: Pods, exporter: Exporter, tmp_path: Path) -> None:
    exporter.show(
        {"quiet-a": dict.fromkeys(range(8), 10**6), "quiet-b": dict.fromkeys(range(8), -5)}
    )
    config = configured(tmp_path, kind="dcgm", url=exporter.url, every="1s")
    with fairlead(pods.plane, "--config", config) as program:
        eventually(lambda: program.metric("fairlead_telemetry_cut_off", source="dcgm") == 1)
        rejected = "fairlead_telemetry_rejected_total"
        assert program.metric(rejected, source="dcgm", why="too much") >= 8
        assert program.metric(rejected, source="dcgm", why="negative") >= 8
        pods.create("first", gpus=1)
        pods.wait_bound("first")


def test_a_reader_that_is_killed_is_started_again(
    pods: Pods, exporter: Exporter, tmp_path: Path
) -> None:
    exporter.show({"quiet-a": {0: 95, 1: 95}, "quiet-b": {0: 5, 1: 5}})
    config = configured(tmp_path, kind="dcgm", url=exporter.url, every="1s")
    with fairlead(pods.plane, "--config", config) as program:
        eventually(lambda: readings(program) >= 4)
        children = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children")
        (reader,) = children.read_text().split()
        os.kill(int(reader), signal.SIGKILL)
        eventually(lambda: any(r["event"] == "telemetry reader ended" for r in program.records))
        before = readings(program)
        eventually(lambda: readings(program) > before)
        pods.create("first", gpus=1)
        assert pods.wait_bound("first") == {"first": "quiet-b"}


def test_annotations_of_alnair_s_profiler_come_with_the_nodes(
    control_plane: Any, create_nodes: Any, namespace: str, tmp_path: Path
) -> None:
    def noted(percent: int) -> dict[str, str]:
        text = f"{{'mem_used': '1GB', 'cyclic_pattern': False, 'max_gpu_util': {percent}}}"
        return {"ai.centaurus.io/gpu-0": text}

    for name, percent in (("quiet-a", 90), ("quiet-b", 10)):
        gpus = {"nvidia.com/gpu": "1"}
        create_nodes([name], allocatable=gpus, annotations=noted(percent))
    pods = Pods(control_plane, namespace)
    with fairlead(
        control_plane, "--config", configured(tmp_path, kind="alnair", every="1s")
    ) as program:
        eventually(lambda: readings(program, "alnair") >= 2)
        pods.create("first", gpus=1)
        assert pods.wait_bound("first") == {"first": "quiet-b"}


def test_the_variable_of_the_tutorial_is_honoured_for_its_profile(
    pods: Pods, exporter: Exporter
) -> None:
    exporter.show({"quiet-a": {0: 95, 1: 95}, "quiet-b": {0: 5, 1: 5}})
    endpoint = {"DCGM_ENDPOINT": exporter.url.removesuffix("/metrics")}
    with fairlead(pods.plane, "--profile", "gpu-aware-scheduler", env=endpoint) as program:
        eventually(lambda: readings(program) >= 4)
    assert set(exporter.asked) == {"/metrics"}


@pytest.mark.real
def test_a_real_prometheus_that_scrapes_the_exporter(
    pods: Pods, exporter: Exporter, prometheus: Path, tmp_path: Path
) -> None:
    exporter.show({"quiet-a": {0: 95, 1: 95}, "quiet-b": {0: 5, 1: 5}})
    with scraping(prometheus, exporter, tmp_path) as url:
        config = configured(tmp_path, kind="prometheus", url=url, every="1s")
        with fairlead(pods.plane, "--config", config) as program:
            eventually(lambda: readings(program, "prometheus") >= 4)
            pods.create("first", gpus=1)
            assert pods.wait_bound("first") == {"first": "quiet-b"}
            assert program.metric("fairlead_telemetry_cut_off", source="prometheus") == 0


def test_explain_shows_what_gpus_are_doing(
    control_plane, create_nodes, pods: Pods, exporter: Exporter, tmp_path: Path
) -> None:
    gpus = [{"index": 0, "uuid": "GPU-told-0", "model": "NVIDIA H200", "memoryMib": 1000}]
    listed = json.dumps({"version": 2, "gpus": gpus})
    noted = {"fairlead.dev/inventory": listed}
    create_nodes(["told"], annotations=noted, allocatable={"nvidia.com/gpu": "1"})
    exporter.show({"told": {0: 70}})
    config = configured(tmp_path, kind="dcgm", url=exporter.url)
    pods.create("waits", gpus=1)
    explain = [
        str(FAIRLEAD), "explain", f"{pods.namespace}/waits", "--config", config,
        "--kubeconfig", str(control_plane.kubeconfig_for("system:kube-scheduler")),
    ]  # fmt: skip
    text = run(explain, check=True).stdout
    assert "70% busy" in text

    exporter.status = 500
    text = run(explain, check=True).stdout
    assert "no readings from dcgm: " in text
    assert "70% busy" not in text
