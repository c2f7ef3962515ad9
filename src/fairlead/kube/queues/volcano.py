"""Queues of Volcano (queues.scheduling.volcano.sh).

What is not said is not limited. A queue is charged with the minimum of a job from the moment on at
which its controller may create pods. Volcano's scheduler has the queues `root` and `default` even
where no object describes them, and writes `allocated` into the status.
"""

from typing import ClassVar

import msgspec

from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.queues.api import (
    Json,
    QueueDefaults,
    QueueKind,
    QueueMeta,
    QueueStanding,
    QueueWire,
    replacing,
)
from fairlead.kube.queues.limits import (
    name_of_queue,
    queue_amounts,
    weight_of,
    written_amounts,
)
from fairlead.model.errors import FairleadError
from fairlead.model.pods import Amounts
from fairlead.model.queues import QueueSpec, QueueStatus, Sharing, UnitOrder

ROOT, DEFAULT = "root", "default"
#: A job of a queue in one of these states does not start. A queue without a state is open: only
#: Volcano's controller writes it, and not everybody runs that.
_CLOSED = ("Closed", "Closing", "Unknown")
_ORDERS = {"": UnitOrder.PRIORITY, "traverse": UnitOrder.PRIORITY, "fifo": UnitOrder.STRICT_FIFO}

_Resources = dict[str, str | int]


class _Guarantee(msgspec.Struct, gc=False):
    resource: _Resources | None = None


class _Spec(msgspec.Struct, rename="camel", gc=False):
    weight: float = 1.0
    capability: _Resources | None = None
    deserved: _Resources | None = None
    guarantee: _Guarantee | None = None
    reclaimable: bool | None = None
    parent: str = ""
    priority: int = 0
    dequeue_strategy: str = ""


class _Status(msgspec.Struct, gc=False):
    state: str = ""


_specs = msgspec.json.Decoder(_Spec)
_statuses = msgspec.json.Decoder(_Status | None)


class VolcanoQueues(QueueDefaults):
    name: ClassVar[str] = "volcano"
    label_keys: ClassVar[tuple[str, ...]] = ("volcano.sh/queue-name",)
    annotation_keys: ClassVar[tuple[str, ...]] = (
        "scheduling.volcano.sh/queue-name",
        "volcano.sh/queue-name",
    )
    kind: ClassVar[QueueKind | None] = QueueKind(
        "scheduling.volcano.sh", ("v1beta1",), "queues", "Queue"
    )
    implied: ClassVar[tuple[str, ...]] = (ROOT, DEFAULT)
    written_by: ClassVar[str | None] = "volcano"

    def implied_spec(self, name: str) -> QueueSpec:
        return self.spec(self.key("", name), QueueWire(QueueMeta(name)))

    def spec(self, key: str, wire: QueueWire) -> QueueSpec:
        said = _specs.decode(wire.spec)
        resources = (said.guarantee or _Guarantee()).resource or {}
        kept = queue_amounts("spec.guarantee.resource", resources)
        return QueueSpec(
            key,
            parent=self._parent(wire.metadata.name, said.parent),
            guaranteed=_larger(kept, queue_amounts("spec.deserved", said.deserved or {})),
            not_lent=kept,
            limit=queue_amounts("spec.capability", said.capability or {}),
            weight=weight_of("spec.weight", said.weight),
            priority=said.priority,
            order=_order(said.dequeue_strategy),
            sharing=Sharing.FIRST_COME if said.deserved else Sharing.PROPORTION,
            reclaimable=said.reclaimable is not False,
            closed=_state(wire.status) in _CLOSED,
            charged_at_admission=True,
            leaves_only=True,
        )

    def status(self, standing: QueueStanding, status: QueueStatus, now: str) -> Json | None:
        before, wanted = standing.status.get("allocated"), written_amounts(status.used)
        return None if before == wanted else {"allocated": replacing(before, wanted)}

    def _parent(self, name: str, parent: str) -> str:
        if name == ROOT:
            return ""
        return f"{self.name}/{name_of_queue('spec.parent', parent or ROOT)}"


def _larger(one: Amounts, other: Amounts) -> Amounts:
    found = dict(one)
    for name, number in other:
        found[name] = max(number, found.get(name, 0))
    return tuple(sorted(found.items()))


def _order(strategy: str) -> UnitOrder:
    if strategy not in _ORDERS:
        raise FairleadError(f"spec.dequeueStrategy is {strategy[:32]!r}; write traverse or fifo")
    return _ORDERS[strategy]


def _state(status: msgspec.Raw) -> str:
    """What another wrote there, and makes no sense, closes nothing."""
    try:
        found = _statuses.decode(status) if status else None
    except UNREADABLE:
        return ""
    return found.state if found else ""
