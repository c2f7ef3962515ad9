"""Which GPU a device of a driver is, or is a part of."""

from collections.abc import Iterable, Mapping
from re import compile as pattern

from fairlead.model.devices import AttributeValue, Device, ResourceSlice
from fairlead.model.lazy_dataclass import dataclass

NVIDIA = "gpu.nvidia.com"
#: Under which names drivers publish the PCI address of a device; the part after the domain.
_ADDRESSES = ("pciBusID", "pciAddress", "pciAddr")
#: Attributes of which each GPU has its own value.
UUIDS = frozenset(
    (*("uuid", "parentUUID"), *(f"{NVIDIA}/{name}" for name in ("uuid", "parentUUID")))
)
_PLACE = pattern(r"memory-?[sS]lice-?(\d+)$")


@dataclass(frozen=True, slots=True)
class DeviceGpu:
    """A GPU by UUID. A slice of MIG has a place on it: its memory slices, as bits."""

    node: str
    uuid: str
    #: 0: the whole GPU, or the place is not known.
    mask: int = 0


def gpu_of(part: ResourceSlice, device: Device, by_address: Mapping[str, str]) -> DeviceGpu | None:
    """The GPU of a device; None: it is of no GPU, or it is not known which.

    `by_address` has the UUIDs of GPUs of the node by PCI address: drivers other than NVIDIA's
    publish the address only.
    """
    node = part.nodes.node_name
    if not node:
        return None
    attributes = dict(device.attributes)
    if part.driver == NVIDIA:
        uuid = _text(attributes, "parentUUID") or _text(attributes, "uuid")
        if uuid:
            return DeviceGpu(node, uuid, _mask(device) if "parentUUID" in attributes else 0)
    found = by_address.get(address_of(device))
    return DeviceGpu(node, found) if found else None


def are_distinct(parts: Iterable[ResourceSlice]) -> bool:
    """Whether the devices are surely of different GPUs: whole ones of NVIDIA, by UUID."""
    seen: set[object] = set()
    for part in parts:
        if part.driver != NVIDIA:
            return False
        for device in part.devices:
            uuid = [value for name, value in device.attributes if name in UUIDS]
            if len(uuid) != 1 or uuid[0] in seen:
                return False
            seen.add(uuid[0])
    return True


def address_of(device: Device) -> str:
    """Its PCI address; empty if it publishes none."""
    for name, value in device.attributes:
        if name.rpartition("/")[2] in _ADDRESSES and isinstance(value, str):
            return value.lower()
    return ""


def model_of(device: Device) -> str:
    """The product that a device of NVIDIA's driver is, or is a part of; empty: not published."""
    return _text(dict(device.attributes), "productName")


def _text(attributes: Mapping[str, AttributeValue], name: str) -> str:
    value = attributes.get(name) or attributes.get(f"{NVIDIA}/{name}")
    return value if isinstance(value, str) else ""


def _mask(device: Device) -> int:
    """The memory slices that it consumes, or that its capacity names."""
    used = {name for use in device.form.consumes for name, amount in use.counters if amount}
    used |= {name for name, _ in device.form.capacity}
    found = (_PLACE.search(name) for name in used)
    return sum(1 << int(match.group(1)) for match in found if match and int(match.group(1)) < 64)


def profile_of(device: str) -> str:
    """By its name, as NVIDIA's driver gives it: the MIG profile; empty for a whole GPU.

    >>> profile_of("gpu-0-mig-1g10gb-19-0"), profile_of("gpu-0")
    ('1g.10gb', '')
    """
    return device.partition("-mig-")[2].partition("-")[0].replace("g", "g.", 1)
