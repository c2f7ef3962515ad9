"""Faults of claims: what holds devices without use, and what pods wait for without an event."""

from collections.abc import Iterator, Mapping

from fairlead.apps.doctor.faults import ClusterFault, listed
from fairlead.claims.pools import newest
from fairlead.cluster.device_claims import DeviceClaims
from fairlead.model.claims import ClaimUser, DeviceId, ResourceClaim
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod

_PROTECTION = "resource.kubernetes.io/delete-protection"
_CONTROLLER = "check that kube-controller-manager runs, with its resourceclaim controller"
_FREE = "delete the claim, or create a pod that uses it"


@dataclass(frozen=True, slots=True)
class ClaimChecks:
    state: DeviceClaims
    #: Pods that have not ended, by uid.
    pods: Mapping[str, Pod]

    def faults(self) -> Iterator[ClusterFault]:
        for claim in sorted(self.state.claims.values(), key=lambda each: each.key):
            yield from self._deleting(claim) if claim.deleting else self._held(claim)
            yield from self._vanished(claim)
            if claim.problem:
                yield ClusterFault(
                    "claim-unusable", _about(claim), claim.problem, "change the claim"
                )
        for pod in sorted(self.pods.values(), key=lambda each: each.key):
            yield from self._waiting(pod) if not pod.node else ()

    def _deleting(self, claim: ResourceClaim) -> Iterator[ClusterFault]:
        """Stuck: no pod uses it any more. Others go when their pods end."""
        if not any(self._is_alive(user, claim) for user in claim.reserved_for):
            others = [name for name in claim.finalizers if name != _PROTECTION]
            kept = f"is being deleted, and finalizers keep it: {listed(list(claim.finalizers))}"
            advice = f"find out what sets {listed(others)}" if others else _CONTROLLER
            yield ClusterFault(
                "claim-stuck-deleting", _about(claim), kept + _devices(claim), advice
            )

    def _is_alive(self, user: ClaimUser, claim: ResourceClaim) -> bool:
        """Whether the pod, or a pod of the PodGroup, that it is reserved for may use it."""
        if not user.is_group:
            return user.uid in self.pods
        uses = (use.key for pod in self.pods.values() if pod.node for use in pod.request.claims)
        return claim.key in uses

    def _held(self, claim: ResourceClaim) -> Iterator[ClusterFault]:
        if claim.allocation is None or not claim.allocation.devices:
            return
        if not claim.reserved_for:
            what = "is allocated, and reserved for no pod"
            yield ClusterFault("claim-unused", _about(claim), what + _devices(claim), _FREE)
            return
        pods = [user for user in claim.reserved_for if user.resource == "pods"]
        gone = [user.name for user in pods if user.uid not in self.pods]
        if gone and len(gone) == len(claim.reserved_for):
            what = f"is reserved for pods that are gone or have ended: {listed(gone)}"
            yield ClusterFault(
                "claim-of-gone-pods", _about(claim), what + _devices(claim), _CONTROLLER
            )

    def _vanished(self, claim: ResourceClaim) -> Iterator[ClusterFault]:
        """Devices of it that no slice shows, of pools that are published completely."""
        results = claim.allocation.devices if claim.allocation else ()
        gone = [str(each.key) for each in results if self._is_gone(each.key)]
        if gone:
            what = f"has devices that their driver does not publish any more: {listed(gone)}"
            advice = "check the driver on the node; delete the pods and the claim to free it"
            yield ClusterFault("device-gone", _about(claim), what, advice)

    def _is_gone(self, key: DeviceId) -> bool:
        slices = self.state.inventory.slices_of((key.driver, key.pool))
        if not slices:
            return True
        parts = newest(slices)
        complete = len(parts) == parts[0].slice_count
        names = (device.name for part in parts for device in part.devices)
        return complete and key.device not in names

    def _waiting(self, pod: Pod) -> Iterator[ClusterFault]:
        """kube-scheduler and Fairlead write no event about such a pod."""
        problems = [self.state.problem_with(use) for use in pod.request.claims]
        for text in dict.fromkeys(filter(None, problems)):
            advice = "create the claim or its template; if it has one, " + _CONTROLLER
            yield ClusterFault("pod-waits-for-claim", f"Pod {pod.key}", f"waits: {text}", advice)


def _about(claim: ResourceClaim) -> str:
    return f"ResourceClaim {claim.key}"


def _devices(claim: ResourceClaim) -> str:
    results = claim.allocation.devices if claim.allocation else ()
    return f"; it has {listed([str(each.key) for each in results])}" if results else ""
