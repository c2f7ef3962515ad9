"""Advance reservations: reservations.fairlead.dev, and their status."""

from datetime import UTC, datetime

import msgspec

from fairlead.base.durations import DurationError, length_s
from fairlead.kube.gangs.api import GangKind
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.own_objects import LONGEST_MESSAGE, OwnObject, ServedOwn, decode_own
from fairlead.kube.queues.api import Json
from fairlead.kube.queues.times import text_of_time
from fairlead.kube.writes.event_objects import shortened
from fairlead.kube.writes.object_status import ObjectStatusWriter
from fairlead.model.advance import AdvanceReservation, AdvanceStatus
from fairlead.model.errors import FairleadError

ADVANCE = GangKind(
    "fairlead.dev", ("v1alpha1",), "reservations", "Reservation", "apply deploy/crds.yaml"
)
#: Nodes that the status lists, and names of users that a reservation may have.
MOST_NODES = 1000
_MOST_NAMES = 1000
_MOST_LABELS = 16
_MOST_GPUS = 1_000_000
#: GPUs of nodes that are not reserved whole.
_MOST_PER_NODE = 64
_MOST_BY_GPU = 512
#: A longer one is taken for a mistake.
_LONGEST_S = 366 * 86400.0
#: The year 2200.
_LATEST_S = 7_258_118_400.0


class _Spec(msgspec.Struct, rename="camel", gc=False):
    start: str = ""
    end: str = ""
    duration: str = ""
    node_selector: dict[str, str] | None = None
    gpus: int = 0
    gpus_per_node: int = 0
    gpu_model: str = ""
    namespaces: list[str] | None = None
    queues: list[str] | None = None
    maintenance: bool = False
    preempt: bool = False


class _NodeGpus(msgspec.Struct, gc=False):
    node: str
    gpus: int


class _Status(msgspec.Struct, rename="camel", gc=False):
    nodes: list[str] | None = None
    gpus_by_node: list[_NodeGpus] | None = None


_specs = msgspec.json.Decoder(_Spec)
_statuses = msgspec.json.Decoder(_Status | None)


AdvanceObject = OwnObject[AdvanceReservation]


def decode_advance(raw: bytes | msgspec.Raw) -> AdvanceObject:
    """One that makes no sense has a `problem`; it is not an exception."""
    return decode_own(raw, _read, lambda name, why: AdvanceReservation(name, problem=why))


def _read(name: str, spec: msgspec.Raw, status: bytes) -> AdvanceReservation:
    return _reservation(name, _specs.decode(spec), _chosen(status))


def _reservation(name: str, said: _Spec, chosen: _Status) -> AdvanceReservation:
    start_s, end_s = _times(said)
    users = len(said.namespaces or ()) + len(said.queues or ())
    if bool(said.node_selector) == bool(said.gpus):
        raise FairleadError("write either spec.nodeSelector or spec.gpus")
    if not 0 <= said.gpus <= _MOST_GPUS:
        raise FairleadError(f"spec.gpus is {said.gpus}; write a number from 1 to {_MOST_GPUS:,}")
    _check_gpus_per_node(said)
    if len(said.node_selector or ()) > _MOST_LABELS:
        raise FairleadError(f"spec.nodeSelector has more than {_MOST_LABELS} labels")
    if users > _MOST_NAMES:
        raise FairleadError(f"spec.namespaces and spec.queues have more than {_MOST_NAMES} names")
    if said.maintenance == bool(users):
        raise FairleadError(
            "write who may use it in spec.namespaces or spec.queues, or else maintenance as true"
        )
    return AdvanceReservation(
        name,
        start_s,
        end_s,
        tuple(sorted((said.node_selector or {}).items())),
        said.gpus,
        said.gpu_model,
        frozenset(said.namespaces or ()),
        frozenset(f"fairlead/{queue}" for queue in said.queues or ()),
        preempts=said.preempt,
        chosen=tuple((chosen.nodes or [])[:MOST_NODES]),
        gpus_per_node=said.gpus_per_node,
        chosen_gpus=_chosen_gpus(chosen) if said.gpus_per_node else (),
    )


def _check_gpus_per_node(said: _Spec) -> None:
    some = said.gpus_per_node
    if some and not said.gpus:
        raise FairleadError("spec.gpusPerNode needs spec.gpus")
    if not 0 <= some <= _MOST_PER_NODE:
        limit = f"a number from 1 to {_MOST_PER_NODE}"
        raise FairleadError(f"spec.gpusPerNode is {some}; write {limit}")
    if some and said.gpus % some:
        raise FairleadError(f"spec.gpus is {said.gpus}; write a multiple of spec.gpusPerNode")
    if some and said.gpus > _MOST_BY_GPU:
        raise FairleadError(
            f"spec.gpus is {said.gpus}; with spec.gpusPerNode, write at most {_MOST_BY_GPU}, or "
            "leave out spec.gpusPerNode to reserve whole nodes"
        )


def _chosen_gpus(chosen: _Status) -> tuple[tuple[str, int], ...]:
    found = {each.node: each.gpus for each in (chosen.gpus_by_node or [])[:MOST_NODES]}
    return tuple(sorted((node, gpus) for node, gpus in found.items() if 0 < gpus <= _MOST_BY_GPU))


def _times(said: _Spec) -> tuple[float, float]:
    start_s = _time("spec.start", said.start)
    if bool(said.end) == bool(said.duration):
        raise FairleadError("write either spec.end or spec.duration")
    end_s = _time("spec.end", said.end) if said.end else start_s + _length(said.duration)
    if end_s <= start_s:
        raise FairleadError("spec.end must be after spec.start")
    if end_s - start_s > _LONGEST_S:
        raise FairleadError("it lasts for more than 366 days")
    return start_s, end_s


def _time(key: str, text: str) -> float:
    try:
        found = datetime.fromisoformat(text[:40])
        at_s = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        at_s = -1.0
    if not 0 < at_s < _LATEST_S:
        remedy = "write a time such as 2026-11-20T09:00:00Z"
        raise FairleadError(f"{key} is {text[:40]!r}; {remedy}")
    return at_s


def _length(text: str) -> float:
    try:
        return length_s(text)
    except DurationError as error:
        raise FairleadError(f"spec.duration: {error}") from None


def _chosen(status: bytes) -> _Status:
    """What an earlier leader wrote; nothing if others wrote there what makes no sense."""
    try:
        found = _statuses.decode(status) if status else None
    except UNREADABLE:
        found = None
    return found or _Status()


class ServedAdvance(ServedOwn[AdvanceReservation, AdvanceStatus]):
    kind = ADVANCE

    def read(self, raw: bytes) -> AdvanceObject:
        return decode_advance(raw)

    def _wanted(self, described: AdvanceReservation, status: AdvanceStatus) -> Json:
        end_s = described.end_s
        return {
            "phase": status.phase.value,
            "end": text_of_time(end_s) if end_s else "",
            "nodes": list(status.nodes[:MOST_NODES]),
            "gpus": status.gpus,
            "gpusByNode": [{"node": node, "gpus": gpus} for node, gpus in status.gpus_on] or None,
            "conflictingPods": status.conflicts,
            "message": shortened(status.message, LONGEST_MESSAGE),
        }


class AdvanceStatusWriter(ObjectStatusWriter[AdvanceObject, AdvanceStatus]):
    """Writes the newest status of each reservation."""
