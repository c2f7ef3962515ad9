"""Devices that drivers publish: slices of pools, classes, taints.

A pool is not an object: it is all slices with one driver and pool name. Names without a domain, of
attributes and of capacities, are the driver's. The version takes no part in comparisons.
"""

from dataclasses import field
from fractions import Fraction
from numbers import Rational
from typing import TYPE_CHECKING

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import NodeTerm

#: A quantity without rounding; whole numbers are ints.
if TYPE_CHECKING:
    Exact = int | Fraction
else:
    # The decision log decodes one type, not a union with one that it does not know.
    Exact = Rational


@dataclass(frozen=True, slots=True)
class VersionText:
    """An attribute that is a semantic version."""

    text: str


#: None: of a type that is not known. The types are told apart: True is not 1.
AttributeValue = int | bool | str | VersionText | None


@dataclass(frozen=True, slots=True)
class CapacityRange:
    """Amounts that may be consumed: the least, and the steps from there."""

    least: Exact
    most: Exact | None = None
    step: Exact | None = None


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """How much of a capacity a request consumes."""

    #: Where a request does not name the capacity; None: all of it.
    default: Exact | None = None
    valid_values: tuple[Exact, ...] = ()
    valid_range: CapacityRange | None = None


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    value: Exact
    policy: RequestPolicy | None = None


@dataclass(frozen=True, slots=True)
class CounterSet:
    """Counters that devices of a pool share; also what a device consumes of a set."""

    name: str
    #: Sorted by name.
    counters: tuple[tuple[str, Exact], ...]


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class DeviceToleration:
    """Empty key (with Exists) or effect means any."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    #: For evictions; nothing here reads it.
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceNodes:
    """Which nodes can use a device: one by name, those that a selector matches, or all."""

    node_name: str = ""
    #: None: no selector.
    terms: tuple[NodeTerm, ...] | None = None
    all_nodes: bool = False


@dataclass(frozen=True, slots=True)
class DeviceForm:
    """All about a device except its attributes: devices of many nodes share it."""

    name: str
    #: Sorted by name.
    capacity: tuple[tuple[str, DeviceCapacity], ...] = ()
    consumes: tuple[CounterSet, ...] = ()
    #: `allowMultipleAllocations`: claims consume parts of its capacity.
    shareable: bool = False
    #: Only in slices with `per_device`.
    nodes: DeviceNodes | None = None
    #: Of the slice, then of rules.
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    #: None differs from empty: a pool with any list comes last.
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a slice. Equal forms and attributes are best one object for many devices."""

    form: DeviceForm
    #: Sorted by name.
    attributes: tuple[tuple[str, AttributeValue], ...] = ()

    @property
    def name(self) -> str:
        return self.form.name


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Some devices, or some counter sets, of a pool."""

    name: str
    driver: str
    pool: str
    generation: int = 0
    #: How many slices the pool has in this generation.
    slice_count: int = 1
    nodes: DeviceNodes = DeviceNodes()
    #: `perDeviceNodeSelection`: each device says which nodes can use it.
    per_device: bool = False
    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    uid: str = ""
    version: str = field(default="", compare=False)
    #: Why it cannot be used, in one sentence.
    problem: str = ""

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class OpaqueConfig:
    """Parameters for a driver. The scheduler only passes them on."""

    driver: str
    #: JSON.
    parameters: str
    #: Requests of the claim, or `request/subrequest`; empty: all. Always empty in classes.
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClass:
    name: str
    #: CEL expressions; None: a selector of another type.
    selectors: tuple[str | None, ...] = ()
    configs: tuple[OpaqueConfig, ...] = ()
    #: Pods that ask for this resource get devices of the class.
    extended_resource: str = ""
    #: As the API server writes times: of classes with the same resource, the newest counts.
    created: str = ""
    uid: str = ""
    version: str = field(default="", compare=False)
    #: Why it cannot be used, in one sentence.
    problem: str = ""

    @property
    def key(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DeviceTaintRule:
    """Adds a taint to devices. What is None is not compared."""

    name: str
    taint: DeviceTaint
    #: Without a selector a rule matches nothing, in 1.36 all devices.
    has_selector: bool = True
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    uid: str = ""
    version: str = field(default="", compare=False)
    #: Why it cannot be used, in one sentence.
    problem: str = ""

    @property
    def key(self) -> str:
        return self.name
