"""The JSON of slices, classes, claims and taint rules, as far as allocating devices needs it."""

import msgspec
from msgspec import Raw

from fairlead.kube.requests import NodeSelectorWire
from fairlead.kube.storage_wire import OwnerWire


class ClaimMetaWire(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerWire] | None = None
    finalizers: list[str] | None = None


class ClaimObjectWire(msgspec.Struct, gc=False):
    """Spec and status are read on their own, so that one that is wrong has a sentence."""

    metadata: ClaimMetaWire
    spec: Raw = Raw(b"{}")
    status: Raw = Raw(b"{}")


# -- slices ------------------------------------------------------------------------------------


class PoolWire(msgspec.Struct, rename="camel", gc=False):
    name: str
    generation: int = 0
    resource_slice_count: int = 0


class ValueWire(msgspec.Struct, gc=False):
    value: str = "0"


class AttributeWire(msgspec.Struct, gc=False):
    """Lists are alpha: no expression can be evaluated for a device that has one."""

    number: int | None = msgspec.field(default=None, name="int")
    flag: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class RangeWire(msgspec.Struct, gc=False):
    min: str | None = None
    max: str | None = None
    step: str | None = None


class PolicyWire(msgspec.Struct, rename="camel", gc=False):
    default: str | None = None
    valid_values: list[str] | None = None
    valid_range: RangeWire | None = None


class DeviceCapacityWire(msgspec.Struct, rename="camel", gc=False):
    value: str = "0"
    request_policy: PolicyWire | None = None


class ConsumptionWire(msgspec.Struct, rename="camel", gc=False):
    counter_set: str = ""
    counters: dict[str, ValueWire] | None = None
    compatibility_groups: Raw = Raw()


class CounterSetWire(msgspec.Struct, gc=False):
    name: str = ""
    counters: dict[str, ValueWire] | None = None


class DeviceTaintWire(msgspec.Struct, rename="camel", gc=False):
    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceWire(msgspec.Struct, rename="camel", gc=False):
    """What devices of many nodes have in common stays bytes, and is read once."""

    name: str
    attributes: dict[str, AttributeWire] | None = None
    capacity: Raw = Raw()
    consumes_counters: Raw = Raw()
    node_name: Raw = Raw()
    node_selector: Raw = Raw()
    all_nodes: Raw = Raw()
    taints: Raw = Raw()
    binds_to_node: Raw = Raw()
    binding_conditions: Raw = Raw()
    binding_failure_conditions: Raw = Raw()
    allow_multiple_allocations: Raw = Raw()
    node_allocatable_resources: Raw = Raw()
    node_allocatable_resource_mappings: Raw = Raw()


class SliceSpecWire(msgspec.Struct, rename="camel", gc=False):
    driver: str
    pool: PoolWire
    node_name: str | None = None
    node_selector: NodeSelectorWire | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[DeviceWire] | None = None
    shared_counters: list[CounterSetWire] | None = None
    skip_node_operations: Raw = Raw()


# -- classes -----------------------------------------------------------------------------------


class ExpressionWire(msgspec.Struct, gc=False):
    expression: str = ""


class SelectorWire(msgspec.Struct, gc=False):
    cel: ExpressionWire | None = None


class OpaqueWire(msgspec.Struct, gc=False):
    driver: str = ""
    parameters: Raw = Raw(b"null")


class ConfigWire(msgspec.Struct, gc=False):
    #: In an allocation.
    source: str = ""
    requests: list[str] | None = None
    opaque: OpaqueWire | None = None


class ClassSpecWire(msgspec.Struct, rename="camel", gc=False):
    selectors: list[SelectorWire] | None = None
    config: list[ConfigWire] | None = None
    extended_resource_name: str | None = None


# -- claims ------------------------------------------------------------------------------------


class DeviceTolerationWire(msgspec.Struct, rename="camel", gc=False):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class AmountsWire(msgspec.Struct, gc=False):
    requests: dict[str, str] | None = None


class ExactWire(msgspec.Struct, rename="camel", gc=False):
    """A request, or one of several alternatives, which has a name."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[SelectorWire] | None = None
    allocation_mode: str = "ExactCount"
    count: int | None = None
    admin_access: bool | None = None
    tolerations: list[DeviceTolerationWire] | None = None
    capacity: AmountsWire | None = None
    derived_attributes: Raw = Raw()


class RequestWire(msgspec.Struct, rename="camel", gc=False):
    name: str
    exactly: ExactWire | None = None
    first_available: list[ExactWire] | None = None


class ConstraintWire(msgspec.Struct, rename="camel", gc=False):
    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DevicesWire(msgspec.Struct, gc=False):
    requests: list[RequestWire] | None = None
    constraints: list[ConstraintWire] | None = None
    config: list[ConfigWire] | None = None


class ClaimSpecWire(msgspec.Struct, gc=False):
    devices: DevicesWire = msgspec.field(default_factory=DevicesWire)


class ResultWire(msgspec.Struct, rename="camel", gc=False):
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    tolerations: list[DeviceTolerationWire] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str] | None = None


class ResultsWire(msgspec.Struct, gc=False):
    results: list[ResultWire] | None = None
    config: list[ConfigWire] | None = None


class AllocationWire(msgspec.Struct, rename="camel", gc=False):
    devices: ResultsWire = msgspec.field(default_factory=ResultsWire)
    node_selector: NodeSelectorWire | None = None
    allocation_timestamp: str | None = None


class ConsumerWire(msgspec.Struct, rename="camel", gc=False):
    resource: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""


class ConditionWire(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class DeviceStatusWire(msgspec.Struct, gc=False):
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: list[ConditionWire] | None = None


class ClaimStatusWire(msgspec.Struct, rename="camel", gc=False):
    allocation: AllocationWire | None = None
    reserved_for: list[ConsumerWire] | None = None
    devices: list[DeviceStatusWire] | None = None


class HeldDeviceWire(msgspec.Struct, gc=False):
    """The least that is needed to know what a claim holds."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""


class HeldDevicesWire(msgspec.Struct, gc=False):
    results: list[HeldDeviceWire] | None = None


class HeldAllocationWire(msgspec.Struct, gc=False):
    devices: HeldDevicesWire = msgspec.field(default_factory=HeldDevicesWire)


class HeldStatusWire(msgspec.Struct, gc=False):
    allocation: HeldAllocationWire | None = None


# -- rules about taints ------------------------------------------------------------------------


class TaintedWire(msgspec.Struct, gc=False):
    """None: any."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class TaintRuleSpecWire(msgspec.Struct, rename="camel", gc=False):
    taint: DeviceTaintWire
    device_selector: TaintedWire | None = None
