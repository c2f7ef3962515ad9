"""Devices as NVIDIA's DRA driver publishes them: whole GPUs, and GPUs that it divides on demand.

A GPU that can be divided (DynamicMIG) has a set of counters. The GPU as a whole consumes all of
them, and each slice that it could have consumes its part, so that no two overlap.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from fairlead.model.lazy_dataclass import dataclass

Object = dict[str, Any]

_MIB = 1 << 20
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_VERSION = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?")
#: What the API allows for the value of an attribute.
_LONGEST_BYTES = 64


@dataclass(frozen=True, slots=True)
class MigLayout:
    """A profile: the places where it can be, and what each slice of it takes."""

    profile: str
    id: int
    starts: tuple[int, ...]
    size: int
    memory_mib: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    jpegs: int
    ofas: int = 0
    encoders: int = 0

    def capacity(self) -> dict[str, int]:
        return {
            "memory": self.memory_mib * _MIB,
            "multiprocessors": self.multiprocessors,
            "copyEngines": self.copy_engines,
            "decoders": self.decoders,
            "encoders": self.encoders,
            "jpegEngines": self.jpegs,
            "ofaEngines": self.ofas,
        }


def text_attribute(value: str) -> Object:
    """An attribute; the API allows 64 bytes."""
    return {"string": value.encode()[:_LONGEST_BYTES].decode(errors="ignore")}


def version_attribute(value: str) -> Object | None:
    """`580.95.05` as a semantic version, 580.95.5; None if it is none.

    >>> version_attribute("580.95.05"), version_attribute("9.0"), version_attribute("none")
    ({'version': '580.95.5'}, {'version': '9.0.0'}, None)
    """
    found = _VERSION.fullmatch(value)
    if found is None:
        return None
    return {"version": ".".join(str(int(part or 0)) for part in found.groups())}


def binary_quantity(amount: int) -> str:
    """As the API server writes it.

    >>> binary_quantity(81559 << 20), binary_quantity(16384 << 20), binary_quantity(7)
    ('81559Mi', '16Gi', '7')
    """
    power = 0
    while amount and amount % 1024 == 0 and power + 1 < len(_BINARY):
        amount, power = amount // 1024, power + 1
    return f"{amount}{_BINARY[power]}"


def whole_device(minor: int, attributes: Object, memory_bytes: int) -> Object:
    """A GPU that is not divided."""
    return {
        "name": f"gpu-{minor}",
        "attributes": attributes,
        "capacity": _values({"memory": memory_bytes}),
    }


def counter_set(minor: int, layouts: Sequence[MigLayout]) -> Object:
    """All that a GPU has; its slices consume parts of it."""
    return {"name": _set_name(minor), "counters": _all_counters(layouts)}


def divisible_device(minor: int, attributes: Object, layouts: Sequence[MigLayout]) -> Object:
    """The GPU as one device: it consumes everything."""
    return {
        "name": f"gpu-{minor}",
        "attributes": attributes,
        "capacity": _values(_most(layouts)),
        "consumesCounters": [{"counterSet": _set_name(minor), "counters": _all_counters(layouts)}],
    }


def slice_devices(minor: int, attributes: Object, layouts: Sequence[MigLayout]) -> list[Object]:
    """One device for each place of each profile, in the order of their names."""
    found = [
        device for layout in layouts for device in _slices_of(minor, attributes, layout)
    ]  # fmt: skip
    return sorted(found, key=lambda device: str(device["name"]))


def _slices_of(minor: int, attributes: Object, layout: MigLayout) -> Iterator[Object]:
    short = layout.profile.replace(".", "").replace("+", "-")
    for start in layout.starts:
        counters = _counters(layout.capacity(), range(start, start + layout.size))
        yield {
            "name": f"gpu-{minor}-mig-{short}-{layout.id}-{start}",
            "attributes": attributes | {"profile": text_attribute(layout.profile)},
            "capacity": _values(layout.capacity()),
            "consumesCounters": [{"counterSet": _set_name(minor), "counters": counters}],
        }


def _set_name(minor: int) -> str:
    return f"gpu-{minor}-counter-set"


def _most(layouts: Sequence[MigLayout]) -> dict[str, int]:
    """The largest amount of each kind that any profile has."""
    capacities = [layout.capacity() for layout in layouts]
    return {name: max(each[name] for each in capacities) for name in capacities[0]}


def _all_counters(layouts: Sequence[MigLayout]) -> Object:
    return _counters(_most(layouts), range(max(layout.size for layout in layouts)))


def _counters(amounts: dict[str, int], places: range) -> Object:
    """`copyEngines` is the counter copy-engines; each memory slice is a counter of its own."""
    named = {re.sub("[A-Z]", lambda m: f"-{m[0].lower()}", key): n for key, n in amounts.items()}
    return _values(named | {f"memory-slice-{place}": 1 for place in places})


def _values(amounts: dict[str, int]) -> Object:
    return {name: {"value": binary_quantity(amount)} for name, amount in amounts.items()}
