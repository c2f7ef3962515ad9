"""What a gang dialect is: one API by which pods say that they are placed together.

Each dialect is one file. It reads which gang a pod belongs to, reads the object of a gang where
the API has one, and writes the status that users of that API read. Nothing here decides anything.
What makes no sense is a FairleadError with a sentence for its author.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Protocol

import msgspec

from fairlead.kube.object_kinds import ObjectKind, SeenObject
from fairlead.model.gangs import GangSpec, GangStatus, Membership
from fairlead.model.lazy_dataclass import dataclass

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodWords:
    """What of a pod says which gang it belongs to."""

    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    #: `spec.schedulingGroup.podGroupName`; None without that field.
    scheduling_group: str | None = None
    #: `spec.schedulerName`.
    scheduler: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class GangKind(ObjectKind):
    """The kind of object that describes gangs."""

    #: What to do where it is not served: the end of a sentence.
    remedy: str
    #: False: the status is written with the object itself.
    has_status_subresource: bool = True
    #: Part of Kubernetes: where it is off, fields of pods that name it are dropped.
    is_built_in: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """An object as it is before its status is written."""

    status: Json
    generation: int
    #: The version of the API in which it was read.
    api_version: str


class GangDialect(Protocol):
    #: The first part of the keys of its gangs, and its name in the configuration.
    name: ClassVar[str]
    #: Labels and annotations by which a pod names its gang.
    label_keys: ClassVar[tuple[str, ...]]
    annotation_keys: ClassVar[tuple[str, ...]]
    #: None: there is no object, and the pods say all.
    kind: ClassVar[GangKind | None]
    #: Controllers write it beside the words of another dialect, which then applies.
    gives_way: ClassVar[bool]
    #: Pods with these scheduler names wait until a controller has named their gang.
    grouped: tuple[str, ...]

    def membership(self, pod: PodWords) -> Membership | None:
        """The gang that the pod names in this dialect, if it does."""
        ...

    def spec(self, key: str, spec: bytes) -> GangSpec:
        """What the `spec` of an object says; msgspec errors are for the caller."""
        ...

    def has_run(self, status: bytes) -> bool:
        """Whether the `status` of an object says that the gang needs no admission any more."""
        ...

    def status(self, standing: Standing, status: GangStatus, now: str) -> Json | None:
        """The fields of the object to write, such as `{"status": …}`; None if it says so already.

        A list replaces the one that stands there: conditions of others have to be in it.
        """
        ...


class GangDefaults:
    """The answers of a dialect that does not use a function."""

    label_keys: ClassVar[tuple[str, ...]] = ()
    annotation_keys: ClassVar[tuple[str, ...]] = ()
    kind: ClassVar[GangKind | None] = None
    gives_way: ClassVar[bool] = False
    grouped: tuple[str, ...] = ()

    def spec(self, key: str, spec: bytes) -> GangSpec:
        raise NotImplementedError("a dialect without a kind has no objects")

    def has_run(self, status: bytes) -> bool:
        return False

    def status(self, standing: Standing, status: GangStatus, now: str) -> Json | None:
        return None


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    annotations: dict[str, str] | None = None


class ObjectWire(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


@dataclass(frozen=True, slots=True)
class GangObject(SeenObject[GangSpec]):
    """The object of a gang."""
