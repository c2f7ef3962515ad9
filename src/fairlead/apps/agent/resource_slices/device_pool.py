"""The GPUs of a node as devices of NVIDIA's DRA driver, slice by slice of their pool."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from fairlead.apps.agent.listing import SYSFS, numa_of
from fairlead.base import nvidia_devices
from fairlead.base.nvidia_devices import MigLayout, Object, text_attribute, version_attribute
from fairlead.telemetry.nvml.device_facts import DeviceFacts, MigProfileFacts
from fairlead.telemetry.nvml.facts import GpuFacts, System
from fairlead.telemetry.nvml.survey import GONE, GpuSurvey

#: `withdraw` deletes what was published before.
Mode = Literal["none", "whole", "mig", "withdraw"]
MODES: tuple[Mode, ...] = ("none", "whole", "mig", "withdraw")

#: The attribute that tells devices of the agent from those of a driver.
MARK = "fairlead.dev/publisher"
MARKED = {"string": "agent"}
LOST = "gpu.nvidia.com/gpu-lost"
UNHEALTHY = "fairlead.dev/unhealthy"
_STANDARD = "resource.kubernetes.io"
#: Counter sets in one slice, and devices with taints or counters.
_MOST_SETS, _MOST_DEVICES = 8, 64

Described = tuple[GpuFacts, DeviceFacts]


def pool_parts(
    survey: GpuSurvey,
    known: Mapping[str, DeviceFacts],
    unhealthy: Collection[str],
    *,
    divided: bool,
    sysfs: Path = SYSFS,
) -> list[Object]:
    """What each slice of the pool has, in order: counters, or devices.

    GPUs that are not known are left out. Devices of an unhealthy one are tainted, so that no new
    pod gets them.
    """
    gpus = _named_once((gpu, known[gpu.uuid]) for gpu in survey.gpus if gpu.uuid in known)
    pool = _Pool(survey.system, unhealthy, sysfs)
    if divided and any(facts.profiles for _, facts in gpus):
        return pool.divided(sorted(gpus, key=lambda each: each[0].pci))
    whole = sorted((each for each in gpus if not each[0].mig_on), key=lambda each: each[1].minor)
    return [{"devices": some} for some in _chunks(map(pool.whole, whole), _MOST_DEVICES)]


def _named_once(gpus: Iterable[Described]) -> list[Described]:
    """A GPU that took the place of a lost one has its number: only the new one is published."""
    found: dict[int, Described] = {}
    for each in sorted(gpus, key=lambda one: one[0].index == GONE):
        found.setdefault(each[1].minor, each)
    return list(found.values())


class _Pool:
    def __init__(self, system: System, unhealthy: Collection[str], sysfs: Path) -> None:
        self._system = system
        self._unhealthy = unhealthy
        self._sysfs = sysfs

    def whole(self, described: Described) -> Object:
        gpu, facts = described
        device = nvidia_devices.whole_device(facts.minor, self._gpu(gpu, facts), facts.memory_bytes)
        return self._tainted(gpu, device)

    def divided(self, gpus: Sequence[Described]) -> list[Object]:
        """Counters first, then a slice for each GPU: the GPU itself and all its places."""
        layouts = {facts.uuid: [*map(_layout, facts.profiles)] for _, facts in gpus}
        sets = [
            nvidia_devices.counter_set(facts.minor, layouts[facts.uuid])
            for _, facts in gpus
            if facts.profiles
        ]
        parts: list[Object] = [{"sharedCounters": some} for some in _chunks(sets, _MOST_SETS)]
        devices = [
            [*self._devices(gpu, facts, layouts[facts.uuid])] for gpu, facts in gpus
        ]  # fmt: skip
        return [*parts, *({"devices": some} for some in devices if some)]

    def _devices(
        self, gpu: GpuFacts, facts: DeviceFacts, layouts: Sequence[MigLayout]
    ) -> Iterator[Object]:
        if not layouts:
            yield self.whole((gpu, facts))
            return
        minor, common = facts.minor, self._common(gpu, facts)
        if facts.whole:
            attributes = self._gpu(gpu, facts)
            whole = nvidia_devices.divisible_device(minor, attributes, layouts)
            yield self._tainted(gpu, whole)
        part = {"type": text_attribute("mig"), "parentUUID": text_attribute(gpu.uuid)} | common
        for device in nvidia_devices.slice_devices(minor, part, layouts):
            yield self._tainted(gpu, device)

    def _gpu(self, gpu: GpuFacts, facts: DeviceFacts) -> Object:
        return {"type": text_attribute("gpu"), "uuid": text_attribute(gpu.uuid)} | self._common(
            gpu, facts
        )

    def _common(self, gpu: GpuFacts, facts: DeviceFacts) -> Object:
        """Attributes that the GPU and its slices have."""
        root = pcie_root(gpu.pci, self._sysfs)
        numa = gpu.numa if gpu.numa >= 0 else numa_of(gpu.pci, self._sysfs)
        found = {
            "productName": text_attribute(gpu.model),
            "brand": text_attribute(facts.brand),
            "architecture": text_attribute(facts.architecture),
            "cudaComputeCapability": version_attribute(facts.capability),
            "driverVersion": version_attribute(self._system.driver),
            "cudaDriverVersion": version_attribute(self._system.cuda),
            "addressingMode": text_attribute(facts.addressing) if facts.addressing else None,
            f"{_STANDARD}/pciBusID": text_attribute(gpu.pci) if gpu.pci else None,
            f"{_STANDARD}/pcieRoot": text_attribute(root) if root else None,
            f"{_STANDARD}/numaNode": {"int": numa} if numa >= 0 else None,
            MARK: MARKED,
        }
        return {name: value for name, value in found.items() if value is not None}

    def _tainted(self, gpu: GpuFacts, device: Object) -> Object:
        if gpu.uuid not in self._unhealthy:
            return device
        key = LOST if gpu.index == GONE else UNHEALTHY
        return device | {"taints": [{"key": key, "effect": "NoSchedule"}]}


def pcie_root(pci: str, sysfs: Path = SYSFS) -> str:
    """The root complex above a PCI address, such as `pci0000:15`; empty where it is not known."""
    try:
        path = (sysfs / "bus/pci/devices" / pci).resolve(strict=True)
    except OSError:
        return ""
    return next((part for part in path.parts if pci and part.startswith("pci0")), "")


def _layout(profile: MigProfileFacts) -> MigLayout:
    return MigLayout(
        profile.name,
        profile.id,
        profile.starts,
        profile.size,
        profile.memory_mib,
        profile.multiprocessors,
        profile.copy_engines,
        profile.decoders,
        profile.jpegs,
        profile.ofas,
        profile.encoders,
    )


def _chunks(found: Iterable[Object], most: int) -> list[list[Object]]:
    listed = list(found)
    return [listed[start : start + most] for start in range(0, len(listed), most)]
