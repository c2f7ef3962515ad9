"""One condition among those of others in the status of an object."""

from typing import Any

from fairlead.kube.gangs.api import Json
from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Condition:
    type: str
    status: str
    reason: str
    message: str
    #: 0: the API has no such field.
    generation: int = 0


def with_condition(
    status: Json, condition: Condition, now: str, *, true_stays: bool = False
) -> Json | None:
    """The change to a status that sets the condition; None if it stands there already.

    The time changes only with the status of the condition. With `true_stays` a condition that is
    True is never changed.
    """
    found = status.get("conditions")
    conditions = found if isinstance(found, list) else []
    before: Json = next((each for each in conditions if _type(each) == condition.type), {})
    if true_stays and before.get("status") == "True":
        return None
    written = _written(condition, before, now)
    if written == before:
        return None
    others = [each for each in conditions if _type(each) != condition.type]
    return {"status": {"conditions": [*others, written]}}


def _written(condition: Condition, before: Json, now: str) -> Json:
    changed = before.get("status") != condition.status
    since = now if changed else before.get("lastTransitionTime", now)
    observed = {"observedGeneration": condition.generation} if condition.generation else {}
    return {
        "type": condition.type,
        "status": condition.status,
        **observed,
        "lastTransitionTime": since,
        "reason": condition.reason,
        "message": condition.message,
    }


def _type(condition: Any) -> str:
    return str(condition.get("type", "")) if isinstance(condition, dict) else ""
