"""GPUs that are lost, sick, silent or back again."""

import pytest

from fairlead.sim.nvml import Fault, machine_of
from fairlead.telemetry.nvml.process import NvmlError
from fairlead.telemetry.nvml.survey import GONE
from fairlead.telemetry.nvml.xids import SICK, words
from nvml_in_process import a_surveyor

LOST, RESET_REQUIRED, UNINITIALIZED, NOT_LOADED = 15, 16, 1, 9


async def test_a_lost_gpu_is_listed_as_lost_and_the_others_go_on() -> None:
    machine = machine_of(3)
    surveyor, *_ = a_surveyor(machine)
    await surveyor.survey()
    machine.faults.append(Fault(uuid=machine.gpus[1].uuid, error=LOST))

    survey = await surveyor.survey()
    samples, troubles = await surveyor.sample()

    assert ["lost" in gpu.trouble for gpu in survey.gpus] == [False, True, False]
    assert set(samples) == {machine.gpus[0].uuid, machine.gpus[2].uuid}
    assert "lost" in troubles[machine.gpus[1].uuid]


async def test_a_gpu_that_fell_off_the_bus_is_kept_though_others_take_its_index() -> None:
    machine = machine_of(3)
    surveyor, *_ = a_surveyor(machine)
    await surveyor.survey()
    fallen = machine.gpus.pop(1)

    survey = await surveyor.survey()

    assert [(gpu.uuid, gpu.index) for gpu in survey.gpus] == [
        (machine.gpus[0].uuid, 0), (machine.gpus[1].uuid, 1), (fallen.uuid, GONE),
    ]  # fmt: skip
    assert survey.gpus[2].trouble.startswith("lost")

    machine.gpus.insert(1, fallen)
    survey = await surveyor.survey()
    assert [gpu.index for gpu in survey.gpus] == [0, 1, 2]
    assert not any(gpu.trouble for gpu in survey.gpus)


async def test_a_lost_gpu_does_not_keep_the_others_from_reporting_errors() -> None:
    """NVML answers for the whole set that one of its GPUs is lost."""
    machine = machine_of(2)
    surveyor, handler, _ = a_surveyor(machine)
    await surveyor.survey()
    await surveyor.xids()
    machine.gpus.pop(0)
    machine.gpus[0].xids.append(79)

    assert await surveyor.xids() == []
    seen = await surveyor.xids()

    assert [xid.number for xid in seen] == [79]
    assert handler.starts == 1


async def test_a_gpu_that_wants_a_reset_says_so() -> None:
    machine = machine_of(2)
    surveyor, *_ = a_surveyor(machine)
    await surveyor.survey()
    machine.faults.append(Fault(uuid=machine.gpus[0].uuid, error=RESET_REQUIRED))

    survey = await surveyor.survey()

    assert "reset" in survey.gpus[0].trouble


@pytest.mark.parametrize("number", [48, 64, 74, 79, 95, 119, 120, 140])
async def test_a_gpu_is_sick_after_an_xid_that_says_so(number: int) -> None:
    machine = machine_of(2)
    surveyor, *_ = a_surveyor(machine)
    await surveyor.survey()
    await surveyor.xids()
    machine.gpus[1].xids.append(number)

    seen = await surveyor.xids()
    survey = await surveyor.survey()

    assert [(xid.uuid, xid.number) for xid in seen] == [(machine.gpus[1].uuid, number)]
    assert [gpu.trouble for gpu in survey.gpus] == ["", f"Xid {number}: {SICK[number]}"]


@pytest.mark.parametrize("number", [13, 31, 43, 45, 63, 94])
async def test_what_a_program_did_or_the_gpu_dealt_with_is_no_sickness(number: int) -> None:
    machine = machine_of()
    surveyor, *_ = a_surveyor(machine)
    await surveyor.survey()
    await surveyor.xids()
    machine.gpus[0].xids.append(number)

    assert [xid.number for xid in await surveyor.xids()] == [number]
    assert not words(number)
    assert not (await surveyor.survey()).gpus[0].trouble


async def test_after_a_restart_of_the_driver_a_new_process_goes_on_and_sickness_is_over() -> None:
    machine = machine_of(2)
    surveyor, handler, _ = a_surveyor(machine)
    await surveyor.survey()
    await surveyor.xids()
    machine.gpus[0].xids.append(79)
    await surveyor.xids()
    machine.restart()

    with pytest.raises(NvmlError) as raised:
        await surveyor.survey()
    survey = await surveyor.survey()

    assert raised.value.code == UNINITIALIZED
    assert handler.starts == 2
    assert not any(gpu.trouble for gpu in survey.gpus)


async def test_a_driver_that_is_not_loaded_is_waited_for() -> None:
    machine = machine_of()
    machine.loaded = False
    surveyor, *_ = a_surveyor(machine)

    for _ in range(2):
        with pytest.raises(NvmlError) as raised:
            await surveyor.survey()
        assert raised.value.code == NOT_LOADED
    machine.loaded = True

    assert len((await surveyor.survey()).gpus) == 1
