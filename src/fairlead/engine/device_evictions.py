"""Whether others may be evicted for devices that claims of pods ask for."""

from collections.abc import Iterable, Iterator, Mapping

from fairlead.cluster.cluster import Cluster
from fairlead.model.claims import DeviceNeed, ResourceClaim
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement
from fairlead.plugins.dynamic_resources import DynamicResources


def evict_for_devices(
    pods: Iterable[Pod], placements: Mapping[str, Placement], cluster: Cluster
) -> bool:
    """Their profiles say so, and no claim of theirs has admin access: that needs no device."""
    claiming = [pod for pod in pods if pod.request.claims]
    profiles = {pod.scheduler: placements[pod.scheduler].profile for pod in claiming}
    preempts = (
        any(isinstance(rule, DynamicResources) and rule.preempts for rule in profile.filters)
        for profile in profiles.values()
    )
    if not claiming or not all(preempts):
        return False
    claims = {use.key: cluster.claims.claim_of(use) for pod in claiming
              for use in pod.request.claims}  # fmt: skip
    needs = (need for claim in claims.values() if claim for need in _needs(claim))
    return not any(need.admin_access for need in needs)


def _needs(claim: ResourceClaim) -> Iterator[DeviceNeed]:
    for request in claim.requests:
        yield from (*((request.exactly,) if request.exactly else ()), *request.first_available)
