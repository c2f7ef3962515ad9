"""Which pod has which cards, and what the cards report while it runs."""

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from fairlead.sim.machines import CARDS, INVENTORY, CardEntry, read_inventory

_UNKNOWN_IDLE_W, _UNKNOWN_FULL_W = 30, 300
#: What the driver takes on a card that nobody uses.
_DRIVER_MIB = 4


@dataclass(frozen=True, slots=True)
class CardReading:
    """What NVML would say about one card now."""

    index: int
    uuid: str
    model: str
    utilisation_percent: int
    memory_used_mib: int
    memory_total_mib: int
    power_w: int
    #: Whose work runs there; empty when nobody's does.
    pod: str = ""
    lost: bool = False


class NodeCards:
    """The cards of one node. Whole cards only: a card has one pod or none."""

    def __init__(self, entries: Iterable[CardEntry]) -> None:
        self.entries = list(entries)
        self._holder: dict[int, tuple[str, float]] = {}  # index → pod, since

    @property
    def free(self) -> list[int]:
        return [
            each.index
            for each in self.entries
            if each.health == "ok" and each.index not in self._holder
        ]

    def take(self, pod: str, count: int, wanted: Iterable[str], now: float) -> bool:
        """Gives the pod its cards: those named by UUID first, else the lowest. False: too few."""
        free = self.free
        if count > len(free):
            return False
        named = set(wanted)
        free.sort(key=lambda index: (self.entries[index].uuid not in named, index))
        for index in free[:count]:
            self._holder[index] = pod, now
        return True

    def has(self, pod: str) -> bool:
        return any(holder[0] == pod for holder in self._holder.values())

    def give_back(self, pod: str) -> None:
        for index in [i for i, holder in self._holder.items() if holder[0] == pod]:
            del self._holder[index]

    def lose(self, lost: frozenset[int]) -> set[str]:
        """Exactly these cards are lost from now on; returns the pods that ran on them."""
        for entry in self.entries:
            entry.health = "lost" if entry.index in lost else "ok"
        return {self._holder[index][0] for index in lost if index in self._holder}

    def readings(self, now: float) -> list[CardReading]:
        return [self._reading(entry, now) for entry in self.entries]

    def _reading(self, entry: CardEntry, now: float) -> CardReading:
        card = CARDS.get(entry.model)
        idle_w = card.idle_w if card else _UNKNOWN_IDLE_W
        full_w = card.full_w if card else _UNKNOWN_FULL_W
        total = entry.memory_mib
        if entry.health != "ok":
            return CardReading(entry.index, entry.uuid, entry.model, 0, 0, total, 0, lost=True)
        pod, since = self._holder.get(entry.index, ("", now))
        busy = busyness(pod, now - since) if pod else 0.0
        used = _DRIVER_MIB + int((total - _DRIVER_MIB) * memory_share(pod)) if pod else _DRIVER_MIB
        power = round(idle_w + (full_w - idle_w) * busy)
        return CardReading(
            entry.index, entry.uuid, entry.model, round(busy * 100), used, total, power, pod
        )


def busyness(pod: str, age_s: float) -> float:
    """Between 0 and 1: a pod warms up, then breathes around a level of its own."""
    level = 0.55 + 0.4 * lot(pod, "level")
    breath = 0.05 * math.sin(age_s / 3.0 + 6.28 * lot(pod, "phase"))
    return max(0.0, min(1.0, (level + breath) * min(1.0, age_s / 2.0)))


def memory_share(pod: str) -> float:
    return 0.3 + 0.65 * lot(pod, "memory")


def lot(pod: str, what: str) -> float:
    """A number in [0, 1) that is always the same for one pod."""
    return zlib.crc32(f"{what}/{pod}".encode()) / 2**32


def cards_of(annotations: dict[str, str], count: int) -> list[CardEntry]:
    """The cards that a node's inventory tells of, or nameless ones where it tells nothing."""
    try:
        found = read_inventory(annotations.get(INVENTORY, "")).cards
    except msgspec.MsgspecError:
        found = []
    # Cards are looked up by index, so an inventory that does not count is of no use.
    if [each.index for each in found] == list(range(len(found))) and len(found) == count:
        return found
    return [CardEntry(index, "", "unknown", 0) for index in range(count)]
