"""Claims for devices: what is asked for, what was allocated, and which pods use it.

The version takes no part in comparisons: objects that differ in nothing else are the same to us.
"""

from dataclasses import field
from typing import NamedTuple

from fairlead.model.compute_domains import ComputeDomain
from fairlead.model.devices import (
    DeviceClass,
    DeviceTaintRule,
    DeviceToleration,
    Exact,
    OpaqueConfig,
    ResourceSlice,
)
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import NodeTerm

EXACT_COUNT = "ExactCount"
ALL_DEVICES = "All"
#: Results of one claim, at most.
MOST_DEVICES = 32
FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"
#: How `status.reservedFor` names PodGroups.
SCHEDULING, PODS, POD_GROUPS = "scheduling.k8s.io", "pods", "podgroups"


class DeviceId(NamedTuple):
    """A device of the cluster. It outlives its slice: allocations name it."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class DeviceNeed:
    """What a request, or one of its alternatives, asks for."""

    class_name: str
    #: CEL expressions; None: a selector of another type.
    selectors: tuple[str | None, ...] = ()
    #: EXACT_COUNT, ALL_DEVICES, or a mode that is not known.
    mode: str = EXACT_COUNT
    #: 0 with ALL_DEVICES.
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    #: How much of each capacity, sorted by name; None: nothing is said about capacity.
    capacity: tuple[tuple[str, Exact], ...] | None = None
    #: Of the alternative.
    name: str = ""


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request of a claim: one need, or alternatives of which the first possible one is taken."""

    name: str
    exactly: DeviceNeed | None = None
    first_available: tuple[DeviceNeed, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceConstraint:
    """Devices of these requests have the same value of an attribute, or all different ones.

    Neither attribute: a constraint of another type.
    """

    #: `request` or `request/subrequest`; empty: all.
    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One result of an allocation."""

    #: `request` or `request/subrequest`.
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    #: A share of a device: a UUID. None: the whole device. The allocator leaves it "" for the
    #: caller to fill.
    share_id: str | None = None
    #: None: the whole device.
    consumed_capacity: tuple[tuple[str, Exact], ...] | None = None

    @property
    def key(self) -> DeviceId:
        return DeviceId(self.driver, self.pool, self.device)


@dataclass(frozen=True, slots=True)
class AllocatedConfig:
    #: FROM_CLASS or FROM_CLAIM.
    source: str
    config: OpaqueConfig


@dataclass(frozen=True, slots=True)
class Allocation:
    """`status.allocation` of a claim."""

    devices: tuple[AllocatedDevice, ...] = ()
    configs: tuple[AllocatedConfig, ...] = ()
    #: Nodes where the claim can be used; None: all.
    node_terms: tuple[NodeTerm, ...] | None = None
    #: Seconds since 1970; None: not written. The allocator leaves it to the caller.
    allocated_at: float | None = None


@dataclass(frozen=True, slots=True)
class ClaimUser:
    """An entry of `status.reservedFor`."""

    uid: str
    name: str
    resource: str = PODS
    api_group: str = ""

    @property
    def is_group(self) -> bool:
        """A PodGroup, for all of its pods."""
        return self.resource == POD_GROUPS and self.api_group == SCHEDULING


@dataclass(frozen=True, slots=True)
class DeviceCondition:
    """A condition that a driver reports for an allocated device."""

    kind: str
    #: "True", "False" or "Unknown".
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """An entry of `status.devices` of a claim."""

    driver: str
    pool: str
    device: str
    share_id: str | None = None
    conditions: tuple[DeviceCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    namespace: str
    name: str
    uid: str = ""
    version: str = field(default="", compare=False)
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    configs: tuple[OpaqueConfig, ...] = ()
    allocation: Allocation | None = None
    reserved_for: tuple[ClaimUser, ...] = ()
    reports: tuple[DeviceReport, ...] = ()
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    #: Uid of the object that controls it: of the pod, where it was made for one.
    owner: str = ""
    #: "namespace/name" of the PodGroup that controls it; empty if something else does.
    owner_group: str = ""
    #: What the API server made the name from; empty if it was given.
    generate_name: str = ""
    #: Made by a scheduler for extended resources of a pod.
    for_extended_resources: bool = False
    #: Why it cannot be used, in one sentence; the devices that it has are held all the same.
    problem: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def is_reserved_for(self, uid: str, group: str = "") -> bool:
        """For the pod with this uid, or for its PodGroup ("namespace/name"), as a kubelet asks."""
        name = group.partition("/")[2]
        return any(
            user.uid == uid or (name and user.is_group and user.name == name)
            for user in self.reserved_for
        )


#: What the watches of claims show.
ClaimObject = ResourceSlice | DeviceClass | DeviceTaintRule | ComputeDomain | ResourceClaim
