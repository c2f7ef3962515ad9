"""All queue dialects: which queue a pod names in any of them, and how their objects are read."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import msgspec

from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.queues.api import QueueDialect, QueueObject, QueueWire
from fairlead.kube.queues.elastic_quotas import ElasticQuotas, KoordinatorQuotas
from fairlead.kube.queues.fairlead import QUEUE, FairleadQueues
from fairlead.kube.queues.kai import KaiQueues
from fairlead.kube.queues.limits import LONGEST_STATUS_BYTES, name_of_queue
from fairlead.kube.queues.times import seconds_of
from fairlead.kube.queues.volcano import VolcanoQueues
from fairlead.kube.queues.yunikorn import YunikornQueues
from fairlead.model.errors import FairleadError
from fairlead.model.queues import UNQUEUED, QueueSpec

#: In the order in which they are documented. No pod may name queues of two of them.
DIALECTS: tuple[QueueDialect, ...] = (
    FairleadQueues(),
    KaiQueues(),
    VolcanoQueues(),
    KoordinatorQuotas(),
    ElasticQuotas(),
    YunikornQueues(),
)
NAMES = tuple(dialect.name for dialect in DIALECTS)

#: Pods with one of these labels are charged by Kueue, and by nothing of ours.
KUEUE_LABELS = ("kueue.x-k8s.io/managed", "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/podset")

_objects = msgspec.json.Decoder(QueueWire)
_NOTHING: Mapping[str, str] = {}
_LONGEST_PROBLEM = 500


class QueueDialects:
    """The dialects that are switched on."""

    def __init__(self, dialects: Iterable[QueueDialect] = DIALECTS) -> None:
        self.dialects = tuple(dialects)
        self._by_name = {dialect.name: dialect for dialect in self.dialects}
        self._labels = frozenset(key for each in self.dialects for key in each.label_keys)
        self._annotations = frozenset(key for each in self.dialects for key in each.annotation_keys)
        self._words = self._labels.union(KUEUE_LABELS if self.dialects else ())

    def of(self, key: str) -> QueueDialect | None:
        """The dialect of a queue's key."""
        return self._by_name.get(key.partition("/")[0])

    def named(
        self, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None
    ) -> tuple[str, str]:
        """The key of the queue that a pod names, and what is wrong with what it says.

        It is asked for every pod, and most say nothing.
        """
        if (not labels or self._words.isdisjoint(labels)) and (
            not annotations or self._annotations.isdisjoint(annotations)
        ):
            return "", ""
        return self._read(labels or _NOTHING, annotations or _NOTHING)

    def of_namespace(
        self, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None
    ) -> str:
        """The key of the queue for pods of a namespace that name none."""
        own = self._by_name.get(FairleadQueues.name)
        name = (labels or _NOTHING).get(QUEUE) or (annotations or _NOTHING).get(QUEUE)
        return f"{own.name}/{name}" if own and name else ""

    def _read(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, str]:
        if any(label in labels for label in KUEUE_LABELS):
            return UNQUEUED, ""
        try:
            found = [key for each in self.dialects if (key := _key(each, labels, annotations))]
        except FairleadError as error:
            return "", f"the pod is invalid: {error}"
        return ("", _TWO.format(*found[:2])) if len(found) > 1 else (found[0] if found else "", "")


_TWO = (
    "the pod is invalid: it names two queues, {} and {}; remove the label or annotation of one "
    "of them"
)


def _key(dialect: QueueDialect, labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    for words, keys in (labels, dialect.label_keys), (annotations, dialect.annotation_keys):
        for key in keys:
            if key in words:
                name = name_of_queue(key, words[key])
                return f"{dialect.name}/{name.lower() if dialect.ignores_case else name}"
    return ""


ALL_QUEUES = QueueDialects()


def decode_queue(
    dialect: QueueDialect, raw: bytes | msgspec.Raw, *, with_long_status: bool = False
) -> QueueObject:
    """The object of a queue. One that makes no sense has a `problem`; it is not an exception."""
    wire = _objects.decode(raw)
    meta, status = wire.metadata, bytes(wire.status)
    return QueueObject(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.resource_version,
        meta.generation,
        _spec(dialect, dialect.key(meta.namespace, meta.name), wire),
        status if with_long_status or len(status) <= LONGEST_STATUS_BYTES else b"",
    )


def _spec(dialect: QueueDialect, key: str, wire: QueueWire) -> QueueSpec:
    meta = wire.metadata
    try:
        found = dialect.spec(key, wire)
    except FairleadError as error:
        found = QueueSpec(key, problem=str(error)[:_LONGEST_PROBLEM])
    except UNREADABLE as error:
        found = QueueSpec(key, problem=f"its spec cannot be read: {error}"[:_LONGEST_PROBLEM])
    return replace(found, uid=meta.uid, created_s=seconds_of(meta.creation_timestamp))
