"""Which pods would be evicted for the devices that the claims of a pod ask for."""

from typing import Any

from fairlead.engine.engine import Engine
from fairlead.model.pods import Pod

Answer = dict[str, Any]


def devices_answer(told: Answer, engine: Engine, pod: Pod, now: float, *, pods: bool) -> Answer:
    """Nothing, unless the profile of the pod allows it. `pods`: whether others are named."""
    if told["state"] != "unschedulable":
        return {}
    victims = engine.evicted_for_devices(pod.uid, now=now)
    if not victims:
        return {}
    named = [each.key for each in victims if pods or each.namespace == pod.namespace]
    hidden = len(victims) - len(named)
    who = ", ".join([*named, *([f"{hidden} pod(s) of others"] if hidden else [])])
    return {"devices": {"pods": named, "message": f"would be evicted for its devices: {who}"}}
