"""What resource claims of a unit get at its planned start."""

from collections.abc import Iterable
from typing import NamedTuple

from fairlead.claims.pools import PoolKey
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.device_claims import ClaimWrite
from fairlead.cluster.planned_places import PlannedPlace, PlannedPlaces
from fairlead.cluster.trial import Trial
from fairlead.model.claims import DeviceId
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed
from fairlead.plugins.claim_step import ClaimStep
from fairlead.plugins.prepare import PrepareStep

Writes = tuple[ClaimWrite, ...]


class PlacedPod(NamedTuple):
    """A pod, its node, and what its claims get there."""

    pod: Pod
    place: Placed
    writes: Writes = ()

    @property
    def planned(self) -> PlannedPlace:
        return PlannedPlace(self.place.node, self.place.grant, devices_of(self.writes))

    def assume(self, trial: Trial) -> None:
        """The pod is there, and its claims are allocated."""
        trial.assume(self.pod, self.place.node, self.place.grant)
        if self.writes:
            trial.assume_claims(self.writes)


def placed_pod(placement: Placement, pod: Pod, place: Placed) -> PlacedPod:
    """With what its claims would get. Raises PluginFault and LookUnfinished."""
    if not pod.request.claims:
        return PlacedPod(pod, place)
    return PlacedPod(pod, place, writes_of(placement.steps(pod, place.node)))


def writes_of(steps: Iterable[PrepareStep]) -> Writes:
    found = (step.writes for step in steps if isinstance(step, ClaimStep))
    return tuple(write for writes in found for write in writes)


def devices_of(writes: Writes) -> frozenset[DeviceId]:
    given = (write.allocation.devices for write in writes if write.allocation)
    return frozenset(device.key for devices in given for device in devices)


def distant_pools(places: PlannedPlaces, cluster: Cluster) -> frozenset[PoolKey]:
    """Pools with devices of these places that pods on several nodes can use."""
    pools = {(each.driver, each.pool) for place in places.values() for each in place.devices}
    users_of = cluster.claims.users_of
    return frozenset(pool for pool in pools if len(users_of(*pool)) != 1 or "" in users_of(*pool))


def own_claims(pods: Iterable[Pod], cluster: Cluster) -> frozenset[str]:
    """Uids of claims of these pods: what they have is not free for the pods themselves."""
    known = cluster.claims.claims
    found = (known.get(use.key) for pod in pods for use in pod.request.claims)
    return frozenset(claim.uid for claim in found if claim is not None)
