"""Slices, classes and claims of the JSON that tests draw, without what no test draws."""

from typing import Any

from fairlead.model.claims import (
    AllocatedConfig,
    AllocatedDevice,
    Allocation,
    DeviceConstraint,
    DeviceNeed,
    DeviceRequest,
    ResourceClaim,
)
from fairlead.model.devices import (
    CapacityRange,
    CounterSet,
    Device,
    DeviceCapacity,
    DeviceClass,
    DeviceForm,
    DeviceNodes,
    DeviceTaint,
    DeviceToleration,
    Exact,
    OpaqueConfig,
    RequestPolicy,
    ResourceSlice,
    VersionText,
)
from fairlead.model.pods import NodeTerm
from fairlead.model.quantities import exact
from fairlead.model.selectors import Requirement

Json = dict[str, Any]


def read_slice(seen: Json) -> ResourceSlice:
    spec, pool = seen["spec"], seen["spec"]["pool"]
    return ResourceSlice(
        seen["metadata"]["name"],
        spec["driver"],
        pool["name"],
        pool["generation"],
        pool["resourceSliceCount"],
        _nodes(spec),
        per_device=spec.get("perDeviceNodeSelection", False),
        devices=tuple(_device(each) for each in spec.get("devices", ())),
        counter_sets=_counter_sets(spec.get("sharedCounters", ()), "name"),
    )


def read_class(seen: Json) -> DeviceClass:
    spec = seen["spec"]
    configs = tuple(_config(each) for each in spec.get("config", ()))
    return DeviceClass(seen["metadata"]["name"], _selectors(spec), configs)


def read_claim(seen: Json) -> ResourceClaim:
    meta, devices = seen["metadata"], seen["spec"]["devices"]
    allocation = seen.get("status", {}).get("allocation")
    return ResourceClaim(
        meta["namespace"],
        meta["name"],
        meta["uid"],
        requests=tuple(_request(each) for each in devices.get("requests", ())),
        constraints=tuple(
            DeviceConstraint(
                tuple(each["requests"]), each.get("matchAttribute"), each.get("distinctAttribute")
            )
            for each in devices.get("constraints", ())
        ),
        configs=tuple(_config(each) for each in devices.get("config", ())),
        allocation=None if allocation is None else read_allocation(allocation),
    )


def read_allocation(seen: Json) -> Allocation:
    devices = seen["devices"]
    selector = seen.get("nodeSelector")
    return Allocation(
        tuple(_result(each) for each in devices.get("results", ())),
        tuple(AllocatedConfig(each["source"], _config(each)) for each in devices.get("config", ())),
        None if selector is None else _terms(selector),
    )


def _result(seen: Json) -> AllocatedDevice:
    consumed = seen.get("consumedCapacity")
    return AllocatedDevice(
        seen["request"],
        seen["driver"],
        seen["pool"],
        seen["device"],
        admin_access=seen.get("adminAccess", False),
        tolerations=tuple(_toleration(each) for each in seen.get("tolerations", ())),
        binding_conditions=_texts(seen.get("bindingConditions")),
        binding_failure_conditions=_texts(seen.get("bindingFailureConditions")),
        share_id="" if "shareID" in seen else None,
        consumed_capacity=None if consumed is None else _amounts(consumed),
    )


def _request(seen: Json) -> DeviceRequest:
    exactly = seen.get("exactly")
    return DeviceRequest(
        seen["name"],
        None if exactly is None else _need(exactly),
        tuple(_need(each) for each in seen.get("firstAvailable", ())),
    )


def _need(seen: Json) -> DeviceNeed:
    capacity = seen.get("capacity")
    return DeviceNeed(
        seen["deviceClassName"],
        _selectors(seen),
        seen["allocationMode"],
        seen["count"],
        admin_access=seen.get("adminAccess", False),
        tolerations=tuple(_toleration(each) for each in seen.get("tolerations", ())),
        capacity=None if capacity is None else _amounts(capacity["requests"]),
        name=seen.get("name", ""),
    )


def _device(seen: Json) -> Device:
    form = DeviceForm(
        seen["name"],
        tuple((name, _capacity(each)) for name, each in sorted(seen["capacity"].items())),
        _counter_sets(seen.get("consumesCounters", ()), "counterSet"),
        shareable=seen.get("allowMultipleAllocations", False),
        nodes=_nodes(seen),
        taints=tuple(
            DeviceTaint(each["key"], each["value"], each["effect"])
            for each in seen.get("taints", ())
        ),
        binds_to_node=seen.get("bindsToNode", False),
        binding_conditions=_texts(seen.get("bindingConditions")),
        binding_failure_conditions=_texts(seen.get("bindingFailureConditions")),
    )
    attributes = sorted(seen["attributes"].items())
    return Device(form, tuple((name, _attribute(each)) for name, each in attributes))


def _attribute(seen: Json) -> Any:
    kind, value = next(iter(seen.items()))
    return VersionText(value) if kind == "version" else value


def _capacity(seen: Json) -> DeviceCapacity:
    policy = seen.get("requestPolicy")
    if policy is None:
        return DeviceCapacity(exact(seen["value"]))
    spread = policy.get("validRange")
    return DeviceCapacity(
        exact(seen["value"]),
        RequestPolicy(
            _maybe(policy.get("default")),
            tuple(exact(each) for each in policy.get("validValues", ())),
            None
            if spread is None
            else CapacityRange(
                exact(spread["min"]), _maybe(spread.get("max")), _maybe(spread.get("step"))
            ),
        ),
    )


def _counter_sets(seen: Any, name: str) -> tuple[CounterSet, ...]:
    return tuple(
        CounterSet(
            each[name],
            tuple((key, exact(value["value"])) for key, value in sorted(each["counters"].items())),
        )
        for each in seen
    )


def _nodes(seen: Json) -> DeviceNodes:
    selector = seen.get("nodeSelector")
    terms = None if selector is None else _terms(selector)
    return DeviceNodes(seen.get("nodeName", ""), terms, seen.get("allNodes", False))


def _terms(seen: Json) -> tuple[NodeTerm, ...]:
    return tuple(
        NodeTerm(_lines(each.get("matchExpressions", ())), _lines(each.get("matchFields", ())))
        for each in seen["nodeSelectorTerms"]
    )


def _lines(seen: Any) -> tuple[Requirement, ...]:
    return tuple(Requirement(each["key"], each["operator"], tuple(each["values"])) for each in seen)


def _toleration(seen: Json) -> DeviceToleration:
    return DeviceToleration(
        seen.get("key", ""),
        seen["operator"],
        seen.get("value", ""),
        seen.get("effect", ""),
        seen.get("tolerationSeconds"),
    )


def _config(seen: Json) -> OpaqueConfig:
    opaque = seen["opaque"]
    return OpaqueConfig(
        opaque["driver"], str(opaque["parameters"]), tuple(seen.get("requests", ()))
    )


def _selectors(seen: Json) -> tuple[str, ...]:
    return tuple(each["cel"]["expression"] for each in seen.get("selectors", ()))


def _amounts(seen: Json) -> tuple[tuple[str, Exact], ...]:
    return tuple((name, exact(text)) for name, text in sorted(seen.items()))


def _texts(seen: list[str] | None) -> tuple[str, ...] | None:
    return None if seen is None else tuple(seen)


def _maybe(text: str | None) -> Exact | None:
    return None if text is None else exact(text)
