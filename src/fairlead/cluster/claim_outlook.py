"""On which nodes the claims of a pod can be used: allocated for them, or to be allocated there.

The answer for each node is kept, so that reasons and failures are told without another search.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from fairlead.claims.errors import AllocationError, InvalidPools
from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.claim_answers import UNKNOWN, AnswerCodes, ClaimAnswers
from fairlead.cluster.claim_search import (
    AWAY,
    CANNOT,
    FITS,
    LEFTOVER,
    TIMED_OUT,
    UNFIT,
    NodeSearch,
    early,
)
from fairlead.cluster.device_claims import ClaimWrite, DeviceClaims
from fairlead.cluster.extended_claims import (
    claim_of_part,
    mappings,
    parts_of,
    special_claim,
    unfit,
)
from fairlead.cluster.node_terms import any_term
from fairlead.cluster.nodes import Nodes
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import Allocation, ResourceClaim
from fairlead.model.extended import UNNAMED, ExtendedUse, extended_use

#: Characters of different selectors of a pod, and what each of them counts for besides: they take
#: a tenth of a second to compile, and all of them are kept.
_MOST_TEXT = 49_152
_EACH = 512


def renew(uses: tuple[ClaimUse, ...], nodes: Nodes) -> AnswerCodes:
    """Looks at the nodes given, as things are now. Raises LookUnfinished."""
    kept, rows = nodes.claims.answers.of(uses, nodes.all_rows), nodes.row_numbers
    claims = claims_of(uses, nodes.claims)
    if claims is None or too_long(claims, nodes.claims):
        kept.codes[rows] = CANNOT
    elif use := extended_use(uses):
        _search_with(uses, use, nodes, kept)
    elif asked := unallocated(claims, nodes.claims):
        NodeSearch(kept, nodes, asked).run()
    else:
        kept.codes[rows] = FITS
    away = unavailable(claims or (), nodes)
    found: AnswerCodes = kept.codes[rows]
    found[away & (found == FITS)] = AWAY
    kept.codes[rows] = found
    return found


def _search_with(
    uses: tuple[ClaimUse, ...], use: ExtendedUse, nodes: Nodes, kept: ClaimAnswers
) -> None:
    """The same for a pod that needs a claim for extended resources, on some of the nodes."""
    rows, state = nodes.row_numbers, nodes.claims
    if use.is_leftover:
        kept.codes[rows] = LEFTOVER
        return
    under_way = {*kept.parts} if not nodes.whole else set()
    for positions, part_use in parts_of(use, nodes):
        some = nodes.at(positions)
        special = claim_of_part(part_use)
        claims = [*(claims_of(uses, state) or ()), *([special] if special else ())]
        if asked := unallocated(claims, state):
            part = kept.part((*uses[:-1], part_use))
            NodeSearch(part, some, asked).run(in_part=True)
            kept.take(part, some.row_numbers)
        else:
            kept.codes[some.row_numbers] = FITS
    kept.codes[rows[unfit(use, nodes)]] = UNFIT
    for key in kept.parts.keys() - under_way:  # not those of a look that is under way
        del kept.parts[key]


def told(uses: tuple[ClaimUse, ...], nodes: Nodes) -> AnswerCodes:
    """What was found last; nodes that were not looked at yet are looked at now."""
    kept, rows = nodes.claims.answers.of(uses, nodes.all_rows), nodes.row_numbers
    missing = np.flatnonzero(kept.codes[rows] == UNKNOWN)
    if len(missing):
        renew(uses, nodes.at(missing))
    found: AnswerCodes = kept.codes[rows]
    return found


def in_use_otherwise(uses: tuple[ClaimUse, ...], nodes: Nodes) -> NodeMask:
    """Where claims cannot be allocated, and devices are GPUs that something else has."""
    cannot = told(uses, nodes) == CANNOT
    kept = nodes.claims.answers.of(uses, nodes.all_rows)
    NodeSearch(kept, nodes, ()).see_other_uses()
    found: NodeMask = cannot & (kept.in_use[nodes.row_numbers] > 0)
    return found


def claims_of(
    uses: tuple[ClaimUse, ...], state: DeviceClaims
) -> list[ResourceClaim] | None:  # fmt: skip
    """The claims; None if one of them cannot be used on any node."""
    found: list[ResourceClaim] = []
    for use in uses:
        if isinstance(use, ExtendedUse):
            continue
        claim = state.claim_of(use)
        if claim is None or state.problem_with(use):
            return None
        pending = state.pending(claim)
        if pending is not None and not pending.in_trial:
            return None
        found.append(claim)
    return found


def claims_on(uses: tuple[ClaimUse, ...], node: Nodes) -> list[ResourceClaim] | None:
    """The same, with the claim that is made for extended resources on the one node given."""
    claims, use = claims_of(uses, node.claims), extended_use(uses)
    special = special_claim(use, node) if use is not None else None
    return claims if claims is None or special is None else [*claims, special]


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
    told(uses, nodes)
    claims, state = claims_of(uses, nodes.claims) or [], nodes.claims
    given = ((claim, state.allocation_of(claim)) for claim in claims)
    of_allocated = sum(early(claim, allocation) for claim, allocation in given if allocation)
    found = state.answers.of(uses, nodes.all_rows).earliness[nodes.row_numbers]
    return np.where(left, found + of_allocated, 0)


def failure(uses: tuple[ClaimUse, ...], node: Nodes) -> str:
    """Why the search failed on the one node given, with the names of the claims."""
    claims = claims_on(uses, node)
    (there,) = node.objects()
    if claims is None or there is None:
        return ""
    # There, or elsewhere so that this node was not asked:
    if told(node.claims.settled(uses), node)[0] != TIMED_OUT:
        try:
            node.claims.allocate(there, unallocated(claims, node.claims))
        except AllocationError as error:
            return str(error)
        except InvalidPools:
            pass
    return f"node {there.name}: timed out trying to allocate devices"


def plan(uses: tuple[ClaimUse, ...], node: Nodes) -> tuple[ClaimWrite, ...]:
    """What is to be written for the one node given, which allows the claims.

    Raises LookUnfinished, where looks have a limit.
    """
    state = node.claims
    claims, use = claims_on(uses, node) or [], extended_use(uses)
    (there,) = node.objects()
    asked, before = unallocated(claims, state), state.work
    found = state.allocate(there, asked) if asked and there else ()
    state.inventory.turn.spend(steps=state.work - before)
    new = {claim.key: each for claim, each in zip(asked, found or (), strict=True)}
    each_once = {claim.key: claim for claim in claims}
    users = {each.key: state.groups.user_of(each) for each in uses}
    return tuple(
        ClaimWrite(
            claim,
            new.get(claim.key) or _decided(claim, state),
            mappings(use, node) if use and claim.name == UNNAMED else (),
            users.get(claim.key),
        )
        for claim in each_once.values()
    )


def _decided(claim: ResourceClaim, state: DeviceClaims) -> Allocation | None:
    """What another pod of the gang gets for the claim that both use."""
    pending = state.pending(claim)
    return pending.allocation if pending else None
