"""Pods go where cards are quiet: exporter, reader process, engine, API server, all of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporters import Exporter, exporting
from fairleads import Pods, Running, eventually, fairlead


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    with exporting() as served:
        yield served


@pytest.fixture(
    params=[
        pytest.param("real_plane", marks=pytest.mark.server, id="real"),
        pytest.param("embedded_plane", id="embedded", marks=pytest.mark.program),
    ]
)
def control_plane(request):
    """Either server; asked for by name, so that only the one that a test runs on is started."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def pods(control_plane, namespace, create_nodes) -> Pods:
    """A namespace, and two nodes of two cards each."""
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
