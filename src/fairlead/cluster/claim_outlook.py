"""On which nodes the claims of a pod can be used: allocated for them, or to be allocated there.

The answer for each node is kept, so that reasons and failures are told without another search.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from fairlead.claims.errors import AllocationError, InvalidPools, SearchLimit
from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.claim_answers import UNKNOWN, AnswerCodes
from fairlead.cluster.device_claims import ClaimWrite, DeviceClaims
from fairlead.cluster.node_terms import any_term
from fairlead.cluster.nodes import Nodes
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import Allocation, ResourceClaim
from fairlead.model.nodes import Node

#: Alternatives of a request, at most.
MOST_ALTERNATIVES = 8

#: What is found for a node.
#: So many nodes are asked at once that one pass over all devices is worth it.
_MANY = 16
FITS, CANNOT, INVALID, AWAY, FAILED = range(5)
#: Steps on each node that count for nothing, and steps beyond them, on all nodes together: after
#: that the search is given up. Some tenths of a second.
_FEW_STEPS = 100
_MOST_STEPS = 40_000
#: Characters of different selectors of a pod, and what each of them counts for besides: they take
#: a tenth of a second to compile, and all of them are kept.
_MOST_TEXT = 49_152
_EACH = 512


def renew(uses: tuple[ClaimUse, ...], nodes: Nodes) -> AnswerCodes:
    """Looks at the nodes given, as things are now."""
    found = _codes(uses, nodes)
    nodes.claims.answers.of(uses, nodes.all_rows)[nodes.row_numbers] = found
    return found


def told(uses: tuple[ClaimUse, ...], nodes: Nodes) -> AnswerCodes:
    """What was found last; nodes that were not looked at yet are looked at now."""
    answers, rows = nodes.claims.answers.of(uses, nodes.all_rows), nodes.row_numbers
    missing = np.flatnonzero(answers[rows] == UNKNOWN)
    if len(missing):
        renew(uses, nodes.at(missing))
    found: AnswerCodes = answers[rows]
    return found


def _codes(uses: tuple[ClaimUse, ...], nodes: Nodes) -> AnswerCodes:
    claims = claims_of(uses, nodes.claims)
    if claims is None or too_long(claims, nodes.claims):
        return np.full(len(nodes), CANNOT, dtype=np.int8)
    codes = np.where(unavailable(claims, nodes), AWAY, FITS).astype(np.int8)
    asked = unallocated(claims, nodes.claims)
    if asked:
        for position, found in _searched(list(nodes.objects()), asked, nodes.claims):
            if found != FITS:
                codes[position] = found
    return codes


def _searched(
    nodes: Sequence[Node | None], claims: Sequence[ResourceClaim], state: DeviceClaims
) -> Iterator[tuple[int, int]]:
    """What is found for each position. When it takes too long, the search fails on the others."""
    left = _MOST_STEPS
    try:
        decided = _at_a_glance(nodes, claims, state)
    except SearchLimit:
        decided, left = {}, 0
    for position, node in enumerate(nodes):
        if node is None:
            continue
        found = decided.get(position, FAILED)
        if position not in decided and left > 0:
            before = state.allocator.work
            found = _on(node, claims, state)
            left -= max(0, state.allocator.work - before - _FEW_STEPS)
        yield position, found


def _at_a_glance(
    nodes: Sequence[Node | None], claims: Sequence[ResourceClaim], state: DeviceClaims
) -> dict[int, int]:
    """What counts of devices decide, where many nodes are asked; by position.

    Raises SearchLimit.
    """
    if len(nodes) < _MANY:
        return {}
    from fairlead.claims.glance import NO, YES  # not at the start of the program

    try:
        codes = state.allocator.glance([node.name if node else "" for node in nodes], claims)
    except SearchLimit:
        raise
    except AllocationError:
        return {}
    alone = _is_one_device(claims)
    decided = dict.fromkeys(np.flatnonzero(codes == NO).tolist(), CANNOT)
    for position in np.flatnonzero(codes == YES).tolist():
        node = nodes[position]
        if node is None or state.blocks.on(node.name):
            continue
        # Of several devices, some could be of one GPU: such nodes have to be asked.
        if alone or not state.blocks.may_clash(node.name):
            decided[position] = FITS
    return decided


def _is_one_device(claims: Sequence[ResourceClaim]) -> bool:
    needs = (request.exactly for claim in claims for request in claim.requests)
    return sum(need.count for need in needs if need is not None) == 1


def _on(node: Node, claims: Sequence[ResourceClaim], state: DeviceClaims) -> int:
    try:
        return CANNOT if state.allocate(node, claims) is None else FITS
    except InvalidPools:
        return INVALID
    except AllocationError:
        return FAILED


def in_use_otherwise(told: AnswerCodes, nodes: Nodes) -> NodeMask:
    """Where claims cannot be allocated, and devices are GPUs that something else has."""
    found = nodes.none()
    blocks = nodes.claims.blocks
    for position in np.flatnonzero(told == CANNOT).tolist():
        (node,) = nodes.at(np.array([position])).objects()
        found[position] = node is not None and blocks.has_others(node.name)
    return found


def claims_of(
    uses: tuple[ClaimUse, ...], state: DeviceClaims
) -> list[ResourceClaim] | None:  # fmt: skip
    """The claims; None if one of them cannot be used on any node."""
    found: list[ResourceClaim] = []
    for use in uses:
        claim = state.claim_of(use)
        if claim is None or state.problem_with(use):
            return None
        pending = state.pending(claim)
        if pending is not None and not pending.in_trial:
            return None
        found.append(claim)
    return found


def too_long(claims: Sequence[ResourceClaim], state: DeviceClaims) -> str:
    """Why the selectors of the claims are not compiled; empty if they are."""
    texts = {text for claim in unallocated(claims, state) for text in _selectors(claim)}
    if sum(_EACH + len(text) for text in texts) <= _MOST_TEXT:
        return ""
    return (
        "selectors of the resource claims are too long for Fairlead: at most "
        f"{_MOST_TEXT} characters in all, where each selector counts for {_EACH} more"
    )


def _selectors(claim: ResourceClaim) -> Iterator[str]:
    for request in claim.requests:
        exactly = (request.exactly,) if request.exactly else ()
        for need in (*exactly, *request.first_available):
            yield from filter(None, need.selectors)


def unallocated(
    claims: Sequence[ResourceClaim], state: DeviceClaims
) -> list[ResourceClaim]:  # fmt: skip
    """Each once, in order; those without names are all different."""
    found = {
        claim.uid or str(place): claim
        for place, claim in enumerate(claims)
        if not state.allocation_of(claim)
    }
    return list(found.values())


def unavailable(claims: Sequence[ResourceClaim], nodes: Nodes) -> NodeMask:
    """Where a claim that is allocated cannot be used."""
    away = nodes.none()
    for claim in claims:
        away |= elsewhere(claim, nodes)
    return away


def elsewhere(claim: ResourceClaim, nodes: Nodes) -> NodeMask:
    """Where the claim cannot be used since it is allocated for other nodes."""
    allocation = nodes.claims.allocation_of(claim)
    if allocation is None:
        return nodes.none()
    if claim.reports and _has_failed(claim):
        return nodes.all()
    if allocation.node_terms is None:
        return nodes.none()
    return ~any_term(allocation.node_terms, nodes)


def _has_failed(claim: ResourceClaim) -> bool:
    """Whether a driver reports that a device of the claim cannot be bound to its node."""
    devices = claim.allocation.devices if claim.allocation else ()
    reported = {(each.driver, each.pool, each.device): each.conditions for each in claim.reports}
    for device in devices:
        bad = device.binding_failure_conditions or ()
        conditions = reported.get(device.key, ())
        if any(each.kind in bad and each.status == "True" for each in conditions):
            return True
    return False


def alternatives(uses: tuple[ClaimUse, ...], nodes: Nodes, left: NodeMask) -> PerNode:
    """How early the alternatives are that the claims get on the nodes that are left."""
    claims = claims_of(uses, nodes.claims) or []
    scores = np.zeros(len(nodes), dtype=np.int64)
    for position in np.flatnonzero(left).tolist():
        (node,) = nodes.at(np.array([position])).objects()
        if node is not None:
            scores[position] = _earliness(claims, node, nodes.claims)
    return scores


def _earliness(claims: Sequence[ResourceClaim], node: Node, state: DeviceClaims) -> int:
    asked = unallocated(claims, state)
    found = state.allocate(node, asked) if asked else ()
    given = {id(claim): each for claim, each in zip(asked, found or (), strict=False)}
    each = ((claim, given.get(id(claim)) or state.allocation_of(claim)) for claim in claims)
    return sum(_early(claim, allocation) for claim, allocation in each if allocation)


def _early(claim: ResourceClaim, allocation: Allocation) -> int:
    """Eight for each request that gets its first alternative, one less for each later one."""
    names = {device.request for device in allocation.devices}
    return sum(
        MOST_ALTERNATIVES - place
        for request in claim.requests
        for place, need in enumerate(request.first_available)
        if f"{request.name}/{need.name}" in names
    )


def failure(uses: tuple[ClaimUse, ...], node: Nodes) -> str:
    """Why the search failed on the one node given, with the names of the claims."""
    claims = claims_of(uses, node.claims)
    (there,) = node.objects()
    if claims is None or there is None:
        return ""
    try:
        node.claims.allocate(there, unallocated(claims, node.claims))
    except AllocationError as error:
        return str(error)
    except InvalidPools:
        pass
    # Elsewhere it took so long that this node was not asked.
    return f"node {there.name}: timed out trying to allocate devices"


def plan(uses: tuple[ClaimUse, ...], node: Nodes) -> tuple[ClaimWrite, ...]:
    """What is to be written for the one node given, which allows the claims."""
    state = node.claims
    claims = claims_of(uses, state) or []
    (there,) = node.objects()
    asked = unallocated(claims, state)
    found = state.allocate(there, asked) if asked and there else ()
    new = {claim.key: each for claim, each in zip(asked, found or (), strict=True)}
    each_once = {claim.key: claim for claim in claims}
    return tuple(
        ClaimWrite(claim, new.get(claim.key) or _decided(claim, state))
        for claim in each_once.values()
    )


def _decided(claim: ResourceClaim, state: DeviceClaims) -> Allocation | None:
    """What another pod of the gang gets for the claim that both use."""
    pending = state.pending(claim)
    return pending.allocation if pending else None
