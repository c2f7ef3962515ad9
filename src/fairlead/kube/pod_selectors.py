"""Services and controllers of pods: which pods each of them selects."""

from collections.abc import Callable

import msgspec
from msgspec import Raw

from fairlead.kube.requests import decode_selector
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.selectors import LabelSelector

#: Versions and kinds whose selectors say which pods belong together.
OWNERS = frozenset({
    ("v1", "ReplicationController"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class SelectingObject:
    """An object that selects pods. Without a selector it selects none."""

    kind: str
    namespace: str
    name: str
    uid: str
    version: str
    selector: LabelSelector | None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, gc=False):
    selector: Raw = Raw()


class _SelectingWire(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decoder = msgspec.json.Decoder(_SelectingWire)

#: Where each kind is listed and watched, and how its selector is written: the older two have
#: plain labels.
KINDS: dict[str, tuple[str, bool]] = {
    "Service": ("/api/v1/services", True),
    "ReplicationController": ("/api/v1/replicationcontrollers", True),
    "ReplicaSet": ("/apis/apps/v1/replicasets", False),
    "StatefulSet": ("/apis/apps/v1/statefulsets", False),
}


def decoder_of(kind: str) -> Callable[[bytes | Raw], SelectingObject]:
    labels_only = KINDS[kind][1]

    def decode(raw: bytes | Raw) -> SelectingObject:
        wire = _decoder.decode(raw)
        meta = wire.metadata
        selector = decode_selector(bytes(wire.spec.selector), labels_only=labels_only)
        return SelectingObject(
            kind, meta.namespace, meta.name, meta.uid, meta.resource_version, selector
        )

    return decode
