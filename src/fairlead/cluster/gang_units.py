"""Which pods go together when one of them is evicted: those of a gang at its minimum."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from fairlead.model.pods import Pod


class GangUnit(Protocol):
    """A gang that has members with nodes."""

    @property
    def placed(self) -> Mapping[str, str]:
        """Members that count, by uid."""
        ...

    @property
    def spare(self) -> int:
        """How many of them may be evicted singly."""
        ...

    @property
    def spare_groups(self) -> Sequence[frozenset[str]]:
        """Names of groups that may be evicted, each set as a whole."""
        ...

    @property
    def priority(self) -> int: ...


class GangUnits:
    """Gangs by key."""

    def __init__(self) -> None:
        self._units: dict[str, GangUnit] = {}

    def __bool__(self) -> bool:
        return bool(self._units)

    def get(self, key: str) -> GangUnit | None:
        return self._units.get(key)

    def put(self, key: str, unit: GangUnit | None) -> None:
        """The caller counts its members; None: there is no such gang any more."""
        if unit is None:
            self._units.pop(key, None)
        else:
            self._units[key] = unit

    def vital(self, pods: Iterable[Pod]) -> set[str]:
        """Of pods in the order in which they may go, those without which a gang is of no use."""
        gone: Counter[str] = Counter()
        found: set[str] = set()
        for pod in pods:
            if pod.gang is not None and (unit := self._units.get(pod.gang.gang)):
                gone[pod.gang.gang] += 1
                if gone[pod.gang.gang] > unit.spare:
                    found.add(pod.uid)
        return found

    def broken_by(self, victims: Iterable[Pod]) -> list[GangUnit]:
        """Gangs that would be of no use without these pods."""
        gone = Counter(pod.gang.gang for pod in victims if pod.gang is not None)
        found = ((self._units.get(key), count) for key, count in gone.items())
        return [unit for unit, count in found if unit is not None and count > unit.spare]
