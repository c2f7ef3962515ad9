"""Devices that kubelets have prepared, in virtual time: by the rules of kubelets and of drivers.

A pod starts only when each of its claims is reserved for it, and a driver prepares a device, or
what overlaps with it on one GPU, for one claim at a time.
"""

from collections.abc import Iterable
from dataclasses import field

from fairlead.model.claims import AllocatedDevice, DeviceId, ResourceClaim
from fairlead.model.device_gpus import DeviceGpu, gpu_of
from fairlead.model.devices import ResourceSlice
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod


class PreparationRefused(FairleadError):
    """A kubelet would not start the pod; the text says why."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A device that is prepared for a claim."""

    device: DeviceId
    claim: str
    is_shared: bool
    #: Memory slices of its GPU; 0: all of it.
    mask: int = 0


@dataclass(slots=True)
class VirtualPreparations:
    """Of all nodes. `publish` every slice before claims have devices of it."""

    _gpus: dict[DeviceId, DeviceGpu] = field(default_factory=dict)
    #: By GPU, or by the device itself where its GPU is not known.
    _in_use: dict[object, list[_Prepared]] = field(default_factory=dict)
    _claims: dict[str, ResourceClaim] = field(default_factory=dict)
    _users: dict[str, set[str]] = field(default_factory=dict)

    def publish(self, part: ResourceSlice) -> None:
        for device in part.devices:
            found = gpu_of(part, device, {})
            if found is not None:
                self._gpus[DeviceId(part.driver, part.pool, device.name)] = found

    def prepare(self, pod: Pod, claims: Iterable[ResourceClaim]) -> None:
        """The pod starts on its node. Raises PreparationRefused."""
        for claim in claims:
            if all(user.uid != pod.uid and not user.is_group for user in claim.reserved_for):
                raise PreparationRefused(
                    f"pod {pod.key} is not allowed to use ResourceClaim {claim.key}"
                )
            if claim.uid not in self._claims:
                self._take(claim)
            self._users.setdefault(claim.uid, set()).add(pod.uid)

    def unprepare(self, pod: Pod) -> None:
        """The pod has ended; claims that no other pod uses are not prepared any more."""
        for uid in [uid for uid, users in self._users.items() if pod.uid in users]:
            self._users[uid].discard(pod.uid)
            if not self._users[uid]:
                del self._users[uid]
                self._give_back(self._claims.pop(uid))

    def _take(self, claim: ResourceClaim) -> None:
        taken = _devices(claim)
        for result in taken:
            place, wanted = self._place(claim, result)
            for other in self._in_use.get(place, ()):
                if _exclude_each_other(wanted, other):
                    raise PreparationRefused(
                        f"device {wanted.device} of claim {claim.key} is prepared for claim "
                        f"{other.claim} as {other.device}"
                    )
        for result in taken:
            place, wanted = self._place(claim, result)
            self._in_use.setdefault(place, []).append(wanted)
        self._claims[claim.uid] = claim

    def _give_back(self, claim: ResourceClaim) -> None:
        for result in _devices(claim):
            place, wanted = self._place(claim, result)
            self._in_use[place].remove(wanted)
            if not self._in_use[place]:
                del self._in_use[place]

    def _place(self, claim: ResourceClaim, result: AllocatedDevice) -> tuple[object, _Prepared]:
        gpu, is_shared = self._gpus.get(result.key), result.share_id is not None
        if gpu is None:
            return result.key, _Prepared(result.key, claim.key, is_shared)
        return (gpu.node, gpu.uuid), _Prepared(result.key, claim.key, is_shared, gpu.mask)


def _devices(claim: ResourceClaim) -> list[AllocatedDevice]:
    given = claim.allocation.devices if claim.allocation else ()
    return [each for each in given if not each.admin_access]


def _exclude_each_other(one: _Prepared, other: _Prepared) -> bool:
    if one.device == other.device:
        return not (one.is_shared and other.is_shared)
    return not (one.mask and other.mask and not one.mask & other.mask)
