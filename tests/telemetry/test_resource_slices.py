"""What the agent publishes of GPUs, and which slices it writes for it."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from fairlead.apps.agent.resource_slices.device_pool import pcie_root, pool_parts
from fairlead.apps.agent.resource_slices.device_reader import DeviceReader
from fairlead.apps.agent.resource_slices.node_devices import NodeDevices
from fairlead.apps.agent.resource_slices.slice_plan import FoundSlice, found_slice, slice_steps
from fairlead.apps.agent.resource_slices.slice_publisher import SlicePublisher
from fairlead.sim.nvml import FakeMachine, machine_of
from fairlead.telemetry.nvml.survey import GONE, GpuSurvey
from nvml_in_process import a_surveyor

Object = dict[str, Any]
A100 = "NVIDIA A100-SXM4-80GB"


def looked(machine: FakeMachine) -> tuple[GpuSurvey, DeviceReader]:
    async def look() -> tuple[GpuSurvey, DeviceReader]:
        surveyor, nvml, _ = a_surveyor(machine)
        reader, survey = DeviceReader(nvml), await surveyor.survey()
        await reader.read(survey)
        return survey, reader

    return asyncio.run(look())


def parts_of(machine: FakeMachine, *, divided: bool = True) -> list[Object]:
    survey, reader = looked(machine)
    return pool_parts(survey, reader.known, (), divided=divided)


def names(part: Object) -> list[str]:
    return [each["name"] for each in part.get("devices") or part["sharedCounters"]]


# -- devices ---------------------------------------------------------------------------------------


def test_ten_gpus_have_their_counters_in_two_slices() -> None:
    """The API allows eight sets in a slice."""
    parts = parts_of(machine_of(10))

    assert [len(names(part)) for part in parts] == [8, 2] + [26] * 10
    assert names(parts[1]) == ["gpu-8-counter-set", "gpu-9-counter-set"]


@pytest.mark.parametrize(("is_on", "first"), [(False, "gpu-0"), (True, "gpu-0-mig-1g10gb-19-0")])
def test_a_gpu_that_mig_resets_is_whole_or_divided(is_on: bool, first: str) -> None:
    machine = machine_of(1, A100)
    machine.gpus[0].mig = machine.gpus[0].mig_pending = is_on

    assert names(parts_of(machine)[-1])[0] == first
    assert ("gpu-0" in names(parts_of(machine)[-1])) == (not is_on)


def test_gpus_without_mig_stand_beside_divided_ones() -> None:
    machine = machine_of(2)
    machine.gpus[0].model = "NVIDIA L4"

    counters, small, large = parts_of(machine)

    assert names(counters) == ["gpu-1-counter-set"]
    assert names(small) == ["gpu-0"]
    assert "consumesCounters" not in small["devices"][0]
    assert len(names(large)) == 26


def test_a_gpu_with_mig_enabled_is_not_whole() -> None:
    machine = machine_of(2)
    machine.gpus[0].mig = machine.gpus[0].mig_pending = True

    assert [names(part) for part in parts_of(machine, divided=False)] == [["gpu-1"]]


def test_a_gpu_in_the_place_of_a_lost_one_has_its_name() -> None:
    """Two devices of one name would make the pool invalid."""
    survey, reader = looked(machine_of(1))
    gone = replace(survey.gpus[0], index=GONE, trouble="lost")
    new = replace(survey.gpus[0], uuid="GPU-new")
    known = dict(reader.known) | {"GPU-new": replace(reader.known[gone.uuid], uuid="GPU-new")}

    (part,) = pool_parts(
        GpuSurvey(survey.system, (gone, new)), known, (gone.uuid,), divided=False
    )  # fmt: skip

    assert [device["attributes"]["uuid"]["string"] for device in part["devices"]] == ["GPU-new"]


async def test_gpus_are_read_unless_their_slices_are_withdrawn() -> None:
    surveyor, nvml, _ = a_surveyor(machine_of(2))
    survey = await surveyor.survey()
    first, second, without = DeviceReader(nvml), DeviceReader(nvml), cast(SlicePublisher, None)

    await NodeDevices("whole", first, without).read(survey)
    await NodeDevices("withdraw", second, without).read(survey)

    assert first.known.keys() == {gpu.uuid for gpu in survey.gpus}
    assert not second.known


def test_the_root_complex_is_that_of_the_path(tmp_path: Path) -> None:
    device = tmp_path / "devices/pci0000:15/0000:15:01.0/0000:1b:00.0"
    device.mkdir(parents=True)
    links = tmp_path / "bus/pci/devices"
    links.mkdir(parents=True)
    (links / "0000:1b:00.0").symlink_to(device)

    assert pcie_root("0000:1b:00.0", tmp_path) == "pci0000:15"
    assert pcie_root("0000:ff:00.0", tmp_path) == pcie_root("", tmp_path) == ""


# -- slices ----------------------------------------------------------------------------------------


def stored(written: tuple[tuple[Object, str], ...], version: str = "7") -> list[FoundSlice]:
    """What the server has after all of it was written."""
    return [
        found_slice(one | {"metadata": {**one["metadata"], "resourceVersion": version}})
        for one, _ in written
    ]


PARTS = parts_of(machine_of(2))
FOUND = stored(slice_steps("n", "uid", PARTS, []).write)


def test_nothing_is_written_where_all_is_right() -> None:
    assert slice_steps("n", "uid", PARTS, FOUND).write == ()
    assert slice_steps("n", "uid", PARTS, FOUND).delete == ()


def test_one_change_replaces_its_slice_and_keeps_the_generation() -> None:
    changed = [*PARTS[:-1], {"devices": PARTS[-1]["devices"][:-1]}]

    ((slice_, version),) = slice_steps("n", "uid", changed, FOUND).write

    assert (slice_["metadata"]["name"], version) == (FOUND[-1].name, "7")
    assert slice_["spec"]["pool"]["generation"] == FOUND[0].generation


def test_a_kill_between_two_writes_ends_in_one_generation() -> None:
    """Whatever was written of a larger change, the next pass completes the pool."""
    wanted = parts_of(machine_of(3))
    steps = slice_steps("n", "uid", wanted, FOUND)
    for written in range(len(steps.write) + 1):
        new = {one.name: one for one in stored(steps.write[:written], "8")}
        there = {one.name: one for one in FOUND} | new

        rest = slice_steps("n", "uid", wanted, list(there.values()))
        there |= {one.name: one for one in stored(rest.write, "9")}
        for gone in rest.delete:
            del there[gone.name]

        assert len({(one.generation, one.count) for one in there.values()}) == 1
        assert slice_steps("n", "uid", wanted, list(there.values())).write == ()


def test_slices_of_others_are_neither_written_nor_deleted() -> None:
    foreign = found_slice(
        {
            "metadata": {"name": "0-gpu.nvidia.com-n-x7k2p", "resourceVersion": "3"},
            "spec": {
                "pool": {"generation": 9, "resourceSliceCount": 1},
                "devices": [{"name": "a"}],
            },
        }
    )

    steps = slice_steps("n", "uid", [], [*FOUND, foreign])

    assert not foreign.is_ours
    assert {one.name for one in steps.delete} == {one.name for one in FOUND}


def test_a_slice_of_an_earlier_node_is_written_for_the_new_one() -> None:
    steps = slice_steps("n", "another uid", PARTS, FOUND)

    owners = {one["metadata"]["ownerReferences"][0]["uid"] for one, _ in steps.write}
    assert owners == {"another uid"}
    assert len(steps.write) == len(PARTS)


def test_a_long_name_of_a_node_leaves_a_valid_name() -> None:
    node = ".".join(["a" * 60] * 4)
    written = slice_steps(node, "uid", PARTS, []).write

    assert all(len(one["metadata"]["name"]) <= 253 for one, _ in written)
    assert len({one["metadata"]["name"] for one, _ in written}) == len(PARTS)
