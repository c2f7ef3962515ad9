"""The step before the bind of a pod that uses resource claims."""

from dataclasses import dataclass
from typing import ClassVar

from fairlead.cluster import claiming
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.device_claims import ClaimWrite
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.trial import Trial


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
            claim = node.claims.claims.get(write.claim.key)
            if claim is None or claim.uid != write.claim.uid:
                return f"claim {write.claim.key} got deleted in the meantime"
            if claim.allocation is None:
                return f"claim {write.claim.key} got deallocated elsewhere in the meantime"
        return ""
