"""What a queue dialect is: one API by which teams say what they may use of the cluster.

Each dialect is one file. It says by which words a pod names its queue, reads the objects of queues,
and writes the status that users of that API read. Nothing here decides anything. What makes no
sense is a FairleadError with a sentence for its author.
"""

from typing import Any, ClassVar, Protocol

import msgspec

from fairlead.kube.object_kinds import ObjectKind, SeenObject
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.queues import QueueSpec, QueueStatus

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class QueueKind(ObjectKind):
    """The kind of object that describes queues."""

    #: Why pods that name a queue wait where the kind is not served; empty: no queue applies there.
    if_missing: str = ""


class QueueMeta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class QueueWire(msgspec.Struct, gc=False):
    """An object of any dialect; each reads its own spec and status."""

    metadata: QueueMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


@dataclass(frozen=True, slots=True)
class QueueStanding:
    """An object as it is before its status is written."""

    status: Json
    generation: int


class QueueDialect(Protocol):
    #: The first part of the keys of its queues, and its name in the configuration.
    name: ClassVar[str]
    #: By which a pod names its queue, the first before the others; labels before annotations.
    label_keys: ClassVar[tuple[str, ...]]
    annotation_keys: ClassVar[tuple[str, ...]]
    #: Whether names that differ only in case are one queue; their keys are in lower case.
    ignores_case: ClassVar[bool]
    #: None: it has no objects that the API server serves as a kind.
    kind: ClassVar[QueueKind | None]
    #: Queues that exist without an object, by name.
    implied: ClassVar[tuple[str, ...]]
    #: Only who serves this scheduler name writes the status; empty: we always do; None: never.
    written_by: ClassVar[str | None]

    def key(self, namespace: str, name: str) -> str:
        """The key of the queue that an object describes."""
        ...

    def implied_spec(self, name: str) -> QueueSpec:
        """What applies where a queue of `implied` has no object."""
        ...

    def spec(self, key: str, wire: QueueWire) -> QueueSpec:
        """What an object says; msgspec errors are for the caller."""
        ...

    def status(self, standing: QueueStanding, status: QueueStatus, now: str) -> Json | None:
        """The fields of the status to write; None if it says so already."""
        ...


class QueueDefaults:
    """The answers of a dialect that does not use a function."""

    name: ClassVar[str]
    label_keys: ClassVar[tuple[str, ...]] = ()
    annotation_keys: ClassVar[tuple[str, ...]] = ()
    ignores_case: ClassVar[bool] = False
    kind: ClassVar[QueueKind | None] = None
    implied: ClassVar[tuple[str, ...]] = ()
    written_by: ClassVar[str | None] = None

    def key(self, namespace: str, name: str) -> str:
        return f"{self.name}/{name}"

    def implied_spec(self, name: str) -> QueueSpec:
        return QueueSpec(self.key("", name))

    def spec(self, key: str, wire: QueueWire) -> QueueSpec:
        raise NotImplementedError("a dialect without a kind has no objects")

    def status(self, standing: QueueStanding, status: QueueStatus, now: str) -> Json | None:
        return None


def replacing(before: object, wanted: Json) -> Json:
    """A merge patch adds to a map; what is there no more has to be named."""
    gone = set(before) - set(wanted) if isinstance(before, dict) else set()
    return {**dict.fromkeys(sorted(gone)), **wanted}


@dataclass(frozen=True, slots=True)
class QueueObject(SeenObject[QueueSpec]):
    """The object of a queue."""
