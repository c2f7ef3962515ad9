"""What a scheduler made of a pod."""

from dataclasses import dataclass, field, replace

from oracle.api import Api, Key, refusal
from oracle.case import Object, key_of, nominated
from oracle.claims_asked import waits_for_devices

_CONDITION_FIELDS = ("type", "status", "reason", "message", "observedGeneration")
_EVENT_FIELDS = ("type", "reason", "action", "note")


@dataclass(frozen=True)
class Answer:
    """A node, or a refusal in the scheduler's words; neither when it said nothing in time."""

    node: str = ""
    #: It chose the node, and waits for volumes or devices before it binds.
    waits: bool = False
    #: Of the PodScheduled condition.
    condition: dict[str, object] = field(default_factory=dict)
    #: Of the first FailedScheduling event.
    event: dict[str, object] = field(default_factory=dict)
    #: Where it makes room, and the pods that have to go.
    nominated: str = ""
    victims: tuple[Key, ...] = ()
    #: Pods that lost what they had been promised.
    cleared: tuple[Key, ...] = ()
    #: What was written about the claims of a pod that was placed.
    claims: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return str(self.condition.get("message", ""))

    @property
    def verdict(self) -> str:
        if self.node:
            return "placed"
        if self.nominated or self.victims:
            return "makes room"
        return "refused" if self.condition else "silent"


def answer(api: Api, key: Key, nomination: str = "") -> Answer | None:
    """The answer about a pod, once there is a complete one; victims are not looked for.

    `nomination` is the node that it came with a nomination for.
    """
    pod = api.pods.get(key)
    if pod is None:
        return None
    if node := pod["spec"].get("nodeName"):
        return Answer(node)
    if refusal(pod):
        return _refused(api, key)
    if chosen := api.volumes_for.get(key) or (nominated(pod) if not nomination else ""):
        return Answer(chosen, waits=True)
    return None


def answer_with_claims(api: Api, key: Key) -> Answer | None:
    """The same of a pod that uses resource claims; they are allocated before it is bound.

    One that was refused first may be bound soon after: a claim was freed for it.
    """
    pod = api.pods.get(key)
    if pod is None:
        return None
    if key in api.refused:
        return _refused(api, key)
    if node := pod["spec"].get("nodeName"):
        return Answer(node)
    if waits_for_devices(api, key):
        chosen = api.devices_for.get(key) or nominated(pod)
        return Answer(chosen, waits=True) if chosen else None
    return None


def made_room(api: Api, key: Key, node: str) -> Answer | None:
    """The answer before a pod was bound, if it was refused first.

    Some rules let a pod in as soon as the victims have been told to go, and a scheduler that
    notices binds it at once.
    """
    told = _refused(api, key)
    return told and replace(told, nominated=told.nominated or node)


def _refused(api: Api, key: Key) -> Answer | None:
    pod, failures = api.refused.get(key), api.failures.get(key)
    if not pod or not failures:
        return None
    condition = {field: (refusal(pod) or {}).get(field) for field in _CONDITION_FIELDS}
    event = {field: failures[0].get(field) for field in _EVENT_FIELDS}
    return Answer("", False, condition, event, pod["status"].get("nominatedNodeName", ""))


def victims(api: Api, others: list[Object]) -> tuple[Key, ...]:
    """Which of these pods have been told to go, or are gone."""
    staying = [key_of(pod) for pod in others if "deletionTimestamp" not in pod["metadata"]]
    return tuple(sorted(key for key in staying if _goes(api.pods.get(key))))


def cleared(api: Api, others: list[Object]) -> tuple[Key, ...]:
    """Which of these pods had been promised a node, and are no more."""
    nomination = {key_of(pod): nominated(pod) for pod in others if nominated(pod)}
    kept = {key for key, node in nomination.items() if nominated(api.pods.get(key, {})) == node}
    return tuple(sorted(nomination.keys() - kept))


def _goes(pod: Object | None) -> bool:
    return pod is None or "deletionTimestamp" in pod["metadata"]
