"""What is said about a gang that has to wait."""

from fairlead.engine.gang_trials import Filling, group_of
from fairlead.engine.held_room import Hold
from fairlead.model.gangs import GangSpec
from fairlead.placement.verdicts import Refused
from fairlead.queue.units import Gang

ALTERNATIVES_LEFT = " Not all later alternatives of its claims were tried."


def refusal_message(filling: Filling) -> str:
    """How many pods would have a node, and why the first of the others has none."""
    if filling.topology:
        return f"gang {filling.gang.spec.name}: {filling.topology.message}."
    placed, pods = len(filling.placed), len(filling.gang.pods)
    bound = len(filling.gang.placed)
    said = f"gang {filling.gang.spec.name}: {placed} of {pods} pods fit"
    if bound:
        said = f"{said} beside {bound} that are bound"
    if needed := _needed(filling.gang, pods):
        said = f"{said}, {needed} are needed"
    if filling.first is None:
        return f"{said}{_useless(filling)}."
    pod, why = filling.first
    more = ALTERNATIVES_LEFT if filling.alternatives_left else ""
    if not isinstance(why, Refused):
        return f"{said}; {pod.name}: {why.message}"
    return f"{said}; {pod.name}: {why.summary}{more}"


def _useless(filling: Filling) -> str:
    """Which pods fit, but are of no use without others that do not exist."""
    useless = filling.gang.useless_with(filling.counts)
    groups = sorted({group_of(pod) for pod in filling.gang.pods} & useless)
    if not groups:
        return ""
    return f"; group {groups[0]}, or one that it is part of, lacks pods"


def _needed(gang: Gang, pods: int) -> int:
    return gang.needed if gang.needed < pods else 0


#: Not all was looked at yet.
GOES_ON = "The search for pods to evict for it goes on in its next attempt."


def no_room_message(why: str) -> str:
    return f"Evicting the pods that it may evict does not help: {why}."


def awaiting_message(gang: Gang, hold: Hold) -> str:
    """The same until the last of them is gone, so that it is written once."""
    deallocated = " and their claims are deallocated" if hold.claims else ""
    return (
        f"gang {gang.spec.name}: {hold.evicted} pod(s) are evicted for it; it has room when they "
        f"are gone{deallocated}."
    )


def too_large_message(gang: Gang, most: int) -> str:
    pods = len(gang.pods)
    return (
        f"gang {gang.spec.name}: at most {most} of {pods} pods can have a node, "
        f"{gang.needed} are needed."
    )


def too_many_requests_message(gang: Gang, requests: int, most: int) -> str:
    return (
        f"gang {gang.spec.name}: its pods have {requests} different requests, "
        f"at most {most} are allowed in one gang."
    )


def gathering_message(gang: Gang) -> str:
    """The same for all pods of the gang, however many have come, so that it is written once."""
    waits = f"gang {gang.spec.name} waits for its pods"
    return f"{waits}: {gang.least} are needed without scheduling gates."


def missing_object_message(key: str, missing: str = "") -> str:
    """`missing`: the key of another gang, of which it is a part."""
    name = GangSpec(key, 1).name
    if missing and missing != key:
        name = f"{GangSpec(missing, 1).name}, of which gang {name} is a part"
    return f"waiting for the object of gang {name}, which does not exist"


def delay_message(delay_s: float) -> str:
    return f"it evicts none before it has waited for {delay_s:g} seconds (preemptionDelay)"
