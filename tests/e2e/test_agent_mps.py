"""MPS from the assignment to the limits of the daemon: agent and API server as they are.

The GPU and the control program are fakes, which answer as a real H200 did.
"""

import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fairlead.sim.nvml import Fault
from fairlead.telemetry.processes import is_running
from fairleads import PATIENCE_S, Pods, Running
from test_agent import Machine, a_bound_pod, eventually, machine, rights  # noqa: F401 — fixtures

pytestmark = pytest.mark.server

PROHIBITED, EXCLUSIVE_PROCESS = 2, 3
LOST = 15


class Shared:
    """The machine with an agent that runs MPS on its first GPU."""

    def __init__(self, machine: Machine, folder: Path) -> None:  # noqa: F811
        self.machine, self.mps = machine, folder / "mps"
        self._program = folder / "nvidia-cuda-mps-control"
        self.write_program()

    def write_program(self) -> None:
        self._program.write_text(
            f'#!/bin/sh\nexec {sys.executable} -m fairlead.sim.mps_control "$@"\n'
        )
        self._program.chmod(0o755)

    def break_program(self) -> None:
        self._program.write_text("#!/bin/sh\necho no device >&2\nexit 100\n")

    @contextmanager
    def agent(self, *, ends_with: int = 0, mps: str = "") -> Iterator[Running]:
        with self.machine.agent(
            "--mps", mps or self.machine.uuids[0], "--mps-dir", str(self.mps), "--mps-control",
            str(self._program), ends_with=ends_with,
        ) as running:  # fmt: skip
            yield running

    def gpu(self) -> dict[str, Any]:
        return (self.machine.listed().get("gpus") or [{}])[0]

    def well(self) -> bool:
        return bool(self.gpu().get("mps") == 48)

    def capacities(self) -> list[int]:
        return [gpu.get("mps", 0) for gpu in self.machine.listed().get("gpus", ())]

    def pid(self) -> int:
        """0 while a daemon that starts has not written it."""
        file = self.mps / self.machine.uuids[0] / "daemon" / "nvidia-cuda-mps-control.pid"
        with suppress(FileNotFoundError):
            return int(file.read_text() or 0)
        return 0

    def daemon(self, other_than: int = 0) -> int:
        """The daemon that runs; 0 if none does, or only this one."""
        pid = self.pid()
        return pid if pid != other_than and self.lived(pid) else 0

    def mode(self) -> int:
        with self.machine.driver.open() as driver:
            return driver.gpus[0].compute_mode

    def client(self, pid: int, pod: dict[str, Any], mib: int = 100) -> None:
        self.machine.process(pid, 0, pod["metadata"]["uid"], mib=mib, kind="mps")

    def clients(self) -> list[int]:
        with self.machine.driver.open() as driver:
            return sorted(one.pid for one in driver.gpus[0].processes if one.kind == "mps")

    def lived(self, pid: int) -> bool:
        return is_running(pid)


@pytest.fixture
def shared(machine: Machine, tmp_path: Path) -> Shared:  # noqa: F811
    return Shared(machine, tmp_path)


def test_a_pod_that_forks_keeps_one_process_and_the_agent_leaves_nothing_behind(
    shared: Shared, pods: Pods
) -> None:
    pod = a_bound_pod(shared.machine, pods, "train", 0, "mps")
    with shared.agent():
        eventually(shared.well)
        assert shared.mode() == EXCLUSIVE_PROCESS
        assert "mps" not in shared.machine.listed()["gpus"][1]
        pipe = shared.mps / shared.machine.uuids[0] / "pipe"
        assert [path.name for path in pipe.iterdir()] == ["control"]
        assert stat.S_ISSOCK((pipe / "control").stat().st_mode)
        shared.client(4711, pod)
        shared.client(4712, pod)
        eventually(lambda: shared.clients() == [4711])
        (note,) = eventually(
            lambda: [one["note"] for one in shared.machine.events("train")
                     if one["reason"] == "GPUShareExceeded"]
        )  # fmt: skip
        assert "process 4712" in note
        # The server of MPS is no process of anybody: nothing is withheld for it.
        assert shared.machine.health() == ["ok", "ok"]
        daemon = shared.pid()
    assert not shared.lived(daemon)
    # The pod is still there, and nothing would limit it: nor is a share placed here.
    assert shared.mode() == PROHIBITED
    assert "mps" not in shared.gpu()


@pytest.mark.slow
def test_a_daemon_that_dies_is_started_again_and_one_that_cannot_is_not_offered(
    shared: Shared,
) -> None:
    with shared.agent():
        eventually(shared.well)
        before = eventually(shared.daemon)
        os.kill(before, signal.SIGKILL)
        again = eventually(lambda: shared.daemon(other_than=before))
        shared.break_program()
        os.kill(again, signal.SIGKILL)
        eventually(lambda: "no MPS: " in shared.gpu().get("note", ""))
        assert "mps" not in shared.gpu()
        shared.write_program()
        eventually(shared.well)


@pytest.mark.slow
def test_a_gpu_that_a_pod_has_whole_is_served_without_mps(shared: Shared, pods: Pods) -> None:
    with shared.agent():
        eventually(shared.well)
        used = f'{{"devices":[{{"u":"{shared.machine.uuids[0]}"}}],"dialect":"fairlead"}}'
        pods.create(
            "whole",
            metadata={"annotations": {"fairlead.dev/gpu-count": "1",
                                      "fairlead.dev/assignment": used}},
            nodeName=shared.machine.node,
        )  # fmt: skip
        eventually(lambda: "without MPS" in shared.gpu().get("note", "") and shared.mode() == 0)
        assert "mps" not in shared.gpu()
        pods.delete("whole")
        eventually(shared.well)
    assert shared.mode() == 0


def killed(shared: Shared, agent: Running) -> int:
    """The daemon that it leaves."""
    daemon = int(eventually(lambda: shared.well() and shared.daemon()))
    agent.process.kill()
    agent.process.wait(PATIENCE_S)
    return daemon


def test_a_killed_agent_leaves_mps_to_the_next_one_which_may_end_it(shared: Shared) -> None:
    with shared.agent(ends_with=-signal.SIGKILL) as agent:
        first = killed(shared, agent)
    assert shared.lived(first)
    with shared.agent(ends_with=-signal.SIGKILL) as agent:
        assert killed(shared, agent) == first
    with shared.agent(mps="none"):
        eventually(lambda: not shared.lived(first) and shared.mode() == 0)
        eventually(lambda: "mps" not in shared.gpu())


@pytest.mark.slow
def test_a_lost_gpu_has_no_mps_and_the_other_goes_on(shared: Shared) -> None:
    with shared.agent(mps="all"):
        eventually(lambda: shared.capacities() == [48, 48])
        with shared.machine.driver.open() as driver:
            driver.faults.append(Fault(uuid=shared.machine.uuids[0], error=LOST))
        eventually(lambda: shared.capacities() == [0, 48])
        with shared.machine.driver.open() as driver:
            driver.faults.clear()
        eventually(shared.well)
