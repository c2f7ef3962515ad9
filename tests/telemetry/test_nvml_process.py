"""NVML in a process of its own: it may hang, end or be missing, and we go on."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fairlead.sim.nvml import Fault, FileStore, machine_of
from fairlead.telemetry.nvml.facts import GpuSample, System
from fairlead.telemetry.nvml.process import Nvml, NvmlError, NvmlUnavailable
from fairlead.telemetry.nvml.survey import SILENCE_S, Surveyor
from nvml_in_process import Clock

LIBRARY = "fairlead.sim.nvml.shared:library"
pytestmark = pytest.mark.program


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileStore]:
    """What the processes share, as a driver outlives programs."""
    file = tmp_path / "machine.json"
    monkeypatch.setenv("FAIRLEAD_NVML_FILE", str(file))
    return FileStore(file, machine_of(2))


@pytest.fixture
async def nvml(driver: FileStore) -> AsyncIterator[Nvml]:
    asked = Nvml(LIBRARY, limit_s=15.0)
    yield asked
    await asked.close()


async def test_answers_come_from_another_process(nvml: Nvml) -> None:
    system = await nvml.ask(System, "system")
    again = await nvml.ask(System, "system")

    assert system.count == 2
    assert again == system
    assert nvml.starts == 1


async def test_a_call_that_hangs_is_given_up_and_the_next_process_answers(
    driver: FileStore, nvml: Nvml
) -> None:
    await nvml.ask(System, "system")
    with driver.open() as machine:
        machine.faults.append(Fault("nvmlDeviceGetCount", hangs=True, times=1))

    with pytest.raises(NvmlUnavailable, match="did not answer"):
        await nvml.ask(System, "system")

    assert (await nvml.ask(System, "system")).count == 2
    assert nvml.starts == 2


async def test_a_gpu_about_which_nvml_hangs_spoils_no_other(driver: FileStore, nvml: Nvml) -> None:
    clock = Clock()
    surveyor = Surveyor(nvml, clock)
    one, two = (gpu.uuid for gpu in (await surveyor.survey()).gpus)
    with driver.open() as machine:
        machine.faults.append(Fault(uuid=one, hangs=True))

    samples, troubles = await surveyor.sample()
    survey = await surveyor.survey()

    assert (set(samples), set(troubles)) == ({two}, {one})
    assert [bool(gpu.trouble) for gpu in survey.gpus] == [True, False]
    assert nvml.starts == 2  # it was left alone after the first time

    with driver.open() as machine:
        machine.faults.clear()
    clock.now_s += SILENCE_S
    assert not any(gpu.trouble for gpu in (await surveyor.survey()).gpus)


async def test_a_process_that_is_killed_is_replaced(nvml: Nvml) -> None:
    await nvml.ask(System, "system")
    assert nvml._process is not None
    nvml._process.kill()

    with pytest.raises(NvmlUnavailable, match="ended"):
        await nvml.ask(System, "system")

    assert (await nvml.ask(System, "system")).count == 2


async def test_who_cannot_be_ended_is_not_joined_by_ever_more(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process in an uninterruptible call outlives its SIGKILL."""
    for _ in range(4):
        nvml._leaving.add(asyncio.ensure_future(asyncio.sleep(60, 0)))

    with pytest.raises(NvmlUnavailable, match="blocked in the driver"):
        await nvml.ask(System, "system")

    assert nvml.starts == 0


async def test_a_library_that_is_not_installed_is_named() -> None:
    nvml = Nvml("no_such_nvml")
    try:
        with pytest.raises(NvmlError, match=r"no_such_nvml.*install fairlead\[agent\]"):
            await nvml.ask(System, "system")
    finally:
        await nvml.close()


async def test_many_questions_at_once_are_asked_one_by_one(nvml: Nvml) -> None:
    system = await nvml.ask(System, "system")
    uuids = [f"GPU-{n:08x}-0000-4000-8000-00000000000{n}" for n in (0, 1)]
    asked = [nvml.ask(GpuSample, "sample", uuid) for uuid in uuids * 10]

    answers = await asyncio.gather(*asked)

    assert system.count == 2
    assert [answer.uuid for answer in answers] == uuids * 10


async def test_closing_ends_the_process(nvml: Nvml) -> None:
    await nvml.ask(System, "system")
    process = nvml._process
    assert process is not None

    await nvml.close()

    until = time.monotonic() + 60
    while process.returncode is None and time.monotonic() < until:
        await asyncio.sleep(0.01)
    assert process.returncode is not None
