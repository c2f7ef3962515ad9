"""One Event, two groups: core/v1 keeps it, events.k8s.io/v1 shows the same under other names."""

from typing import Any

Object = dict[str, Any]

_NEW_TO_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_TO_NEW = {old: new for new, old in _NEW_TO_CORE.items()}


def to_core(event: Object) -> Object:
    """An events.k8s.io/v1 Event as core/v1 has it."""
    return {_NEW_TO_CORE.get(name, name): value for name, value in event.items()}


def to_events_group(event: Object) -> Object:
    """A core/v1 Event as events.k8s.io/v1 shows it."""
    shown = {_CORE_TO_NEW.get(name, name): value for name, value in event.items()}
    if not shown.get("reportingInstance"):
        shown.pop("reportingInstance", None)
    if not shown.get("reportingController"):
        shown.pop("reportingController", None)
    return shown
