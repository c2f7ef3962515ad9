"""What Fairlead's own objects without a namespace have in common: spec, problem, and status."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from fairlead.kube.gangs.api import GangKind
from fairlead.kube.http.paths import named
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.queues.api import Json, QueueWire
from fairlead.kube.writes.object_status import decoded_status
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass

LONGEST_MESSAGE = 500

T = TypeVar("T")
S = TypeVar("S")
_objects = msgspec.json.Decoder(QueueWire)


@dataclass(frozen=True, slots=True)
class OwnObject(Generic[T]):
    """The object as it was last seen."""

    name: str
    uid: str
    version: str
    described: T
    #: As JSON, to be changed in part.
    status: bytes

    @property
    def key(self) -> str:
        return self.name


def decode_own(
    raw: bytes | msgspec.Raw,
    read: Callable[[str, msgspec.Raw, bytes], T],
    broken: Callable[[str, str], T],
) -> OwnObject[T]:
    """`read` gets the name, the spec and the status; `broken` the name, and why that failed."""
    wire = _objects.decode(raw)
    meta, status = wire.metadata, bytes(wire.status)
    try:
        found = read(meta.name, wire.spec, status)
    except FairleadError as error:
        found = broken(meta.name, str(error)[:LONGEST_MESSAGE])
    except UNREADABLE as error:
        found = broken(meta.name, f"its spec cannot be read: {error}"[:LONGEST_MESSAGE])
    return OwnObject(meta.name, meta.uid, meta.resource_version, found, status)


@dataclass(frozen=True, slots=True)
class ServedOwn(Generic[T, S]):
    """A kind, in the version in which it is read; subclasses say what its status is."""

    kind: ClassVar[GangKind]
    version: str

    @property
    def full_name(self) -> str:
        return self.kind.full_name

    def path(self, seen: OwnObject[T]) -> str:
        return named(self.kind.path(self.version), seen.name)

    def tail(self, _body: Json) -> str:
        return "/status"

    def body(self, seen: OwnObject[T], status: S, _now: str) -> Json | None:
        """What is to be changed of the status; None if nothing is."""
        before, wanted = decoded_status(seen), self._wanted(seen.described, status)
        changed = {name: value for name, value in wanted.items() if before.get(name) != value}
        return {"status": changed} if changed else None

    @abstractmethod
    def read(self, raw: bytes) -> OwnObject[T]: ...

    @abstractmethod
    def _wanted(self, described: T, status: S) -> dict[str, Any]: ...
