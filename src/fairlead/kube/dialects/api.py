"""What a dialect is: one way to ask for GPUs, to list them, and to say who got which.

Each dialect is one file. It reads what a pod asks for, reads the GPUs of a node, reads what a
bound pod was given, and writes what the device plugin on the node reads. Nothing here
decides anything, and nothing here reads a clock.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import ClassVar, Protocol, TypeVar

import msgspec
from msgspec.json import Decoder

from fairlead.model.errors import FairleadError, QuantityError
from fairlead.model.gpus import Gpu, GpuRequest, Grant, Inventory
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.limits import MOST_GPUS
from fairlead.model.pods import Pod
from fairlead.model.quantities import amount

Amounts = Mapping[str, int]
Texts = tuple[tuple[str, str], ...]
T = TypeVar("T")

#: The dialect of KAI, which our own agent serves as well.
KAI = "kai"
MOST_MIB = 1 << 24
UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z-]{1,64}")
#: Alternatives in one annotation (models, uuids), and characters in each of them.
MOST_ALTERNATIVES = 64
LONGEST_ALTERNATIVE = 128
#: GPUs that one annotation names; they are only looked up.
MOST_NAMED = 512
_COUNT = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Part:
    """One container, as far as its GPUs are concerned."""

    name: str = ""
    amounts: Amounts = field(default_factory=dict)
    #: An init container that ends before the next one starts.
    brief: bool = False
    #: An init container, brief or a sidecar.
    init: bool = False


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """Which pod it is, for dialects that serve each pod differently."""

    namespace: str
    name: str
    #: Kind and name of its controller; empty without one.
    owner: tuple[str, str]
    labels: Texts
    annotations: Texts
    bound: bool


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """What of a pod requests GPUs: its containers, init containers first, and its annotations."""

    parts: Sequence[Part] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    #: None unless it has a scheduling map.
    identity: PodIdentity | None = None
    #: Admission has injected what an MPS client needs.
    mps_injected: bool = False


@dataclass(frozen=True, slots=True)
class NodeDeclaration:
    """What a Node object says about its GPUs."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    allocatable: Amounts
    #: Types of its conditions that are True.
    conditions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Bound:
    """What a bound pod says, and what it had asked for."""

    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    #: None where its annotations ask for nothing any more.
    ask: GpuRequest | None


@dataclass(frozen=True, slots=True)
class Assignment:
    """A decision, with all that is needed to write it as annotations."""

    pod: Pod
    node: str
    grant: Grant
    #: None where the GPUs of the node are not known one by one.
    inventory: Inventory | None
    now_ns: int

    @property
    def now_s(self) -> int:
        return self.now_ns // 1_000_000_000


class Dialect(Protocol):
    name: ClassVar[str]
    #: Annotations of pods that say what they ask for.
    annotation_keys: ClassVar[tuple[str, ...]]
    #: Resources that are its own and that no node lists as allocatable.
    resources: ClassVar[tuple[str, ...]]

    def ask(self, gpu_spec: GpuSpec) -> GpuRequest | None:
        """What the pod asks for in this dialect; None if it does not speak it.

        Raises FairleadError with a sentence for its author if it makes no sense.
        """
        ...

    def inventory(self, declaration: NodeDeclaration) -> Inventory | None:
        """The node's GPUs, if it lists them in this dialect.

        Raises FairleadError if it does, but not so that one could understand it.
        """
        ...

    def grant(self, bound: Bound) -> Grant | None:
        """What a bound pod was given; None unless it says so in this dialect, and well."""
        ...

    def pending(self, annotations: Mapping[str, str]) -> bool:
        """Whether the device plugin has the assignment, and has not confirmed it yet."""
        ...

    def annotations_for(self, assignment: Assignment) -> Mapping[str, str]:
        """The annotations that its device plugin reads."""
        ...

    def lock(self, assignment: Assignment) -> tuple[str, str] | None:
        """The annotation of the node that is written as a lock before the bind, and its value."""
        ...


class DialectDefaults:
    """The answers of a dialect that does not use a function."""

    annotation_keys: ClassVar[tuple[str, ...]] = ()
    resources: ClassVar[tuple[str, ...]] = ()

    def ask(self, gpu_spec: GpuSpec) -> GpuRequest | None:
        return None

    def inventory(self, declaration: NodeDeclaration) -> Inventory | None:
        return None

    def grant(self, bound: Bound) -> Grant | None:
        return None

    def pending(self, annotations: Mapping[str, str]) -> bool:
        return False

    def annotations_for(self, assignment: Assignment) -> Mapping[str, str]:
        return {}

    def lock(self, assignment: Assignment) -> tuple[str, str] | None:
        return None


def gpu_positions(gpu_spec: GpuSpec, resource: str) -> tuple[tuple[int, ...], ...]:
    """Which of the pod's GPUs each container gets, counted as Kubernetes counts.

    Containers and sidecars get their own. What an init container has, the containers after it have
    again; only the sidecars before it are still there. Beyond the limit of
    GPUs it is left empty.
    """
    if most_at_once(gpu_spec, resource) > MOST_GPUS:
        return ()
    taken = 0
    found = []
    for part in gpu_spec.parts:
        need = part.amounts.get(resource, 0)
        found.append(tuple(range(taken, taken + need)))
        taken += 0 if part.brief else need
    return tuple(found)


def most_at_once(gpu_spec: GpuSpec, resource: str) -> int:
    """As Kubernetes counts: containers together, or the greediest moment of their start."""
    running = most = 0
    for part in gpu_spec.parts:
        need = part.amounts.get(resource, 0)
        most = max(most, running + need)
        running += 0 if part.brief else need
    return most


def unless_single(found: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Empty for a single container, else unchanged."""
    return found if len(found) > 1 else ()


def only_container(gpu_spec: GpuSpec, resource: str, why: str) -> Part | None:
    """The one container that asks for the resource; refused with the reason if there are more."""
    asked = [part for part in gpu_spec.parts if part.amounts.get(resource, 0)]
    if len(asked) > 1:
        names = " and ".join(part.name for part in asked[:2])
        raise FairleadError(f"containers {names} both request {resource}; {why}")
    return asked[0] if asked else None


def decoded(decoder: Decoder[T], raw: str, where: str) -> T:
    """JSON of others, however strange."""
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise FairleadError(f"its annotation {where} cannot be read: {error}") from error


def alternatives(
    key: str, text: str, separator: str, most: int = MOST_ALTERNATIVES
) -> tuple[str, ...]:
    """The parts of a list in an annotation. Each one is compared with every model there is."""
    count = text.count(separator) + 1
    if count > most:
        raise FairleadError(f"{key} has {count} alternatives; write at most {most}")
    parts = tuple(part.strip() for part in text.split(separator) if part.strip())
    longest = max(map(len, parts), default=0)
    if longest > LONGEST_ALTERNATIVE:
        raise FairleadError(
            f"{key} has an alternative of {longest} characters; write at most {LONGEST_ALTERNATIVE}"
        )
    return parts


def mib_of(key: str, text: str) -> int:
    """MiB of an amount of GPU memory with its unit; at least 1, and no more than any GPU has."""
    try:
        size = amount("memory", text)
    except QuantityError as error:
        raise FairleadError(f"{key}: {error}; write an amount such as 16Gi or 16000Mi") from error
    if size <= 0:
        raise FairleadError(f"{key} is {text[:32]!r}; request more than 0, such as 4Gi")
    if size < 1 << 20:
        raise FairleadError(
            f"{key} is {text[:32]!r}, which is {size} bytes; "
            "write the unit, such as 16Gi or 16000Mi"
        )
    if size > MOST_MIB << 20:
        raise FairleadError(
            f"{key} is {text[:32]!r}, which is more than any GPU has; "
            "write an amount such as 16Gi or 16000Mi"
        )
    return -(-size // (1 << 20))


def asked_mib(amount: int, mib_each: int = 1) -> int:
    """MiB that were asked for; beyond a million million of them it makes no difference."""
    return min(amount * mib_each, 1 << 40)


def number(text: str) -> int | None:
    """A plain decimal number of a sensible size, or None."""
    return int(text) if _COUNT.fullmatch(text) else None


def checked(gpus: Sequence[Gpu], where: str) -> tuple[Gpu, ...]:
    """GPUs that a node may list: a device plugin wrote them, but others can edit annotations."""
    uuids = [gpu.uuid for gpu in gpus]
    if len(gpus) > MOST_GPUS or len(set(uuids)) != len(uuids):
        raise FairleadError(f"{where} lists a GPU twice, or more than {MOST_GPUS} GPUs")
    if not all(UUID.fullmatch(uuid) for uuid in uuids):
        raise FairleadError(f"{where} has an invalid UUID; UUIDs look like GPU-1a2b…")
    if not all(0 <= gpu.memory_mib <= MOST_MIB for gpu in gpus):
        raise FairleadError(f"{where} has a GPU with an impossible amount of memory")
    return tuple(gpus)
