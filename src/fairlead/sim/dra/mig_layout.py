"""What NVIDIA's driver publishes of an H100 80 GB that it divides on demand (DynamicMIG)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

#: Of the whole GPU; the rest is divided by profile.
MEMORY_MIB = 81_152
_MEMORY_SLICES = 8


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


_SEVEN = tuple(range(7))
#: In the order of the names of their devices.
H100_LAYOUT = (
    MigLayout("1g.10gb", 19, _SEVEN, 1, 9_984, 16, 1, 1, 1),
    MigLayout("1g.10gb+me", 20, _SEVEN, 1, 9_984, 16, 1, 1, 1, 1),
    MigLayout("1g.20gb", 15, (0, 2, 4, 6), 2, 20_096, 26, 1, 1, 1),
    MigLayout("2g.20gb", 14, (0, 2, 4), 2, 20_096, 32, 2, 2, 2),
    MigLayout("3g.40gb", 9, (0, 4), 4, 40_448, 60, 3, 3, 3),
    MigLayout("4g.40gb", 5, (0,), 4, 40_448, 64, 4, 4, 4),
    MigLayout("7g.80gb", 0, (0,), 8, MEMORY_MIB, 132, 8, 7, 7, 1),
)
_WHOLE = H100_LAYOUT[-1]


def counter_set(minor: int) -> Object:
    """All that a GPU has; its slices consume parts of it."""
    return {"name": f"gpu-{minor}-counter-set", "counters": _counters(_WHOLE, 0)}


def whole_device(minor: int, attributes: Object) -> Object:
    """The GPU as one device: it consumes everything."""
    return _device(f"gpu-{minor}", minor, attributes, _WHOLE, 0)


def slice_devices(minor: int, attributes: Object) -> Iterator[Object]:
    """One device for each place of each profile, in the order of their names."""
    for layout in H100_LAYOUT:
        short = layout.profile.replace(".", "").replace("+", "-")
        for start in layout.starts:
            name = f"gpu-{minor}-mig-{short}-{layout.id}-{start}"
            own = attributes | {"profile": {"string": layout.profile}}
            yield _device(name, minor, own, layout, start)


def _device(name: str, minor: int, attributes: Object, layout: MigLayout, start: int) -> Object:
    capacity = {
        "memory": f"{layout.memory_mib}Mi",
        "multiprocessors": str(layout.multiprocessors),
        "copyEngines": str(layout.copy_engines),
        "decoders": str(layout.decoders),
        "encoders": "0",
        "jpegEngines": str(layout.jpegs),
        "ofaEngines": str(layout.ofas),
    }
    uses = {"counterSet": f"gpu-{minor}-counter-set", "counters": _counters(layout, start)}
    return {
        "name": name,
        "attributes": attributes,
        "capacity": {key: {"value": value} for key, value in capacity.items()},
        "consumesCounters": [uses],
    }


def _counters(layout: MigLayout, start: int) -> Object:
    counters = {
        "copy-engines": str(layout.copy_engines),
        "decoders": str(layout.decoders),
        "encoders": "0",
        "jpeg-engines": str(layout.jpegs),
        "ofa-engines": str(layout.ofas),
        "multiprocessors": str(layout.multiprocessors),
        "memory": f"{layout.memory_mib}Mi",
    }
    taken = range(start, min(start + layout.size, _MEMORY_SLICES))
    counters |= {f"memory-slice-{place}": "1" for place in taken}
    return {key: {"value": value} for key, value in counters.items()}
