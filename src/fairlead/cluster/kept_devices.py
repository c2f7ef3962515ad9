"""Devices that are kept for a unit for which pods were evicted, until it is tried.

What the claims of these pods held is held for the unit instead of becoming free, exactly as it was
held: shares, parts of GPUs and counters included. So are devices that were free when the unit was
promised its room. No driver knows of it; `engine/kept_records.py` has it written on the pods of the
unit, for the next scheduler.
"""

from collections.abc import Iterable, Iterator

from fairlead.model.claims import AllocatedDevice, DeviceId
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod

#: No uid of an object begins so.
KEPT = "kept/"


@dataclass(slots=True, eq=False)
class _Kept:
    """What is kept for one unit."""

    #: Others must respect it as they must respect a nomination of this pod.
    pod: Pod
    devices: tuple[AllocatedDevice, ...] = ()


class KeptDevices:
    """By the key of the unit."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        #: The unit that gets what a claim frees, by uid of the claim.
        self._heirs: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def __iter__(self) -> Iterator[tuple[str, Pod]]:
        return iter([(key, kept.pod) for key, kept in self._kept.items()])

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    def begin(self, key: str, pod: Pod, claims: Iterable[str]) -> None:
        """From now on, what these claims free is kept for the unit, beside what is kept already."""
        self._kept.setdefault(key, _Kept(pod))
        self._heirs |= dict.fromkeys(claims, key)

    def end(self, key: str) -> None:
        self._kept.pop(key, None)
        self._heirs = {uid: heir for uid, heir in self._heirs.items() if heir != key}

    def add(self, key: str, devices: Iterable[AllocatedDevice]) -> None:
        self._kept[key].devices += tuple(devices)

    def devices(self, key: str) -> tuple[AllocatedDevice, ...]:
        kept = self._kept.get(key)
        return kept.devices if kept else ()

    def claims_for(self, key: str) -> Iterator[str]:
        """Uids of the claims whose devices are for the unit."""
        return (uid for uid, heir in self._heirs.items() if heir == key)

    def heir_of(self, claim: str) -> str | None:
        """Who gets what the claim frees."""
        return self._heirs.get(claim)

    def pod_of(self, key: str) -> Pod | None:
        kept = self._kept.get(key)
        return kept.pod if kept else None

    def has(self, device: DeviceId) -> bool:
        """Whether the device is kept for some unit."""
        return any(device == each.key for kept in self._kept.values() for each in kept.devices)


def holder_of(key: str) -> str:
    """What stands for the uid of a claim."""
    return f"{KEPT}{key}"
