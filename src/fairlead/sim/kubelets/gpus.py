"""Which pod has which GPUs, and what the GPUs report while it runs."""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import field

import msgspec

from fairlead.base.node_inventory import KEY, GpuEntry, decoder
from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.machines import GPUS

_UNKNOWN_IDLE_W, _UNKNOWN_FULL_W = 30, 300
#: What the driver takes on an idle GPU.
_DRIVER_MIB = 4
#: Parts of names that say what a pod does.
_IDLERS, _SERVERS = ("notebook", "debug"), ("serve", "infer")


@dataclass(frozen=True, slots=True)
class SimulatedReading:
    """What NVML would say about one GPU now."""

    index: int
    uuid: str
    model: str
    utilisation_percent: int
    memory_used_mib: int
    memory_total_mib: int
    power_w: int
    #: Whose work runs there, with the percent and MiB of each.
    pods: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    lost: bool = False

    @property
    def pod(self) -> str:
        """The pod that was there first; empty when there is none."""
        return next(iter(self.pods), "")


class NodeGpus:
    """The GPUs of one node: each whole for one pod, or for some who share it."""

    def __init__(self, entries: Iterable[GpuEntry]) -> None:
        self.entries = list(entries)
        #: By index: pods, and since when.
        self._holders: dict[int, dict[str, float]] = {}
        self._sharing: set[str] = set()

    @property
    def free(self) -> list[int]:
        return [
            each.index
            for each in self.entries
            if each.health == "ok" and each.index not in self._holders
        ]

    def take(self, pod: str, count: int, wanted: Iterable[str], now: float) -> bool:
        """Gives the pod its GPUs: those named by UUID first, else the lowest. False: too few."""
        free = self.free
        if count > len(free):
            return False
        named = set(wanted)
        free.sort(key=lambda index: (self.entries[index].uuid not in named, index))
        for index in free[:count]:
            self._holders[index] = {pod: now}
        return True

    def share(self, pod: str, wanted: Iterable[str], now: float, *, is_whole: bool = False) -> None:
        """The pod joins the pods on the GPUs that are named; `is_whole`: it is alone on them."""
        named = set(wanted)
        if not is_whole:
            self._sharing.add(pod)
        for entry in self.entries:
            if entry.uuid and entry.uuid in named:
                self._holders.setdefault(entry.index, {})[pod] = now

    def has(self, pod: str) -> bool:
        return any(pod in holders for holders in self._holders.values())

    def give_back(self, pod: str) -> None:
        self._sharing.discard(pod)
        for index in [i for i, holders in self._holders.items() if pod in holders]:
            del self._holders[index][pod]
            if not self._holders[index]:
                del self._holders[index]

    def lose(self, lost: frozenset[int]) -> set[str]:
        """Exactly these GPUs are lost from now on; returns the pods that ran on them."""
        for entry in self.entries:
            entry.health = "lost" if entry.index in lost else "ok"
        return {pod for index in lost for pod in self._holders.get(index, ())}

    def readings(self, now: float) -> list[SimulatedReading]:
        return [self._reading(entry, now) for entry in self.entries]

    def _reading(self, entry: GpuEntry, now: float) -> SimulatedReading:
        gpu, total = GPUS.get(entry.model), entry.memory_mib
        idle_w = gpu.idle_w if gpu else _UNKNOWN_IDLE_W
        full_w = gpu.full_w if gpu else _UNKNOWN_FULL_W
        if entry.health != "ok":
            return SimulatedReading(entry.index, entry.uuid, entry.model, 0, 0, total, 0, lost=True)
        holders = self._holders.get(entry.index, {})
        pods = {pod: self._work(pod, now - since, total) for pod, since in holders.items()}
        percent = min(100, sum(busy for busy, _ in pods.values()))
        used = min(total, _DRIVER_MIB + sum(mib for _, mib in pods.values()))
        power = round(idle_w + (full_w - idle_w) * percent / 100)
        return SimulatedReading(
            entry.index, entry.uuid, entry.model, percent, used, total, power, pods
        )  # fmt: skip

    def _work(self, pod: str, age_s: float, total_mib: int) -> tuple[int, int]:
        """Percent and MiB; who shares keeps to less."""
        part = 0.35 if pod in self._sharing else 1.0
        mib = int((total_mib - _DRIVER_MIB) * memory_share(pod) * part)
        return round(100 * part * busyness(pod, age_s)), mib


def busyness(pod: str, age_s: float) -> float:
    """Between 0 and 1, and always the same for one pod at one age.

    Its name says what kind of work it is: notebooks are idle but for a moment now and then,
    services have bursts, and everything else trains, step by step.
    """
    phase = lot(pod, "phase")
    if any(word in pod for word in _IDLERS):
        return 0.4 if (age_s / 20.0 + phase) % 1.0 < 0.1 else 0.0
    if any(word in pod for word in _SERVERS):
        return 0.05 + 0.9 * lot(f"{pod}@{int(age_s / 2.0)}", "burst") ** 3
    level = 0.75 + 0.24 * lot(pod, "level")
    step = (age_s / 8.0 + phase) % 1.0
    return min(1.0, age_s / 2.0) * (level if step < 0.8 else 0.6 * level)


def memory_share(pod: str) -> float:
    return 0.3 + 0.65 * lot(pod, "memory")


def lot(pod: str, what: str) -> float:
    """A number in [0, 1) that is always the same for one pod."""
    return zlib.crc32(f"{what}/{pod}".encode()) / 2**32


def gpus_of(annotations: dict[str, str], count: int) -> list[GpuEntry]:
    """The GPUs of a node's inventory, or nameless ones without an inventory."""
    try:
        found = decoder.decode(annotations.get(KEY, "")).gpus
    except msgspec.MsgspecError:
        found = []
    # GPUs are looked up by index, so an inventory that does not count is of no use.
    # Where a DRA driver serves them, the node counts none.
    if [each.index for each in found] == list(range(len(found))) and count in (0, len(found)):
        return found
    return [GpuEntry(index, "", "unknown", 0) for index in range(count)]
