"""What a scheduler made of a pod."""

from dataclasses import dataclass, field

from oracle.api import Api, Key
from oracle.case import Object

_CONDITION_FIELDS = ("type", "status", "reason", "message", "observedGeneration")
_EVENT_FIELDS = ("type", "reason", "action", "note")


@dataclass(frozen=True)
class Answer:
    """A node, or a refusal in the scheduler's words; neither when it said nothing in time."""

    node: str = ""
    #: Of the PodScheduled condition.
    condition: dict[str, object] = field(default_factory=dict)
    #: Of the first FailedScheduling event.
    event: dict[str, object] = field(default_factory=dict)

    @property
    def message(self) -> str:
        return str(self.condition.get("message", ""))

    @property
    def verdict(self) -> str:
        return "placed" if self.node else "refused" if self.condition else "silent"


def answer(api: Api, key: Key) -> Answer | None:
    """The answer about a pod, once there is a complete one."""
    pod = api.pods.get(key)
    if pod is None:
        return None
    if node := pod["spec"].get("nodeName"):
        return Answer(node)
    condition = _refusal(pod)
    failures = api.failures.get(key)
    if not condition or not failures:
        return None
    return Answer("", condition, {field: failures[0].get(field) for field in _EVENT_FIELDS})


def _refusal(pod: Object) -> dict[str, object]:
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition.get("message"):
            return {field: condition.get(field) for field in _CONDITION_FIELDS}
    return {}
