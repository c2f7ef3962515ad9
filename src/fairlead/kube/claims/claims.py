"""The JSON of ResourceClaims."""

from datetime import datetime

import msgspec
from msgspec import Raw

from fairlead.kube.claims.common import (
    config_of,
    controller_uid,
    controlling_group,
    exact_amounts,
    is_set,
    read_claim_object,
    selectors_of,
    terms_of,
    toleration_of,
    unreadable,
)
from fairlead.kube.claims.wire import (
    AllocationWire,
    ClaimMetaWire,
    ClaimSpecWire,
    ClaimStatusWire,
    DeviceStatusWire,
    DevicesWire,
    ExactWire,
    HeldStatusWire,
    RequestWire,
    ResultWire,
)
from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.claims import (
    AllocatedConfig,
    AllocatedDevice,
    Allocation,
    ClaimUser,
    DeviceCondition,
    DeviceConstraint,
    DeviceNeed,
    DeviceReport,
    DeviceRequest,
    ResourceClaim,
)
from fairlead.model.devices import OpaqueConfig
from fairlead.model.errors import FairleadError

#: Keeps a claim until its devices are free.
FINALIZER = "resource.kubernetes.io/delete-protection"
#: On claims that a scheduler made for extended resources of a pod.
EXTENDED = "resource.kubernetes.io/extended-resource-claim"

_specs = msgspec.json.Decoder(ClaimSpecWire)
_statuses = msgspec.json.Decoder(ClaimStatusWire | None)
_held = msgspec.json.Decoder(HeldStatusWire | None)


#: Of the node selector of an allocation: it is compared with all nodes in one turn.
_MOST_LINES = 1024


def decode_claim(raw: bytes | Raw) -> ResourceClaim:
    """One that makes no sense has a `problem`: no pod that uses it is placed."""
    wire = read_claim_object(raw)
    requests, constraints, configs, problem = _asked(wire.spec)
    status, odd = _status(wire.status)
    allocation, reports, unclear = _given(status)
    if odd or unclear:
        allocation = _named_devices(wire.status)
    meta = wire.metadata
    return ResourceClaim(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
        requests,
        constraints,
        configs,
        allocation,
        tuple(ClaimUser(u.uid, u.name, u.resource, u.api_group) for u in status.reserved_for or ()),
        reports,
        deleting=meta.deletion_timestamp is not None,
        finalizers=tuple(meta.finalizers or ()),
        owner=controller_uid(meta),
        owner_group=controlling_group(meta),
        generate_name=meta.generate_name,
        for_extended_resources=_is_for_extended(meta),
        problem=problem or odd or unclear,
    )


def _is_for_extended(meta: ClaimMetaWire) -> bool:
    return (meta.annotations or {}).get(EXTENDED) == "true"


# -- what is asked for -------------------------------------------------------------------------

_Asked = tuple[
    tuple[DeviceRequest, ...], tuple[DeviceConstraint, ...], tuple[OpaqueConfig, ...], str
]


def _asked(raw: Raw) -> _Asked:
    try:
        devices = _specs.decode(raw).devices
        requests = tuple(_request(each) for each in devices.requests or ())
        configs = tuple(config_of(each) for each in devices.config or ())
    except (FairleadError, *UNREADABLE) as error:
        return (), (), (), unreadable("claim", error)
    constraints = tuple(
        DeviceConstraint(tuple(c.requests or ()), c.match_attribute, c.distinct_attribute)
        for c in devices.constraints or ()
    )
    return requests, constraints, configs, _beyond_us(devices)


def _beyond_us(devices: DevicesWire) -> str:
    for request in devices.requests or ():
        for need in (*([request.exactly] if request.exactly else ()),
                     *(request.first_available or ())):  # fmt: skip
            if is_set(need.derived_attributes):
                return (
                    f"request {request.name} of the claim has derivedAttributes, "
                    "which Fairlead does not support"
                )
    return ""


def _request(wire: RequestWire) -> DeviceRequest:
    return DeviceRequest(
        wire.name,
        _need(wire.exactly) if wire.exactly else None,
        tuple(_need(each) for each in wire.first_available or ()),
    )


def _need(wire: ExactWire) -> DeviceNeed:
    return DeviceNeed(
        wire.device_class_name,
        selectors_of(wire.selectors),
        wire.allocation_mode,
        wire.count or 0,
        admin_access=bool(wire.admin_access),
        tolerations=tuple(toleration_of(each) for each in wire.tolerations or ()),
        capacity=None if wire.capacity is None else exact_amounts(wire.capacity.requests),
        name=wire.name,
    )


# -- what it has -------------------------------------------------------------------------------


def _status(raw: Raw) -> tuple[ClaimStatusWire, str]:
    try:
        return _statuses.decode(raw) or ClaimStatusWire(), ""
    except UNREADABLE as error:
        return ClaimStatusWire(), unreadable("status of the claim", error)


def _given(
    status: ClaimStatusWire,
) -> tuple[Allocation | None, tuple[DeviceReport, ...], str]:
    reports = tuple(_report(each) for each in status.devices or ())
    if status.allocation is None:
        return None, reports, ""
    try:
        allocation = allocation_of(status.allocation)
    except (FairleadError, *UNREADABLE) as error:
        return None, reports, unreadable("allocation of the claim", error)
    if sum(term.lines for term in allocation.node_terms or ()) > _MOST_LINES:
        text = f"the node selector of the allocation has more than {_MOST_LINES} lines"
        return None, reports, text
    return allocation, reports, ""


def _named_devices(raw: Raw) -> Allocation | None:
    """The devices of an allocation of which something cannot be read: they are held."""
    try:
        status = _held.decode(raw)
    except UNREADABLE:
        return None
    if status is None or status.allocation is None:
        return None
    results = status.allocation.devices.results or ()
    return Allocation(
        tuple(AllocatedDevice(r.request, r.driver, r.pool, r.device) for r in results)
    )


def allocation_of(wire: AllocationWire) -> Allocation:
    return Allocation(
        tuple(_result(each) for each in wire.devices.results or ()),
        tuple(AllocatedConfig(c.source, config_of(c)) for c in wire.devices.config or ()),
        terms_of(wire.node_selector),
        _seconds(wire.allocation_timestamp),
    )


def _seconds(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, OverflowError):
        return None


def _result(wire: ResultWire) -> AllocatedDevice:
    return AllocatedDevice(
        wire.request,
        wire.driver,
        wire.pool,
        wire.device,
        admin_access=bool(wire.admin_access),
        tolerations=tuple(toleration_of(each) for each in wire.tolerations or ()),
        binding_conditions=_texts(wire.binding_conditions),
        binding_failure_conditions=_texts(wire.binding_failure_conditions),
        share_id=wire.share_id,
        consumed_capacity=None
        if wire.consumed_capacity is None
        else exact_amounts(wire.consumed_capacity),
    )


def _texts(found: list[str] | None) -> tuple[str, ...] | None:
    return None if found is None else tuple(found)


def _report(wire: DeviceStatusWire) -> DeviceReport:
    conditions = (
        DeviceCondition(c.type, c.status, c.reason, c.message) for c in wire.conditions or ()
    )
    return DeviceReport(wire.driver, wire.pool, wire.device, wire.share_id, tuple(conditions))
