# ruff: noqa: N802 — methods are named after the calls that they stand for
"""The imagined NVML says what the real one said: same calls, same answers, same refusals."""

import ast
import ctypes
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from fairlead.sim.nvml import FakeMachine, FakeNvml, FakeProcess, Fault, FileStore, machine_of
from fairlead.sim.nvml.machine import SWITCH
from fairlead.telemetry.nvml.worker import NvmlHandler, NvmlQuery

H200 = Path(__file__).parents[1] / "fixtures" / "h200"
#: Sensors and clocks, which differ from one moment to the next: only their kind is compared.
VOLATILE = {
    "nvmlDeviceGetPowerUsage", "nvmlDeviceGetTemperature", "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetProcessUtilization", "nvmlDeviceGetFieldValues",
}  # fmt: skip
#: What nothing of ours asks for.
NOT_IMITATED = {
    "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetBoardPartNumber", "nvmlDeviceGetVbiosVersion", "nvmlGpmQueryDeviceSupport",
}  # fmt: skip
UUIDS_OF_SLICES = "MIG-"


def plain(value: Any) -> Any:
    """As the recording writes what NVML returns."""
    if isinstance(value, ctypes.Structure):
        return {name: plain(getattr(value, name)) for name, *_ in value._fields_}
    if isinstance(value, ctypes.Union):
        return "union"
    if isinstance(value, ctypes._Pointer):
        return {}
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, ctypes.Array | list | tuple):
        return [plain(one) for one in value]
    return vars(value) if isinstance(value, pynvml.nvmlFriendlyObject) else value


class Replay:
    """Asks the imagined library what the real one was asked, handle for handle."""

    def __init__(self) -> None:
        self.machine = machine_of()
        self.gpu = self.machine.gpus[0]
        self.gpu.uuid = "GPU-00000000-0000-0000-0000-000000000000"
        self.nvml = FakeNvml(self.machine)
        self.nvml.nvmlInit()
        self.device = self.nvml.nvmlDeviceGetHandleByIndex(0)
        self.gpus: list[Any] = []
        self.computes: list[Any] = []
        self.slices: list[Any] = []
        self.events: Any = None
        # The recording destroyed the first slice, was refused the second, and then put all away.
        self.gone_computes, self.gone_gpus = iter([0, 0, 1]), iter([0, 1, 0, 1])

    def scene(self, note: str) -> None:
        """What was going on beside the recorder."""
        busy = note.startswith("matrix products") or note == "while in use"
        torch = [FakeProcess(455, 1_050_673_152, busy=85, memory_busy=19)] if busy else []
        if note.startswith("torch"):
            torch = [FakeProcess(487, 465_567_744, 2, 0, 9_175_040)]
        self.gpu.processes = torch
        self.gpu.busy, self.gpu.memory_busy = (99, 23) if busy else (0, 0)
        if note == "after shutdown":
            self.nvml.nvmlShutdown()

    def ask(self, record: dict[str, Any]) -> Any:
        self.scene(record.get("note") or "")
        name = record["call"]
        answer = getattr(self, name, self.usual)(record)
        if name == "nvmlDeviceCreateGpuInstanceWithPlacement":
            self.gpus.append(answer)
        if name == "nvmlGpuInstanceCreateComputeInstance":
            self.computes.append(answer)
        return plain(answer)

    def usual(self, record: dict[str, Any]) -> Any:
        call, args = getattr(self.nvml, record["call"]), record.get("args", [])
        if args and args[0] == "handle":
            args = [self.target(record), *args[1:]]
        args = [self.device if arg == "handle" else arg for arg in args]
        return call(*args)

    def target(self, record: dict[str, Any]) -> Any:
        name, note = record["call"], record.get("note") or ""
        if name == "nvmlComputeInstanceDestroy":
            return self.computes[next(self.gone_computes)]
        if name == "nvmlGpuInstanceDestroy":
            return self.gpus[next(self.gone_gpus)]
        if name.startswith("nvmlGpuInstance"):
            return self.gpus[-1]
        if name.startswith("nvmlComputeInstance"):
            return self.computes[-1]
        slice_ = re.search(r"MIG device (\d)", note)
        return self.slices[int(slice_[1])] if slice_ else self.device

    # -- calls that want more than their arguments say ---------------------------------------------

    def nvmlDeviceGetMemoryInfo(self, record: dict[str, Any]) -> Any:
        version = pynvml.nvmlMemory_v2 if record["note"].endswith(" v2") else None
        return self.nvml.nvmlDeviceGetMemoryInfo(self.target(record), version)

    def nvmlDeviceGetGpuFabricInfoV(self, _record: dict[str, Any]) -> Any:
        info = pynvml.c_nvmlGpuFabricInfoV_t()
        self.nvml.nvmlDeviceGetGpuFabricInfoV(self.device, ctypes.byref(info))
        return info

    def nvmlDeviceGetFieldValues(self, _record: dict[str, Any]) -> Any:
        return self.nvml.nvmlDeviceGetFieldValues(self.device, [91, 186, 138])

    def nvmlEventSetCreate(self, _record: dict[str, Any]) -> Any:
        self.events = self.nvml.nvmlEventSetCreate()
        return self.events

    def nvmlDeviceRegisterEvents(self, _record: dict[str, Any]) -> Any:
        return self.nvml.nvmlDeviceRegisterEvents(self.device, 8, self.events)

    def nvmlEventSetWait_v2(self, _record: dict[str, Any]) -> Any:
        return self.nvml.nvmlEventSetWait_v2(self.events, 1)

    def nvmlDeviceGetGpuInstancePossiblePlacements(self, record: dict[str, Any]) -> Any:
        return [[one.start, one.size] for one in places(self.nvml, self.device, record["args"][1])]

    def nvmlDeviceGetGpuInstances(self, record: dict[str, Any]) -> Any:
        array, count = (pynvml.c_nvmlGpuInstance_t * 8)(), ctypes.c_uint()
        profile = record["args"][1]
        self.nvml.nvmlDeviceGetGpuInstances(self.device, profile, array, ctypes.byref(count))
        return [self.nvml.nvmlGpuInstanceGetInfo(one) for one in array[: count.value]]

    def nvmlDeviceCreateGpuInstanceWithPlacement(self, record: dict[str, Any]) -> Any:
        start, size = map(int, record["note"].rpartition(" at ")[2].split(":"))
        return make(self.nvml, self.device, record["args"][1], start, size)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, record: dict[str, Any]) -> Any:
        found = self.nvml.nvmlDeviceGetMigDeviceHandleByIndex(self.device, record["args"][1])
        self.slices.append(found)
        return found


def places(nvml: Any, device: Any, profile: int) -> list[Any]:
    array, count = (pynvml.c_nvmlGpuInstancePlacement_t * 8)(), ctypes.c_uint()
    nvml.nvmlDeviceGetGpuInstancePossiblePlacements(device, profile, array, ctypes.byref(count))
    return list(array[: count.value])


def make(nvml: Any, device: Any, profile: int, start: int, size: int) -> Any:
    place = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
    return nvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, profile, ctypes.byref(place))


def recorded() -> Iterator[dict[str, Any]]:
    for record in json.loads((H200 / "nvml.json").read_text()):
        if record.get("call") not in {None, *NOT_IMITATED}:
            yield record


def kind(value: Any) -> Any:
    """The form of an answer whose figures differ from one moment to the next."""
    if isinstance(value, dict):
        return {key: kind(one) for key, one in value.items()}
    return [kind(one) for one in value] if isinstance(value, list) else type(value)


def same(name: str, answer: Any, expected: Any) -> bool:
    if name in VOLATILE:
        return bool(kind(answer) == kind(expected))
    if isinstance(expected, str) and expected.startswith(UUIDS_OF_SLICES):
        return bool(re.fullmatch(r"MIG-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", answer))
    if isinstance(expected, dict) and "version" in expected:  # of the structure, not of the GPU
        expected = {**expected, "version": answer["version"]}
    return bool(answer == expected)


def test_it_answers_as_the_h200_answered() -> None:
    replay, wrong = Replay(), []
    for record in recorded():
        try:
            answer, error = replay.ask(record), 0
        except pynvml.NVMLError as refused:
            answer, error = str(refused), refused.value
        expected = record["text"] if "error" in record else record.get("value")
        if error != record.get("error", 0) or not same(record["call"], answer, expected):
            wrong.append((record["call"], record.get("args"), record.get("note"), answer, expected))
    assert wrong == []


def numbered(nvml: FakeNvml, device: Any) -> dict[int, Any]:
    infos = {}
    for number in range(17):
        try:
            infos[number] = nvml.nvmlDeviceGetGpuInstanceProfileInfo(device, number)
        except pynvml.NVMLError_NotSupported:
            continue
    return infos


def lines(word: str) -> Iterator[tuple[list[int], str]]:
    for line in (H200 / "mig_ids.txt").read_text().splitlines():
        if line.startswith(word + " "):
            asked, _, answer = line.removeprefix(word + " ").partition(": ")
            yield [int(part) for part in asked.split()], answer


def cut_h200(root: bool = True) -> tuple[FakeMachine, FakeNvml, Any, dict[int, Any]]:
    machine = machine_of()
    machine.gpus[0].mig = machine.gpus[0].mig_pending = True
    machine.root = root
    nvml = FakeNvml(machine)
    nvml.nvmlInit()
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    return machine, nvml, device, numbered(nvml, device)


def sizes() -> dict[tuple[int, int], int]:
    return {(number, start): size for (number, _, start, size), _ in lines("alone")}


def cut(nvml: FakeNvml, device: Any, infos: dict[int, Any], number: int, start: int) -> Any:
    return make(nvml, device, infos[number].id, start, sizes()[number, start])


@pytest.mark.parametrize(("asked", "answer"), list(lines("alone")))
def test_each_place_alone_has_the_recorded_id_and_name(asked: list[int], answer: str) -> None:
    _, nvml, device, infos = cut_h200()
    number, profile, start, size = asked
    assert infos[number].id == profile
    instance = make(nvml, device, profile, start, size)
    id_, compute_profile, name = answer.split(" ", 2)
    compute = nvml.nvmlGpuInstanceCreateComputeInstance(instance, int(compute_profile))
    assert nvml.nvmlGpuInstanceGetInfo(instance).id == int(id_)
    assert nvml.nvmlComputeInstanceGetInfo_v2(compute).id == 0
    found = nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, 0)
    assert nvml.nvmlDeviceGetName(found) == name


@pytest.mark.parametrize(("asked", "answer"), list(lines("beside")))
def test_beside_others_a_place_has_the_same_id(asked: list[int], answer: str) -> None:
    _, nvml, device, infos = cut_h200()
    id_, _, before = answer.partition(" ")
    for number, start in ast.literal_eval(before):
        cut(nvml, device, infos, number, start)
    instance = cut(nvml, device, infos, *asked)
    assert nvml.nvmlGpuInstanceGetInfo(instance).id == int(id_)


@pytest.mark.parametrize(("asked", "answer"), list(lines("refused")))
def test_a_second_slice_with_media_engines_is_refused(asked: list[int], answer: str) -> None:
    _, nvml, device, infos = cut_h200()
    text, _, before = answer.partition(" [")
    for number, start in ast.literal_eval("[" + before):
        cut(nvml, device, infos, number, start)
    with pytest.raises(pynvml.NVMLError) as refused:
        make(nvml, device, infos[asked[0]].id, *asked[1:])
    assert str(refused.value) == text


def _as_recorded(value: object) -> object:
    """Without the memory of each kind of slice, which is asked for since the recording."""
    for kind in value.get("cuts", ()) if isinstance(value, dict) else ():
        del kind["memoryMib"]
    return value


def test_cut_at_random_it_answers_as_the_h200_did() -> None:
    """What `tests/hardware/verify_h200_mig.py` asked a real GPU."""
    machine, nvml, *_ = cut_h200()
    machine.gpus[0].uuid = uuid = "GPU-00000000-0000-0000-0000-000000000000"
    desk = NvmlHandler(nvml)
    for number, line in enumerate((H200 / "mig_replay.jsonl").read_text().splitlines()):
        record = json.loads(line)
        what, *args = record["ask"]
        answer = desk.answer(NvmlQuery(what, [uuid, *args]))
        said = (_as_recorded(json.loads(bytes(answer.value))), answer.error)
        assert said == (record["value"], record["error"]), (number, what, args)


def test_what_others_destroyed_is_remembered_until_it_begins_anew() -> None:
    machine, nvml, device, infos = cut_h200()
    instance = cut(nvml, device, infos, 0, 0)
    with pytest.raises(pynvml.NVMLError_NotFound):
        nvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0)
    nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
    nvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0)
    machine.gpus[0].instances[0].computes.clear()
    stale = nvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlComputeInstanceDestroy(stale)
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    instance = nvml.nvmlDeviceGetGpuInstanceById(device, 7)
    with pytest.raises(pynvml.NVMLError_NotFound):
        nvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0)


def test_nobody_may_read_but_not_cut() -> None:
    """As `nobody.txt`: who is not root reads all that is there, and changes nothing."""
    machine, nvml, device, infos = cut_h200(root=False)
    assert nvml.nvmlDeviceGetComputeRunningProcesses(device) == []
    with pytest.raises(pynvml.NVMLError_NoPermission):
        nvml.nvmlDeviceSetMigMode(device, 0)
    with pytest.raises(pynvml.NVMLError_NoPermission):
        cut(nvml, device, infos, 0, 0)
    assert machine.gpus[0].mig


def test_a_slice_in_use_is_not_destroyed() -> None:
    machine, nvml, device, infos = cut_h200()
    instance = cut(nvml, device, infos, 0, 0)
    compute = nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
    machine.gpus[0].processes = [FakeProcess(9, 1, gpu_instance=7, compute_instance=0)]
    with pytest.raises(pynvml.NVMLError_InUse):
        nvml.nvmlComputeInstanceDestroy(compute)
    machine.gpus[0].processes = []
    assert nvml.nvmlComputeInstanceDestroy(compute) == 0


def test_an_old_gpu_waits_for_its_reset_until_it_is_empty() -> None:
    machine = machine_of(1, "NVIDIA A100-SXM4-40GB")
    machine.gpus[0].processes = [FakeProcess(9)]
    nvml = FakeNvml(machine)
    nvml.nvmlInit()
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceSetMigMode(device, 1) == pynvml.NVML_ERROR_IN_USE
    assert nvml.nvmlDeviceGetMigMode(device) == [0, 1]


# -- machines, faults and files --------------------------------------------------------------------


def test_eight_gpus_are_joined_by_switches() -> None:
    nvml = FakeNvml(machine_of(8, wiring="switch"))
    nvml.nvmlInit()
    first, last = nvml.nvmlDeviceGetHandleByIndex(0), nvml.nvmlDeviceGetHandleByIndex(7)
    assert nvml.nvmlDeviceGetTopologyCommonAncestor(first, last) == pynvml.NVML_TOPOLOGY_SYSTEM
    assert [nvml.nvmlDeviceGetNvLinkState(first, link) for link in range(18)] == [1] * 18
    switch = nvml.nvmlDeviceGetNvLinkRemoteDeviceType(first, 0)
    assert switch == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
    assert list(nvml.nvmlDeviceGetMemoryAffinity(last, 2, 0)) == [2, 0]


def test_bridges_lead_to_gpus() -> None:
    machine = machine_of(2, "NVIDIA A30")
    one, two = machine.gpus
    one.links, two.links = [two.uuid, ""], [one.uuid, SWITCH]
    nvml = FakeNvml(machine)
    nvml.nvmlInit()
    first = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetNvLinkRemotePciInfo(first, 0).busId == two.bus_id
    assert nvml.nvmlDeviceGetNvLinkState(first, 1) == 0


def test_a_lost_gpu_leaves_the_others_alone() -> None:
    machine = machine_of(2)
    lost = pynvml.NVML_ERROR_GPU_IS_LOST
    machine.faults = [Fault(uuid=machine.gpus[0].uuid, error=lost)]
    nvml = FakeNvml(machine)
    nvml.nvmlInit()
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(2)]
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        nvml.nvmlDeviceGetPowerUsage(handles[0])
    assert nvml.nvmlDeviceGetPowerUsage(handles[1])


def test_gpus_may_change_places() -> None:
    machine = machine_of(2)
    nvml = FakeNvml(machine)
    nvml.nvmlInit()
    first = nvml.nvmlDeviceGetHandleByIndex(0)
    machine.gpus.reverse()
    assert nvml.nvmlDeviceGetIndex(first) == 1
    assert nvml.nvmlDeviceGetUUID(first) == machine.gpus[1].uuid


def test_a_restart_of_the_driver_wants_a_new_beginning() -> None:
    machine, nvml, device, infos = cut_h200()
    cut(nvml, device, infos, 0, 0)
    machine.restart()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        nvml.nvmlDeviceGetCount()
    nvml.nvmlInit()
    assert nvml.nvmlDeviceGetMigMode(nvml.nvmlDeviceGetHandleByIndex(0)) == [0, 0]
    machine.loaded = False
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        nvml.nvmlInit()


def test_an_xid_is_told_once_to_who_asked() -> None:
    machine = machine_of(2)
    nvml = FakeNvml(machine)
    nvml.nvmlInit()
    device, events = nvml.nvmlDeviceGetHandleByIndex(1), nvml.nvmlEventSetCreate()
    nvml.nvmlDeviceRegisterEvents(device, pynvml.nvmlEventTypeXidCriticalError, events)
    machine.gpus[0].xids, machine.gpus[1].xids = [13], [79]
    found = nvml.nvmlEventSetWait_v2(events, 0)
    assert (found.eventData, nvml.nvmlDeviceGetIndex(found.device)) == (79, 1)
    with pytest.raises(pynvml.NVMLError_Timeout):
        nvml.nvmlEventSetWait_v2(events, 0)


def test_a_file_outlives_the_program(tmp_path: Path) -> None:
    path = tmp_path / "driver.json"
    first = FakeNvml(FileStore(path, machine_of()))
    first.nvmlInit()
    first.nvmlDeviceSetMigMode(first.nvmlDeviceGetHandleByIndex(0), 1)
    second = FakeNvml(FileStore(path))
    second.nvmlInit()
    assert second.nvmlDeviceGetMigMode(second.nvmlDeviceGetHandleByIndex(0)) == [1, 1]


def test_what_is_not_imitated_is_not_found() -> None:
    nvml = FakeNvml(machine_of())
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        nvml.nvmlDeviceGetVbiosVersion(None)
    assert nvml.NVML_ERROR_IN_USE == pynvml.NVML_ERROR_IN_USE
