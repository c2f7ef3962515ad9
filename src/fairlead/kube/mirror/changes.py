"""What a reflector reports to its listener, and what it requires of objects."""

from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from fairlead.model.lazy_dataclass import dataclass


class Mirrored(Protocol):
    """An object of the API, as far as a reflector must know it."""

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for objects of the cluster."""

    @property
    def uid(self) -> str:
        """Tells an object from a later one of the same name."""

    @property
    def version(self) -> str:
        """Its resourceVersion."""


T = TypeVar("T", bound=Mirrored)


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """The object is new, or differs from what was reported before."""

    obj: T


@dataclass(frozen=True, slots=True)
class Deleted(Generic[T]):
    """The object is gone; `obj` is the last that was seen of it."""

    obj: T


@dataclass(frozen=True, slots=True)
class Undecodable:
    """There is an object here that we cannot read. What was reported of it before may be outdated.

    It ends with an Upserted, Deleted or Vanished of the same key.
    """

    #: None if not even the name could be read.
    key: str | None
    uid: str
    version: str
    raw_excerpt: str
    error: str
    #: The whole object as plain JSON values, if it is JSON at all.
    object: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Vanished:
    """An object that was Undecodable, and never reported as an object, is gone."""

    key: str
    uid: str


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything that a (re)list found has been reported; once for each list."""


Change: TypeAlias = Upserted[T] | Deleted[T] | Undecodable | Vanished | Synced


def change_key(change: Change[Any]) -> str:
    """The object that changed; "sync" for what is about none."""
    match change:
        case Upserted(obj) | Deleted(obj):
            return str(obj.key)
        case Undecodable() | Vanished():
            return change.key or ""
    return "sync"
