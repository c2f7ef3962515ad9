"""The Event objects of events.k8s.io/v1, in the words of kube-scheduler."""

import uuid

import msgspec

from fairlead.base.names import is_subdomain
from fairlead.base.timestamps import micro_time
from fairlead.engine.instructions import Evict
from fairlead.model.pods import Pod

# The API server refuses longer ones, counted in bytes.
LONGEST_NOTE_BYTES = 1024
LONGEST_INSTANCE = 128
_CUT = " ..."
#: Where events about things without a namespace go.
_NAMESPACE_OF_NODES = "default"


class _Meta(msgspec.Struct):
    name: str
    namespace: str


class Regarding(msgspec.Struct, rename="camel"):
    namespace: str
    name: str
    uid: str
    resource_version: str
    kind: str = "Pod"
    api_version: str = "v1"


def regarding_node(name: str) -> Regarding:
    """As kubelets do it, and `kubectl describe node` looks for it: the name is the uid."""
    return Regarding("", name, name, "", kind="Node")


class Series(msgspec.Struct, rename="camel"):
    """How often it happened, and when last."""

    count: int
    last_observed_time: str


class SeriesPatch(msgspec.Struct):
    series: Series


class Event(msgspec.Struct, rename="camel"):
    metadata: _Meta
    regarding: Regarding
    type: str
    reason: str
    action: str
    note: str
    event_time: str
    reporting_controller: str
    reporting_instance: str
    series: Series | msgspec.UnsetType = msgspec.UNSET
    related: Regarding | msgspec.UnsetType = msgspec.UNSET
    kind: str = "Event"
    api_version: str = "events.k8s.io/v1"


def scheduled_event(pod: Pod, node: str, hostname: str, now_ns: int) -> Event:
    note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
    return _event(pod, ("Normal", "Scheduled", "Binding"), shortened(note), hostname, now_ns)


def failed_event(pod: Pod, note: str, hostname: str, now_ns: int) -> Event:
    return _event(pod, ("Warning", "FailedScheduling", "Scheduling"), note, hostname, now_ns)


def warned_event(pod: Pod, reason: str, note: str, hostname: str, now_ns: int) -> Event:
    return _event(pod, ("Warning", reason, "Checking"), note, hostname, now_ns)


def noted_event(pod: Pod, reason: str, note: str, hostname: str, now_ns: int) -> Event:
    return _event(pod, ("Normal", reason, "Scheduling"), note, hostname, now_ns)


def preempted_event(evict: Evict, victim: Pod, node: str, hostname: str, now_ns: int) -> Event:
    by, note = evict.pod, f"Preempted by pod {evict.pod.uid} on node {node}"
    what = ("Normal", "Preempted", "Preempting")
    if evict.moves:
        what, note = ("Normal", "Consolidated", "Moving"), shortened(evict.because)
    elif evict.because:
        what, note = ("Warning", "GangReleased", "Releasing"), shortened(evict.because)
    event = _event(victim, what, note, hostname, now_ns)
    event.reporting_controller = by.scheduler or "fairlead"
    event.reporting_instance = f"{event.reporting_controller}-{hostname}"[:LONGEST_INSTANCE]
    event.related = Regarding(by.namespace, by.name, by.uid, by.version)
    return event


def warning(
    about: Regarding, reason: str, action: str, note: str, reporter: tuple[str, str], now_ns: int
) -> Event:
    """A warning for the owner of the pod or the administrator of the node."""
    controller, instance = reporter
    return Event(
        metadata=_Meta(_name(about.name, now_ns), about.namespace or _NAMESPACE_OF_NODES),
        regarding=about,
        type="Warning",
        reason=reason,
        action=action,
        note=shortened(note),
        event_time=micro_time(now_ns),
        reporting_controller=controller,
        reporting_instance=instance[:LONGEST_INSTANCE],
    )


def shortened(text: str, longest_bytes: int = LONGEST_NOTE_BYTES) -> str:
    """The text, or as much of it as an event may hold: whole characters, then ` ...`."""
    if len(text) * 4 <= longest_bytes:
        return text
    encoded = text.encode(errors="replace")
    if len(encoded) <= longest_bytes:
        return text
    return encoded[: longest_bytes - len(_CUT)].decode(errors="ignore") + _CUT


def _event(
    pod: Pod, kind: tuple[str, str, str], note: str, hostname: str, now_ns: int
) -> Event:  # fmt: skip
    type_, reason, action = kind
    controller = pod.scheduler or "fairlead"
    return Event(
        metadata=_Meta(_name(pod.name, now_ns), pod.namespace),
        regarding=Regarding(pod.namespace, pod.name, pod.uid, pod.version),
        type=type_,
        reason=reason,
        action=action,
        note=note,
        event_time=micro_time(now_ns),
        reporting_controller=controller,
        reporting_instance=f"{controller}-{hostname}"[:LONGEST_INSTANCE],
    )


def _name(pod_name: str, now_ns: int) -> str:
    """As client-go names events: the pod and the time, or a uuid where that would be too long."""
    name = f"{pod_name}.{now_ns:x}"
    return name if len(name) <= 253 and is_subdomain(pod_name) else str(uuid.uuid4())
