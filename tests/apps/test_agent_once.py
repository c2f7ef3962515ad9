"""`fairlead agent` without a cluster."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from fairlead.kube.dialects import inventory
from fairlead.sim.nvml import FakeProcess, FileStore, machine_of
from preloaded import FAIRLEAD, run

pytestmark = pytest.mark.program


def agent(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [FAIRLEAD, "agent", "--nvml", "fairlead.sim.nvml.shared:library", *options]
    environment = {**os.environ, "FAIRLEAD_NVML_FILE": str(file), "NODE_NAME": "gpu-a"}
    return run(command, env=environment, timeout=120)


def test_it_prints_what_it_would_publish(tmp_path: Path) -> None:
    machine = machine_of(4, wiring="switch")
    machine.gpus[1].processes = [FakeProcess(4711, 3 << 30)]
    FileStore(tmp_path / "m", machine)

    said = agent(tmp_path / "m", "--once", "-o", "json")
    text = agent(tmp_path / "m", "--once").stdout

    look = json.loads(said.stdout)
    assert look["node"] == "gpu-a"
    listed = inventory.read(json.dumps(look["inventory"]))
    assert [gpu.uuid for gpu in listed.gpus] == [gpu.uuid for gpu in machine.gpus]
    assert look["readings"][1]["processes"][0]["pid"] == 4711
    assert f"1 {machine.gpus[1].uuid} NVIDIA H200 143771 MiB ok\n  process 4711: 3072 MiB" in text


def test_a_machine_without_a_driver_is_told_in_one_line(tmp_path: Path) -> None:
    machine = machine_of()
    machine.loaded = False
    FileStore(tmp_path / "m", machine)

    said = agent(tmp_path / "m", "--once")

    assert said.returncode == 1
    assert said.stderr.startswith("fairlead: NVML says Driver Not Loaded (9); load NVIDIA's driver")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--interval", "soon"), "--interval is 'soon'; write seconds"),
        (("--interval", "1ms"), "at least 0.1s"),
        (("--unassigned-after", "-5s"), "--unassigned-after is '-5s'"),
        (("--unassigned", "shoot"), "choose report, or withhold"),
    ],
)
def test_options_that_make_no_sense(
    tmp_path: Path, options: tuple[str, str], sentence: str
) -> None:
    said = agent(tmp_path / "m", *options)

    assert said.returncode == 1
    assert sentence in said.stderr
