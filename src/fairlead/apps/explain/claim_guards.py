"""What `fairlead explain` says about selectors that fail on a device."""

from collections.abc import Iterator
from dataclasses import asdict

from fairlead.apps.explain.scope import Answer
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.device_claims import DeviceClaims
from fairlead.model.claims import DeviceNeed, ResourceClaim
from fairlead.model.pods import Pod


def guards_answer(cluster: Cluster, pod: Pod, *, nodes: bool) -> Answer:
    """Selectors of its claims that fail, with the form that does not; else nothing.

    Devices are named only with `nodes`: their pools have the names of nodes.
    """
    if not pod.request.claims:
        return {}
    from fairlead.claims.guards import guarded_selectors
    from fairlead.claims.selecting import DeviceSelection

    state = cluster.claims
    selections = []
    for place, need in _needs(pod, state):
        known = state.classes.get(need.class_name)
        if known is not None:
            selection = DeviceSelection(known.name, known.selectors, need.selectors)
            selections.append((place, selection))
    found = [asdict(each) for each in guarded_selectors(selections, state.inventory)]
    if not nodes:
        found = [each | {"device": ""} for each in found]
    return {"selectors": found} if found else {}


def _needs(pod: Pod, state: DeviceClaims) -> Iterator[tuple[str, DeviceNeed]]:
    for claim in filter(None, map(state.claim_of, pod.request.claims)):
        if claim.allocation is None:
            yield from _of_claim(claim)


def _of_claim(claim: ResourceClaim) -> Iterator[tuple[str, DeviceNeed]]:
    for request in claim.requests:
        needs = (request.exactly,) if request.exactly else request.first_available
        for need in needs:
            yield f"claim {claim.key}, request {request.name}", need


def guard_lines(selectors: list[Answer]) -> Iterator[str]:
    for each in selectors:
        where = f"selector #{each['number']} of {each['place']}"
        device = f"device {each['device']}" if each["device"] else "a device"
        yield f"{where} reads what {device} does not have; write instead:"
        yield f"  {each['guarded']}"
