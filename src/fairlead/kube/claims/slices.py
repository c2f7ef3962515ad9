"""The JSON of ResourceSlices."""

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from fairlead.kube.claims.common import (
    exact,
    is_set,
    read_claim_object,
    taint_of,
    terms_of,
    unreadable,
)
from fairlead.kube.claims.wire import (
    AttributeWire,
    ConsumptionWire,
    DeviceCapacityWire,
    DeviceTaintWire,
    DeviceWire,
    PolicyWire,
    SliceSpecWire,
    ValueWire,
)
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.requests import NodeSelectorWire
from fairlead.model.devices import (
    AttributeValue,
    CapacityRange,
    CounterSet,
    Device,
    DeviceCapacity,
    DeviceForm,
    DeviceNodes,
    Exact,
    RequestPolicy,
    ResourceSlice,
    VersionText,
)
from fairlead.model.errors import FairleadError
from fairlead.model.sizes import remembered

T = TypeVar("T")


class _PoolOnly(msgspec.Struct, gc=False):
    """The least that is needed to know which pool cannot be used."""

    driver: str = ""
    pool: dict[str, str | int] = msgspec.field(default_factory=dict)
    node: str = msgspec.field(default="", name="nodeName")


_specs = msgspec.json.Decoder(SliceSpecWire)
_pools = msgspec.json.Decoder(_PoolOnly)
_capacities = msgspec.json.Decoder(dict[str, DeviceCapacityWire] | None)
_consumptions = msgspec.json.Decoder(list[ConsumptionWire] | None)
_selectors = msgspec.json.Decoder(NodeSelectorWire | None)
_taints = msgspec.json.Decoder(list[DeviceTaintWire] | None)
_texts = msgspec.json.Decoder(list[str] | None)
_text = msgspec.json.Decoder(str | None)
_flag = msgspec.json.Decoder(bool | None)


class _FormParts(NamedTuple):
    """What devices of many nodes have in common, as bytes."""

    name: str
    capacity: bytes
    consumes: bytes
    node_name: bytes
    node_selector: bytes
    all_nodes: bytes
    taints: bytes
    binds_to_node: bytes
    conditions: bytes
    failure_conditions: bytes
    shareable: bytes


def decode_slice(raw: bytes | Raw) -> ResourceSlice:
    """One that makes no sense has a `problem`: its pool is not used."""
    wire = read_claim_object(raw)
    meta = wire.metadata
    try:
        return _slice(meta.name, meta.uid, meta.resource_version, _specs.decode(wire.spec))
    except (FairleadError, *UNREADABLE) as error:
        found, problem = _pool_of(wire.spec), unreadable("slice", error)
    generation = found.pool.get("generation", 0)
    return ResourceSlice(
        meta.name,
        found.driver,
        str(found.pool.get("name", "")),
        generation if isinstance(generation, int) else 0,
        nodes=DeviceNodes(found.node, all_nodes=not found.node),
        uid=meta.uid,
        version=meta.resource_version,
        problem=problem,
    )


def _pool_of(spec: Raw) -> _PoolOnly:
    try:
        return _pools.decode(spec)
    except UNREADABLE:
        return _PoolOnly()


def _slice(name: str, uid: str, version: str, spec: SliceSpecWire) -> ResourceSlice:
    per_device = bool(spec.per_device_node_selection)
    return ResourceSlice(
        name,
        spec.driver,
        spec.pool.name,
        spec.pool.generation,
        spec.pool.resource_slice_count,
        DeviceNodes(spec.node_name or "", terms_of(spec.node_selector), bool(spec.all_nodes)),
        per_device=per_device,
        devices=tuple(_device(each, per_device=per_device) for each in spec.devices or ()),
        counter_sets=tuple(
            CounterSet(each.name, _counters(each.counters)) for each in spec.shared_counters or ()
        ),
        uid=uid,
        version=version,
        problem=_beyond_us(spec),
    )


def _beyond_us(spec: SliceSpecWire) -> str:
    """Alpha fields that change what may be allocated: better not to use the pool."""
    if is_set(spec.skip_node_operations):
        return "the slice has skipNodeOperations, which Fairlead does not support"
    for device in spec.devices or ():
        if is_set(device.node_allocatable_resources) or is_set(
            device.node_allocatable_resource_mappings
        ):
            return (
                f"device {device.name} uses resources of the node (nodeAllocatableResources), "
                "which Fairlead does not support"
            )
        if b'"compatibilityGroups"' in bytes(device.consumes_counters):
            return f"device {device.name} has compatibilityGroups, which Fairlead does not support"
    return ""


def _device(wire: DeviceWire, *, per_device: bool) -> Device:
    form = _form(
        _FormParts(
            wire.name,
            bytes(wire.capacity),
            bytes(wire.consumes_counters),
            bytes(wire.node_name),
            bytes(wire.node_selector),
            bytes(wire.all_nodes),
            bytes(wire.taints),
            bytes(wire.binds_to_node),
            bytes(wire.binding_conditions),
            bytes(wire.binding_failure_conditions),
            bytes(wire.allow_multiple_allocations),
        ),
        per_device,
    )
    attributes = sorted((wire.attributes or {}).items(), key=itemgetter(0))
    return Device(form, tuple((name, _value(each)) for name, each in attributes))


def _value(wire: AttributeWire) -> AttributeValue:
    if wire.version is not None:
        return VersionText(wire.version)
    plain = (wire.string, wire.number, wire.flag)
    return next((value for value in plain if value is not None), None)


@remembered(16 << 20)
def _form(parts: _FormParts, per_device: bool) -> DeviceForm:
    nodes = DeviceNodes(
        _read(_text, parts.node_name) or "",
        terms_of(_read(_selectors, parts.node_selector)),
        bool(_read(_flag, parts.all_nodes)),
    )
    conditions = _read(_texts, parts.conditions)
    failures = _read(_texts, parts.failure_conditions)
    return DeviceForm(
        parts.name,
        tuple(_capacity_of(_read(_capacities, parts.capacity) or {})),
        tuple(
            CounterSet(each.counter_set, _counters(each.counters))
            for each in _read(_consumptions, parts.consumes) or ()
        ),
        shareable=bool(_read(_flag, parts.shareable)),
        nodes=nodes if per_device else None,
        taints=tuple(taint_of(each) for each in _read(_taints, parts.taints) or ()),
        binds_to_node=bool(_read(_flag, parts.binds_to_node)),
        binding_conditions=None if conditions is None else tuple(conditions),
        binding_failure_conditions=None if failures is None else tuple(failures),
    )


def _read(decoder: msgspec.json.Decoder[T], raw: bytes) -> T | None:
    return decoder.decode(raw) if raw else None


def _counters(found: Mapping[str, ValueWire] | None) -> tuple[tuple[str, Exact], ...]:
    return tuple(sorted((name, exact(each.value)) for name, each in (found or {}).items()))


def _capacity_of(found: Mapping[str, DeviceCapacityWire]) -> Iterator[tuple[str, DeviceCapacity]]:
    for name, each in sorted(found.items(), key=itemgetter(0)):
        policy = _policy(each.request_policy) if each.request_policy else None
        yield name, DeviceCapacity(exact(each.value), policy)


def _policy(wire: PolicyWire) -> RequestPolicy:
    found = wire.valid_range
    return RequestPolicy(
        _maybe(wire.default),
        tuple(exact(text) for text in wire.valid_values or ()),
        CapacityRange(exact(found.min or "0"), _maybe(found.max), _maybe(found.step))
        if found
        else None,
    )


def _maybe(text: str | None) -> Exact | None:
    return None if text is None else exact(text)
