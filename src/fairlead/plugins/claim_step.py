"""The step before the bind of a pod that uses resource claims."""

from typing import ClassVar

from fairlead.cluster import claiming
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.device_claims import ClaimWrite
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.trial import Trial
from fairlead.model.claims import ResourceClaim
from fairlead.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ClaimStep:
    """Allocate the claims of the pod that are not allocated yet, and reserve all of them for it."""

    writes: tuple[ClaimWrite, ...]
    plugin: ClassVar[str] = "DynamicResources"
    doing: ClassVar[str] = "allocating resource claims"
    done: ClassVar[str] = "resource claims were allocated"

    def assume(self, cluster: Cluster | Trial, node: str) -> None:
        cluster.assume_claims(self.writes)

    def settle(self, cluster: Cluster) -> None:
        claiming.settle(cluster, self.writes)

    def problem(self, node: Nodes, name: str) -> str:
        """A claim that has no allocation after all."""
        for write in self.writes:
            if write.mappings:
                if problem := _problem_with_made(write.claim, node):
                    return problem
                continue
            claim = node.claims.claims.get(write.claim.key)
            if claim is None or claim.uid != write.claim.uid:
                return f"claim {write.claim.key} got deleted in the meantime"
            if claim.allocation is None:
                return f"claim {write.claim.key} got deallocated elsewhere in the meantime"
        return ""


def _problem_with_made(claim: ResourceClaim, node: Nodes) -> str:
    """A claim for extended resources has another name since it was made."""
    for made in node.claims.extended.claims_of(claim.key, claim.owner):
        if made.allocation and any(user.uid == claim.owner for user in made.reserved_for):
            return ""
    return f"claim {claim.key} got deleted in the meantime"
