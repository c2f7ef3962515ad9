"""The MPS control daemon of a GPU: started, asked, started again, and never left behind.

The control program is a fake that answers as the real one did, and is a real process.
"""

import asyncio
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from fairlead.apps.agent.mps.control import MpsControl, MpsError
from fairlead.apps.agent.mps.daemon import FAULT_S, MpsDaemon
from fairlead.apps.agent.mps.plans import MpsPlan, MpsShare
from fairlead.sim.nvml import FakeNvml, FakeProcess, FileStore, machine_of
from fairlead.telemetry.nvml.compute_mode import DEFAULT, EXCLUSIVE_PROCESS, PROHIBITED
from fairlead.telemetry.nvml.facts import GpuSample
from fairlead.telemetry.nvml.process import Nvml, NvmlError
from fairlead.telemetry.processes import is_running

pytestmark = pytest.mark.program

PLAN = MpsPlan({"pod": MpsShare(25.0, 10240)})
#: Python starts for every question, on a machine that may be busy.
PATIENCE_S = 120.0


def mps_program(folder: Path) -> str:
    program = folder / "nvidia-cuda-mps-control"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fairlead.sim.mps_control "$@"\n')
    program.chmod(0o755)
    return str(program)


class OneGpu:
    def __init__(self, folder: Path) -> None:
        self.now_s = 0.0
        self.driver = FileStore(folder / "machine.json", machine_of())
        with self.driver.open() as machine:
            self.uuid = machine.gpus[0].uuid
        self.nvml = Nvml("fairlead.sim.nvml.shared:library", limit_s=PATIENCE_S)
        self.folder = folder / "mps"
        self._program = mps_program(folder)
        self.daemon = self.successor()

    def successor(self, limit_s: float = PATIENCE_S) -> MpsDaemon:
        """What an agent that is started again has."""
        control = MpsControl(self.folder, self.uuid, self._program, limit_s=limit_s)
        self.control = control
        return MpsDaemon(control, self.nvml, self.uuid, lambda: self.now_s)

    async def settle(self, plan: MpsPlan = PLAN, daemon: MpsDaemon | None = None) -> str:
        """The problem, or nothing."""
        self.now_s += 60.0
        sample = await self.nvml.ask(GpuSample, "sample", self.uuid)
        await (daemon or self.daemon).settle(plan, sample)
        return (daemon or self.daemon).problem

    def mode(self) -> int:
        with self.driver.open() as machine:
            return machine.gpus[0].compute_mode

    def add(self, pid: int, **more: object) -> None:
        with self.driver.open() as machine:
            machine.gpus[0].processes.append(FakeProcess(pid, **more))

    def clear(self) -> None:
        with self.driver.open() as machine:
            machine.gpus[0].processes.clear()

    async def as_pod(self, *commands: str) -> str:
        """What a program in a pod, which runs as root, is answered."""
        pod = MpsControl(self.folder, self.uuid, self._program, limit_s=PATIENCE_S)
        pod._private = pod._pipe
        return (await pod.ask(*commands)).strip()


@pytest.fixture
async def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OneGpu]:
    monkeypatch.setenv("FAIRLEAD_NVML_FILE", str(tmp_path / "machine.json"))
    found = OneGpu(tmp_path)
    yield found
    await found.successor().stop()
    await found.nvml.close()


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


def send(pid: int, what: signal.Signals) -> None:
    """To 0 it would go to this process and all others of its group."""
    assert pid > 0, "there is no such process"
    os.kill(pid, what)


def limits(daemon: MpsDaemon) -> tuple[str, ...]:
    assert daemon.look is not None
    return daemon.look.limits


async def test_it_serves_with_the_limits_of_the_largest_share(gpu: OneGpu) -> None:
    assert await gpu.settle() == ""
    assert limits(gpu.daemon) == ("25.0", "10G")
    assert gpu.mode() == EXCLUSIVE_PROCESS
    assert await gpu.settle(MpsPlan({"pod": MpsShare(12.5, 1500)})) == ""
    assert limits(gpu.daemon) == ("12.5", "1500M")
    assert gpu.daemon.starts == 1


async def test_the_end_leaves_no_process_and_the_mode_that_was_there(gpu: OneGpu) -> None:
    await gpu.settle()
    pids = gpu.control.pid(), gpu.daemon.server
    assert await gpu.settle(MpsPlan(off_because="no longer")) == "no longer"
    assert gpu.mode() == DEFAULT
    assert gpu.daemon.look is None
    assert not any(is_running(pid) for pid in pids)
    assert not list((gpu.folder / gpu.uuid / "pipe").iterdir())


async def test_while_pods_share_the_gpu_nothing_may_use_it_without_mps(gpu: OneGpu) -> None:
    await gpu.settle()
    await gpu.daemon.stop(shared=True)
    assert gpu.mode() == PROHIBITED
    successor = gpu.successor()
    assert await gpu.settle(daemon=successor) == ""
    assert gpu.mode() == EXCLUSIVE_PROCESS
    await successor.stop()
    assert gpu.mode() == DEFAULT


async def test_pods_see_only_the_socket_of_clients_and_can_neither_quit_nor_raise(
    gpu: OneGpu,
) -> None:
    await gpu.settle()
    folder = gpu.folder / gpu.uuid
    assert [path.name for path in (folder / "pipe").iterdir()] == ["control"]
    assert stat.S_IMODE((folder / "daemon").stat().st_mode) == 0o700
    assert "Insufficient" in await gpu.as_pod("set_default_active_thread_percentage 100")
    assert "Not enough privilege" in await gpu.as_pod("quit")
    assert await gpu.settle() == ""


async def test_limits_that_were_changed_are_set_again_and_new_clients_are_named(
    gpu: OneGpu,
) -> None:
    """Root in a container can change the limits of the server, as was seen on an H200."""
    gpu.add(7, kind="mps")
    await gpu.settle(MpsPlan(off_because="first"))
    gpu.clear()
    await gpu.settle()
    gpu.add(7, kind="mps")
    await gpu.settle()
    server = gpu.daemon.server
    assert await gpu.as_pod(f"set_active_thread_percentage {server} 100") == "100.0"
    gpu.add(8, kind="mps")
    await gpu.settle()
    assert limits(gpu.daemon) == ("25.0", "10G")
    assert gpu.daemon.unlimited == {8}
    await gpu.settle()
    assert gpu.daemon.unlimited == frozenset()


async def test_a_killed_daemon_is_started_again(gpu: OneGpu) -> None:
    assert await gpu.settle() == ""
    send(gpu.control.pid(), signal.SIGKILL)
    await until(gpu.daemon.due)
    assert await gpu.settle() == ""
    assert gpu.daemon.starts == 2
    assert await gpu.as_pod("get_server_list") == str(gpu.daemon.server)


async def test_a_killed_server_is_started_again_by_the_same_daemon(gpu: OneGpu) -> None:
    assert await gpu.settle() == ""
    before = gpu.control.pid(), gpu.daemon.server
    send(gpu.daemon.server, signal.SIGKILL)
    await until(gpu.daemon.due)
    assert await gpu.settle() == ""
    assert gpu.control.pid() == before[0]
    assert gpu.daemon.server != before[1]


async def test_a_daemon_that_hangs_is_replaced(gpu: OneGpu) -> None:
    assert await gpu.settle() == ""
    send(gpu.control.pid(), signal.SIGSTOP)
    hasty = gpu.successor(limit_s=2.0)
    assert "does not answer" in await gpu.settle(daemon=hasty)
    assert hasty.look is None
    await until(lambda: not gpu.control.pid())
    patient = gpu.successor()
    assert await gpu.settle(daemon=patient) == ""


async def test_without_the_program_the_reason_is_given_and_tries_become_rare(
    gpu: OneGpu, tmp_path: Path
) -> None:
    (tmp_path / "nvidia-cuda-mps-control").unlink()
    assert "cannot be started: No such file" in await gpu.settle()
    sample = GpuSample(gpu.uuid)
    gpu.daemon.problem = "unchanged while it waits"
    await gpu.daemon.settle(PLAN, sample)
    assert gpu.daemon.problem == "unchanged while it waits"


async def test_it_waits_for_an_empty_gpu(gpu: OneGpu) -> None:
    gpu.add(7)
    assert await gpu.settle() == "MPS starts when the GPU is empty"
    assert gpu.mode() == DEFAULT
    gpu.clear()
    assert await gpu.settle() == ""


async def test_a_program_without_mps_that_came_first_keeps_the_server_from_starting(
    gpu: OneGpu,
) -> None:
    await gpu.settle()
    gpu.add(7)
    send(gpu.daemon.server, signal.SIGKILL)
    await until(gpu.daemon.due)
    assert "without MPS" in await gpu.settle()
    assert "without MPS" in await gpu.settle()
    assert gpu.daemon.blocked == 2
    gpu.clear()
    assert await gpu.settle() == ""
    assert not gpu.daemon.blocked


async def test_a_server_that_stays_in_a_fault_is_replaced(gpu: OneGpu) -> None:
    """It recovers when its last client has ended; one that does not end would block the GPU."""
    await gpu.settle()
    first = gpu.daemon.server
    fault = gpu.folder / gpu.uuid / "daemon" / "fault"
    fault.touch()
    assert "FAULT" in await gpu.settle()
    assert is_running(first)
    assert FAULT_S < 60.0  # what one look of this test takes
    assert "FAULT" in await gpu.settle()
    await until(lambda: not is_running(first))
    fault.unlink()
    assert await gpu.settle() == ""
    assert gpu.daemon.server != first


async def test_the_next_agent_keeps_the_daemon_and_knows_the_mode(gpu: OneGpu) -> None:
    await gpu.settle()
    pid = gpu.control.pid()
    socket = gpu.folder / gpu.uuid / "pipe" / "control"
    socket.unlink()  # killed before pods could see it
    successor = gpu.successor()
    assert await gpu.settle(daemon=successor) == ""
    assert socket.is_socket()
    assert (gpu.control.pid(), successor.starts) == (pid, 0)
    await successor.stop()
    assert gpu.mode() == DEFAULT
    assert gpu.control.pid() == 0


async def test_a_process_is_ended_by_its_number(gpu: OneGpu) -> None:
    await gpu.settle()
    gpu.add(7, kind="mps")
    await gpu.settle()
    assert gpu.daemon.look is not None
    assert gpu.daemon.look.clients == {7}
    await gpu.daemon.terminate(7)
    await gpu.settle()
    assert gpu.daemon.look.clients == frozenset()
    await gpu.daemon.terminate(99)


async def test_a_gpu_that_may_not_be_changed_gives_the_reason(gpu: OneGpu) -> None:
    with gpu.driver.open() as machine:
        machine.root = False
    with pytest.raises(NvmlError, match="needs root"):
        await gpu.settle()
    assert gpu.control.pid() == 0
    with gpu.driver.open() as machine:
        machine.root = True


def test_the_fake_library_has_the_mode_of_each_gpu() -> None:
    library = FakeNvml(machine_of(2))
    library.nvmlInit()
    first, second = (library.nvmlDeviceGetHandleByIndex(index) for index in range(2))
    library.nvmlDeviceSetComputeMode(first, EXCLUSIVE_PROCESS)
    assert library.nvmlDeviceGetComputeMode(first) == EXCLUSIVE_PROCESS
    assert library.nvmlDeviceGetComputeMode(second) == DEFAULT


async def test_what_the_daemon_refuses_is_an_error(tmp_path: Path) -> None:
    program = tmp_path / "no"
    program.write_text("#!/bin/sh\necho no daemon here >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(MpsError, match="no daemon here"):
        await MpsControl(tmp_path, "GPU-a", str(program)).servers()
