"""A namespace from its JSON."""

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from fairlead.kube.codec.meta import Meta
from fairlead.kube.queues.registry import ALL_QUEUES, QueueDialects
from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Namespace:
    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    #: The key of the queue of its pods that name none.
    queue: str = ""

    @property
    def key(self) -> str:
        return self.name


class _Namespace(msgspec.Struct, gc=False):
    metadata: Meta


_namespaces = msgspec.json.Decoder(_Namespace)


def decode_namespace(raw: bytes | Raw, queue_dialects: QueueDialects = ALL_QUEUES) -> Namespace:
    meta = _namespaces.decode(raw).metadata
    queue = queue_dialects.of_namespace(meta.labels, meta.annotations)
    return Namespace(meta.name, meta.uid, meta.resource_version, meta.labels or {}, queue)
