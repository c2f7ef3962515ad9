"""Counted resources: things of which there are so many in the cluster, whatever the nodes.

Licences, watts, seats: the administrator writes how many there are, and pods ask by annotation.
"""

from collections.abc import Mapping
from enum import StrEnum

from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass

#: Amounts by name, sorted by name.
Counts = tuple[tuple[str, int], ...]

#: More of one resource are taken for a mistake; also how many resources a pod may ask for.
MOST_COUNTED = 1_000_000_000_000
MOST_ASKED = 16
#: In place of a model: GPUs of any other.
ANY_MODEL = "*"


class CountedMode(StrEnum):
    """Which of the layers that cover its node a pod is charged on."""

    #: One that has enough.
    ANY = "Any"
    #: Each of them.
    ALL = "All"
    #: Each of them, and those above them.
    TREE = "Tree"


@dataclass(frozen=True, slots=True)
class CountedLayer:
    """So many for some nodes: those with all of these labels, or those with one value of a label.

    With `label`, there is a layer for each value, called "name/value".
    """

    name: str
    count: int
    selector: tuple[tuple[str, str], ...] = ()
    label: str = ""
    #: By value of the label, where it is not `count`.
    counts: Counts = ()
    #: In use by what is no pod.
    base: int = 0
    #: The layer above it.
    parent: str = ""


@dataclass(frozen=True, slots=True)
class OutsideTerms:
    """What others than pods of this cluster use of it, and how that is known."""

    #: After so long it is not known any more, and `fallback` counts.
    max_age_s: float
    fallback: int = 0
    #: The measured number has what pods of this cluster use in it.
    includes_pods: bool = False


@dataclass(frozen=True, slots=True)
class OutsideUse:
    used: int
    #: When it was measured, in seconds since 1970.
    at_s: float


@dataclass(frozen=True, slots=True)
class CountedResource:
    """What the object says."""

    name: str
    #: None: only layers limit it.
    total: int | None = None
    unit: str = ""
    mode: CountedMode = CountedMode.ALL
    layers: tuple[CountedLayer, ...] = ()
    #: What each GPU of a model is charged for, without an annotation; `ANY_MODEL` for the others.
    per_gpu: Counts = ()
    #: The namespaces whose pods may ask for it; None: all.
    namespaces: frozenset[str] | None = None
    outside: OutsideTerms | None = None
    measured: OutsideUse | None = None
    #: Why pods that ask for it wait.
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CountedAsk:
    """What a pod asks for, and what it was charged with when it was bound."""

    asked: Counts = ()
    #: Resource, amount and layer; the layer is empty unless it was one of several.
    charged: tuple[tuple[str, int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CountedStatus:
    """What the status of the object says."""

    used: int
    #: None: only layers limit it.
    free: int | None
    outside: int
    #: Namespaces and what their pods hold, those that hold most first.
    holders: Counts = ()
    #: Layers, what is in use there and how many there are, those with the least left first.
    layers: tuple[tuple[str, int, int], ...] = ()
    message: str = ""


def read_asked(text: str) -> Counts:
    """Of "solver=2, tokens=1"."""
    found: dict[str, int] = {}
    parts = text.split(",", MOST_ASKED)
    if len(parts) > MOST_ASKED:
        raise FairleadError(f"it asks for more than {MOST_ASKED} counted resources")
    for part in parts:
        name, _, number = (each.strip() for each in part.partition("="))
        if not name or len(name) > 253 or not _is_count(number) or name in found:
            raise FairleadError(
                f"{part.strip()[:80]!r} is no counted resource; write name=number, such as "
                "solver=2, each name once"
            )
        found[name] = int(number)
    return tuple(sorted(found.items()))


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 14 and 0 < int(text) <= MOST_COUNTED


def written_charges(charges: Mapping[str, tuple[int, str]]) -> str:
    """Amount and layer by resource, as `read_charges` reads it."""
    return ",".join(
        f"{name}={amount}" + (f"@{layer}" if layer else "")
        for name, (amount, layer) in sorted(charges.items())
    )


def read_charges(text: str) -> tuple[tuple[str, int, str], ...]:
    """What cannot be read is left out: only the scheduler writes it."""
    found = []
    for part in text.split(",")[:MOST_ASKED]:
        name, _, rest = part.partition("=")
        number, _, layer = rest.partition("@")
        if name and _is_count(number):
            found.append((name, int(number), layer))
    return tuple(found)
