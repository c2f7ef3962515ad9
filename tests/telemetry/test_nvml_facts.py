"""What is made of NVML's answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead.apps.agent.listing import listing
from fairlead.base.node_inventory import write
from fairlead.kube.dialects import inventory
from fairlead.sim.nvml import FakeGpu, FakeMachine, FakeNvml, FakeProcess, machine_of
from fairlead.sim.nvml.machine import SWITCH
from fairlead.telemetry.nvml import gpus, links
from fairlead.telemetry.nvml.facts import GpuFacts
from fairlead.telemetry.nvml.samples import Sampler
from nvml_in_process import a_surveyor

FIXTURES = Path(__file__).parents[1] / "fixtures" / "h200"
RECORDS: list[dict[str, Any]] = json.loads((FIXTURES / "nvml.json").read_text())


def recorded(call: str, note: str = "idle, MIG off") -> Any:
    return next(
        record["value"]
        for record in RECORDS
        if record.get("call") == call and record.get("note") in (note, None) and "value" in record
    )


def library(machine: FakeMachine) -> FakeNvml:
    nvml = FakeNvml(machine)
    nvml.nvmlInit()
    return nvml


def described(machine: FakeMachine, index: int = 0) -> GpuFacts:
    return gpus.describe(library(machine), index)


def test_an_h200_is_listed_as_its_driver_described_it() -> None:
    nvml = library(machine_of())
    system, gpu = gpus.system(nvml), gpus.describe(nvml, 0)

    assert system.driver == recorded("nvmlSystemGetDriverVersion")
    assert system.cuda == "13.0"
    assert gpu.model == recorded("nvmlDeviceGetName")
    assert gpu.memory_mib == recorded("nvmlDeviceGetMemoryInfo")["total"] >> 20
    assert gpu.numa == 0  # the affinity that was recorded has bit 0 set
    assert gpu.pci == recorded("nvmlDeviceGetPciInfo")["busIdLegacy"]
    assert (gpu.mig, gpu.mig_on, gpu.cuts, gpu.trouble) == (True, False, (), "")
    assert gpu.clique == ""
    assert gpu.nvlinks == {}


def test_a_gpu_that_is_cut_lists_the_places_that_nvidia_smi_prints() -> None:
    machine = machine_of()
    machine.gpus[0].mig = True

    cuts = {cut.name: cut.starts for cut in described(machine).cuts}

    named = {}
    for line in (FIXTURES / "mig_lgip.txt").read_text().splitlines():
        words = line.split()
        if "MIG" in words and "+me" not in line:
            named[int(words[4])] = words[3]
    printed = {}
    for line in (FIXTURES / "mig_lgipp.txt").read_text().splitlines():
        number = int(line.split("ID")[1].split()[0])
        starts = line.partition("{")[2].partition("}")[0].split(",")
        if number in named:
            printed[named[number]] = tuple(map(int, starts))
    assert cuts == printed
    assert len(cuts) == 6


def test_gpus_at_a_switch_are_joined_as_nvidia_smi_would_say() -> None:
    machine = machine_of(8, wiring="switch")
    nvml = library(machine)
    found = [gpus.describe(nvml, index) for index in range(8)]

    assert links.fabric(found) == "nvswitch"
    assert links.nvlink_word(found[0], found[7]) == "NV18"


def test_a_link_that_is_down_is_not_counted() -> None:
    machine = machine_of(2, wiring="switch")
    machine.gpus[0].links[3] = ""
    nvml = library(machine)

    word = links.nvlink_word(gpus.describe(nvml, 0), gpus.describe(nvml, 1))

    assert word == "NV17"


def test_one_gpu_at_a_switch_makes_it_the_fabric_of_the_machine() -> None:
    machine = machine_of(2, wiring="switch")
    machine.gpus[1].links = []
    nvml = library(machine)

    assert links.fabric([gpus.describe(nvml, index) for index in range(2)]) == "nvswitch"


def test_gpus_joined_pair_by_pair_say_how_often() -> None:
    machine = machine_of(3)
    one, two, _ = machine.gpus
    one.links, two.links = [two.uuid, two.uuid], [one.uuid, one.uuid]
    nvml = library(machine)
    found = [gpus.describe(nvml, index) for index in range(3)]

    assert links.fabric(found) == "nvlink"
    assert links.nvlink_word(found[0], found[1]) == "NV2"
    assert links.nvlink_word(found[0], found[2]) == ""


async def test_what_the_bus_says_goes_where_there_is_no_nvlink() -> None:
    machine = machine_of(3)
    machine.paths = [["X", "PIX", "SYS"], ["PIX", "X", "NODE"], ["SYS", "NODE", "X"]]
    surveyor, *_ = a_surveyor(machine)

    listed = listing(await surveyor.survey())

    assert [gpu.links for gpu in listed.gpus] == machine.paths
    assert listed.fabric == "pcie"


def test_gpus_of_an_nvlink_domain_name_it() -> None:
    machine = machine_of(2, wiring="switch")
    machine.cluster_uuid, machine.clique = "0123456789abcdef0123456789abcdef", 3

    assert described(machine).clique == "01234567-89ab-cdef-0123-456789abcdef.3"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((1, 0, 0, 0), ""),
        ((0, 1, 1, 0), "wait to be replaced"),
        ((0, 1, 1, 1), "have the GPU replaced"),
    ],
)
def test_rows_of_memory_that_failed_are_told(rows: tuple[int, int, int, int], words: str) -> None:
    machine = machine_of()
    machine.gpus[0].remapped = rows

    trouble = described(machine).trouble

    assert words in trouble if words else not trouble


def test_a_reading_under_load() -> None:
    machine = machine_of()
    gpu = machine.gpus[0]
    gpu.busy, gpu.memory_busy, gpu.power_mw, gpu.temperature_c = 99, 23, 688_853, 55
    gpu.processes = [FakeProcess(455, 1_050_673_152, busy=85)]

    sample = Sampler(library(machine)).sample(gpu.uuid)

    assert (sample.utilization, sample.memory_busy) == (0.99, 0.23)
    assert (sample.power_w, sample.temperature_c) == (688.853, 55)
    assert sample.memory_total_bytes == recorded("nvmlDeviceGetMemoryInfo")["total"]
    assert sample.nvlink_bytes == {}
    (process,) = sample.processes
    assert (process.pid, process.memory_bytes, process.utilization) == (455, 1_050_673_152, 0.85)
    assert process.instance is None


def test_who_only_draws_is_told_apart_from_who_computes() -> None:
    machine = machine_of()
    machine.gpus[0].processes = [
        FakeProcess(1, kind="graphics"), FakeProcess(2, kind="mps"), FakeProcess(3),
    ]  # fmt: skip

    found = Sampler(library(machine)).sample(machine.gpus[0].uuid).processes

    assert {each.pid: each.draws for each in found} == {1: True, 2: False, 3: False}


def test_an_idle_gpu_uses_no_memory_as_nvidia_smi_counts() -> None:
    """What the driver keeps for itself is in the older answer, and in no board of anybody's."""
    machine = machine_of()

    assert Sampler(library(machine)).sample(machine.gpus[0].uuid).memory_used_bytes == 0


def test_what_nvml_does_not_tell_of_a_cut_gpu_is_left_out() -> None:
    machine = machine_of()
    machine.gpus[0].mig = True

    sample = Sampler(library(machine)).sample(machine.gpus[0].uuid)

    assert (sample.utilization, sample.memory_busy) == (None, None)
    assert sample.power_w is not None


def test_bytes_over_nvlink_are_told_by_direction() -> None:
    machine = machine_of(2, wiring="switch")
    machine.gpus[0].link_kib = (3, 5)

    sample = Sampler(library(machine)).sample(machine.gpus[0].uuid)

    assert sample.nvlink_bytes == {"tx": 3 << 10, "rx": 5 << 10}


def test_a_driver_without_values_of_fields_tells_all_else() -> None:
    machine = machine_of(2, wiring="switch")

    class Older(FakeNvml):
        nvmlDeviceGetFieldValues = None  # noqa: N815 - a function of NVML

    older = Older(machine)
    older.nvmlInit()
    sample = Sampler(older).sample(machine.gpus[0].uuid)

    assert sample.nvlink_bytes == {}
    assert sample.memory_total_bytes


async def test_what_is_listed_is_read_back_as_it_was() -> None:
    machine = machine_of(4, wiring="switch")
    machine.gpus[2].mig = True
    machine.gpus[3].remapped = (0, 1, 0, 1)
    surveyor, *_ = a_surveyor(machine)

    listed = listing(await surveyor.survey(), toolkit="1.17.8")
    found = inventory.read(write(listed))

    assert [gpu.uuid for gpu in found.gpus] == [gpu.uuid for gpu in machine.gpus]
    assert [gpu.healthy for gpu in found.gpus] == [True, True, True, False]
    assert [len(gpu.mig) for gpu in found.gpus] == [0, 0, 6, 0]
    assert found.links[0][1] > 0
    assert found.named


async def test_beside_a_device_plugin_gpus_are_counted_and_not_named() -> None:
    surveyor, *_ = a_surveyor(machine_of(2))

    found = inventory.read(write(listing(await surveyor.survey(), plugin=True)))

    assert not found.named
    assert [gpu.model for gpu in found.gpus] == ["NVIDIA H200"] * 2


def test_the_kernel_knows_the_numa_node_where_nvml_does_not(tmp_path: Path) -> None:
    from fairlead.apps.agent.listing import numa_of

    device = tmp_path / "bus/pci/devices/0000:1b:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")

    assert numa_of("0000:1b:00.0", tmp_path) == 1
    assert numa_of("0000:1c:00.0", tmp_path) == -1


def test_a_switch_is_not_mistaken_for_a_gpu() -> None:
    gpu = FakeGpu("GPU-a", links=[SWITCH, SWITCH])
    machine = FakeMachine([gpu])

    assert described(machine).nvlinks == {"": 2}
