"""The kubelet's side of resource claims, with what a driver does on the node.

A pod starts only when each of its claims is reserved for it. A driver prepares a device for one
claim at a time, and refuses a second one: that is the last line of defence, and it must never be
needed.
"""

from dataclasses import field
from typing import Any, NamedTuple

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.apiserver.api import ApiState

Object = dict[str, Any]

CLAIMS, SLICES = "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io"
_PLACE = "memory-slice-"


class DevicePlace(NamedTuple):
    """A device, and the GPU that it is or is a part of."""

    driver: str
    pool: str
    device: str
    #: Empty: not known.
    uuid: str = ""
    #: Memory slices; empty: the whole GPU.
    slices: frozenset[str] = frozenset()

    def excludes(self, other: "DevicePlace") -> bool:
        if self[:3] == other[:3]:
            return True
        same = bool(self.uuid) and self.uuid == other.uuid
        return same and not (self.slices and other.slices and not self.slices & other.slices)


class NotPrepared(Exception):
    """The pod cannot start yet; the text is the kubelet's."""


@dataclass(slots=True)
class PreparedDevices:
    """Devices that are prepared, on all nodes, and for which claims and pods."""

    api: ApiState
    #: Devices that a second claim was to have at the same time, each with a sentence.
    refused: list[str] = field(default_factory=list)
    _devices: dict[str, list[DevicePlace]] = field(default_factory=dict)
    _users: dict[str, set[str]] = field(default_factory=dict)
    _claims: dict[str, set[str]] = field(default_factory=dict)

    def prepare(self, key: str, pod: Object) -> list[DevicePlace]:
        """Prepares the claims of a pod, once; all its devices. Raises NotPrepared."""
        claims = [self._claim(pod, use) for use in _uses(pod)]
        found: list[DevicePlace] = []
        for claim in filter(None, claims):
            uid = claim["metadata"]["uid"]
            if uid not in self._devices:
                self._devices[uid] = self._checked(claim)
            self._users.setdefault(uid, set()).add(key)
            self._claims.setdefault(key, set()).add(uid)
            found += self._devices[uid]
        return found

    def unprepare(self, key: str) -> None:
        """The pod has ended; claims that no other pod uses are not prepared any more."""
        for uid in self._claims.pop(key, ()):
            users = self._users.get(uid, set())
            users.discard(key)
            if not users:
                self._users.pop(uid, None)
                self._devices.pop(uid, None)

    def _claim(self, pod: Object, use: Object) -> Object | None:
        """None: the pod needs no claim for this entry."""
        metadata, name = pod["metadata"], use.get("resourceClaimName")
        if name is None:
            statuses = pod.get("status", {}).get("resourceClaimStatuses") or ()
            made = next((each for each in statuses if each["name"] == use["name"]), None)
            if made is not None and "resourceClaimName" not in made:
                return None
            name = made["resourceClaimName"] if made else ""
        claim = self.api.find(CLAIMS, f"{metadata['namespace']}/{name}")
        if claim is None:
            raise NotPrepared(f"could not find ResourceClaim {name!r}")
        users = (claim.get("status") or {}).get("reservedFor") or ()
        if not any(_is_for(user, pod) for user in users):
            uid = claim["metadata"]["uid"]
            raise NotPrepared(
                f"pod {metadata['name']} ({metadata['uid']}) is not allowed to use "
                f"ResourceClaim {name} ({uid})"
            )
        return claim

    def _checked(self, claim: Object) -> list[DevicePlace]:
        results = claim["status"]["allocation"]["devices"].get("results") or ()
        wanted = [self._place(each) for each in results if not each.get("adminAccess")]
        shared = {tuple(self._place(each)[:3]) for each in results if each.get("shareID")}
        for place in wanted:
            for uid, devices in self._devices.items():
                if place[:3] not in shared and any(place.excludes(each) for each in devices):
                    name = claim["metadata"]["name"]
                    text = f"device {'/'.join(place[:3])} of claim {name} is prepared for {uid}"
                    self.refused.append(text)
                    raise NotPrepared(text)
        return wanted

    def _place(self, result: Object) -> DevicePlace:
        driver, pool, name = result["driver"], result["pool"], result["device"]
        for entry in self.api.store.collection(SLICES).entries.values():
            if pool not in entry.name:
                continue
            spec = entry.object()["spec"]
            if (spec["driver"], spec["pool"]["name"]) == (driver, pool):
                for device in spec.get("devices") or ():
                    if device["name"] == name:
                        return DevicePlace(driver, pool, name, *_gpu(device))
        return DevicePlace(driver, pool, name)


def extended_resources(pod: Object) -> set[str]:
    """Those of its extended resources that a claim serves, and no device plugin."""
    mappings = _extended(pod).get("requestMappings") or ()
    return {each["resourceName"] for each in mappings}


def has_claims(pod: Object) -> bool:
    return bool(_uses(pod))


def _uses(pod: Object) -> list[Object]:
    name = _extended(pod).get("resourceClaimName")
    extended = [{"resourceClaimName": name}] if name else []
    return [*(pod["spec"].get("resourceClaims") or ()), *extended]


def _is_for(user: Object, pod: Object) -> bool:
    """Whether a claim that is reserved for this user may be used by the pod: also for its group."""
    if user["uid"] == pod["metadata"]["uid"]:
        return True
    group = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    is_group = (user.get("apiGroup"), user["resource"]) == ("scheduling.k8s.io", "podgroups")
    return is_group and bool(group) and user["name"] == group


def _extended(pod: Object) -> Object:
    return (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}


def _gpu(device: Object) -> tuple[str, frozenset[str]]:
    attributes = device.get("attributes") or {}
    parent = attributes.get("parentUUID", {}).get("string", "")
    if not parent:
        return attributes.get("uuid", {}).get("string", ""), frozenset()
    uses = device.get("consumesCounters") or ()
    return parent, frozenset(name for use in uses for name in use["counters"] if _PLACE in name)
