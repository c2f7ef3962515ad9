"""ElasticQuotas: of Koordinator (scheduling.sigs.k8s.io), and of scheduler-plugins.

Both have a minimum, which others may use while it is idle, and a maximum; a resource that a
maximum does not list is not limited. The quotas of Koordinator form trees by labels, and pods name
theirs in a label. Those of scheduler-plugins apply to the pods of their namespace. Their statuses
are written by their own controllers.
"""

from typing import ClassVar

import msgspec

from fairlead.kube.queues.api import QueueDefaults, QueueKind, QueueWire
from fairlead.kube.queues.limits import check_limit, name_of_queue, queue_amounts
from fairlead.model.errors import FairleadError
from fairlead.model.pods import Amounts
from fairlead.model.queues import QueueSpec, Sharing, Weights

_PREFIX = "quota.scheduling.koordinator.sh/"
QUOTA_NAME, _PARENT = f"{_PREFIX}name", f"{_PREFIX}parent"
_IS_PARENT, _LENDS = f"{_PREFIX}is-parent", f"{_PREFIX}allow-lent-resource"
_WEIGHT = f"{_PREFIX}shared-weight"
#: What Koordinator calls the top of its trees.
_ROOT = "koordinator-root-quota"

_Resources = dict[str, str | int]


class _Spec(msgspec.Struct, gc=False):
    min: _Resources | None = None
    max: _Resources | None = None


_specs = msgspec.json.Decoder(_Spec)
_weights = msgspec.json.Decoder(_Resources)


class ElasticQuotas(QueueDefaults):
    """Of scheduler-plugins: the quota of a namespace."""

    name: ClassVar[str] = "elasticquota"
    kind: ClassVar[QueueKind | None] = QueueKind(
        "scheduling.x-k8s.io", ("v1alpha1",), "elasticquotas", "ElasticQuota"
    )

    def key(self, namespace: str, name: str) -> str:
        return f"{self.name}/{namespace}/{name}"

    def spec(self, key: str, wire: QueueWire) -> QueueSpec:
        least, most = _bounds(wire)
        namespace = wire.metadata.namespace
        return QueueSpec(
            key,
            guaranteed=least,
            limit=most,
            namespaces=frozenset((namespace,)),
            of_namespace=namespace,
            sharing=Sharing.FIRST_COME,
        )


class KoordinatorQuotas(QueueDefaults):
    name: ClassVar[str] = "koordinator"
    label_keys: ClassVar[tuple[str, ...]] = (QUOTA_NAME,)
    kind: ClassVar[QueueKind | None] = QueueKind(
        "scheduling.sigs.k8s.io", ("v1alpha1",), "elasticquotas", "ElasticQuota"
    )

    def spec(self, key: str, wire: QueueWire) -> QueueSpec:
        least, most = _bounds(wire)
        meta, labels = wire.metadata, wire.metadata.labels or {}
        parent, is_parent = labels.get(_PARENT, ""), labels.get(_IS_PARENT) == "true"
        return QueueSpec(
            key,
            parent="" if parent in ("", _ROOT) else f"{self.name}/{name_of_queue(_PARENT, parent)}",
            guaranteed=least,
            limit=most,
            weights=_shared_weights((meta.annotations or {}).get(_WEIGHT), most),
            of_namespace="" if is_parent else meta.namespace,
            sharing=Sharing.RUNTIME,
            leaves_only=True,
            not_lent=least if labels.get(_LENDS) == "false" else (),
        )


def _bounds(wire: QueueWire) -> tuple[Amounts, Amounts]:
    said = _specs.decode(wire.spec)
    least = queue_amounts("spec.min", said.min or {})
    most = queue_amounts("spec.max", said.max or {})
    check_limit(least, most, above="spec.min", below="spec.max")
    return least, most


def _shared_weights(text: str | None, most: Amounts) -> Weights:
    """By resource; as much as the maximum where nothing is said."""
    if not text:
        return tuple((name, float(number)) for name, number in most)
    try:
        found = _weights.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FairleadError(f"{_WEIGHT} cannot be read: {error}") from error
    return tuple((name, float(number)) for name, number in queue_amounts(_WEIGHT, found))
