"""Resource claims must be allocated for the node, or be allocatable from what drivers publish."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np

from fairlead.cluster import claim_outlook
from fairlead.cluster.arrays import NodeMask, NodeScores
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.claim_answers import READS
from fairlead.cluster.claim_search import (
    AWAY,
    CANNOT,
    FAILED,
    FITS,
    INVALID,
    LEFTOVER,
    TIMED_OUT,
    UNFIT,
)
from fairlead.cluster.device_claims import DeviceClaims
from fairlead.cluster.nodes import Nodes
from fairlead.model.claims import ResourceClaim
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import PodRequest
from fairlead.plugins.api import Reason
from fairlead.plugins.claim_step import ClaimStep

_IN_USE = "node(s) had GPUs in use by pods without claims"


@dataclass(frozen=True, slots=True)
class DynamicResources:
    name: ClassVar[str] = "DynamicResources"
    reads: ClassVar[Aspect] = READS
    refusal: ClassVar[str] = "cannot allocate all claims"
    resolvable: ClassVar[bool] = False
    depends_on_pods: ClassVar[bool] = False

    #: Whether pods may be evicted that have devices which others need.
    preempts: bool = False
    #: Whether equal devices are chosen by Fairlead's policies, and not in the order of the driver.
    chooses: bool = False
    #: Whether members of a gang may get later alternatives than the first that are possible.
    tries_later: bool = False

    def concerns(self, request: PodRequest) -> bool:
        return bool(request.claims)

    def pre_filter(self, request: PodRequest, nodes: Nodes) -> str:
        state = nodes.claims
        problems = (state.problem_with(use) for use in request.claims)
        if problem := next(filter(None, problems), ""):
            return problem
        claims = list(filter(None, map(state.claim_of, request.claims)))
        problems = (_unallocatable(claim, state) for claim in claims)
        return next(filter(None, problems), "") or claim_outlook.too_long(claims, state)

    def allows(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        if not request.claims:
            return nodes.all()
        fits: NodeMask = claim_outlook.renew(request.claims, nodes) == FITS
        return fits

    def reasons(self, request: PodRequest, nodes: Nodes) -> Iterable[Reason]:
        told = claim_outlook.told(request.claims, nodes)
        for text, code in (
            (self.refusal, CANNOT),
            ("invalid resource pools were encountered", INVALID),
            ("resourceclaim not available on the node", AWAY),
            ("cannot schedule extended resource claim", LEFTOVER),
            ("cannot fit resource", UNFIT),
        ):
            yield Reason(text, told == code, nodes.none())
        yield Reason(_IN_USE, claim_outlook.in_use_otherwise(request.claims, nodes), nodes.none())

    def detail(self, request: PodRequest, node: Nodes) -> str:
        from fairlead.cluster.claim_details import claim_details  # for `fairlead explain` alone

        return "; ".join(claim_details(request.claims, node))

    def failing(self, request: PodRequest, nodes: Nodes) -> NodeMask:
        told = claim_outlook.told(request.claims, nodes)
        failed: NodeMask = (told == FAILED) | (told == TIMED_OUT)
        return failed

    def failure(self, request: PodRequest, node: Nodes) -> str:
        return claim_outlook.failure(request.claims, node)

    def applies_as_score(self, request: PodRequest, nodes: Nodes) -> bool:
        claims = map(nodes.claims.claim_of, request.claims)
        return any(each.first_available for claim in claims if claim for each in claim.requests)

    def rank(self, request: PodRequest, nodes: Nodes, left: NodeMask) -> NodeScores:
        """Nodes where requests get their earlier alternatives are better."""
        found = claim_outlook.alternatives(request.claims, nodes, left)
        best = int(found.max(initial=0))
        return (100 * found // best if best else found).astype(np.float64)

    def prepares(self, request: PodRequest) -> bool:
        return bool(request.claims)

    def pre_bind(self, request: PodRequest, node: Nodes) -> ClaimStep | None:
        """What must be written about claims before a pod is bound to the one node given."""
        writes = claim_outlook.plan(request.claims, node)
        return ClaimStep(writes) if writes else None


def _unallocatable(claim: ResourceClaim, state: DeviceClaims) -> str:
    """Why the claim can be allocated on no node."""
    if state.allocation_of(claim) is not None:
        return ""
    if state.pending(claim) is not None:
        return f"resource claim {claim.key} is in the process of being allocated"
    for request, class_name in _classes(claim):
        if class_name not in state.classes:
            return f"request {request}: device class {class_name} does not exist"
    return ""


def _classes(claim: ResourceClaim) -> Iterator[tuple[str, str]]:
    """The classes that its requests name."""
    for request in claim.requests:
        if request.exactly is not None:
            yield request.name, request.exactly.class_name
        for need in request.first_available:
            yield f"{request.name}/{need.name}", need.class_name
