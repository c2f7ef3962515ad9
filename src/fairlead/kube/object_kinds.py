"""Kinds of objects that describe gangs or queues, and the objects as they were last seen."""

from typing import Generic, TypeVar

from fairlead.model.lazy_dataclass import dataclass

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind as the API server serves it."""

    group: str
    #: The first of these that is served is read.
    versions: tuple[str, ...]
    plural: str
    kind: str

    @property
    def full_name(self) -> str:
        """As `kubectl get` takes it."""
        return f"{self.plural}.{self.group}"

    def path(self, version: str) -> str:
        return f"/apis/{self.group}/{version}/{self.plural}"


@dataclass(frozen=True, slots=True)
class SeenObject(Generic[S]):
    """An object as it was last seen, and what its spec says."""

    namespace: str
    name: str
    uid: str
    version: str
    generation: int
    spec: S
    #: As JSON, to be changed in part; empty where it is too long to be kept.
    status: bytes

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
