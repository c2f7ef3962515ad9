"""What several pods request together, in the amounts of a queue."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fairlead.model.claim_uses import ClaimUse
from fairlead.model.pods import Amounts, PodRequest
from fairlead.model.queues import GPUS


def asked_together(
    requests: Iterable[PodRequest], needed: int, charge_of: Callable[[PodRequest], Amounts]
) -> Amounts:
    """The least that so many pods with these requests ask for; a claim that several use is one."""
    kinds = Counter(requests)
    shared = _shared(kinds)
    if not shared:
        return least_sum([(charge_of(kind), count) for kind, count in kinds.items()], needed)
    own = [(charge_of(_without(kind, shared)), count) for kind, count in kinds.items()]
    found = Counter(dict(least_sum(own, needed)))
    of_shared = dict(charge_of(PodRequest(claims=tuple(shared.values()))))
    found.update({name: amount for name, amount in of_shared.items() if name == GPUS})
    return tuple(found.items())


def _shared(kinds: Counter[PodRequest]) -> dict[str, ClaimUse]:
    """Claims that several of the pods use, by key."""
    uses: Counter[str] = Counter()
    found: dict[str, ClaimUse] = {}
    for kind, count in kinds.items():
        for use in kind.claims:
            if use.key:
                uses[use.key] += count
                found[use.key] = use
    return {key: use for key, use in found.items() if uses[key] > 1}


def _without(request: PodRequest, shared: dict[str, ClaimUse]) -> PodRequest:
    claims = tuple(use for use in request.claims if use.key not in shared)
    return replace(request, claims=claims) if len(claims) < len(request.claims) else request


def least_sum(kinds: Sequence[tuple[Amounts, int]], needed: int) -> Amounts:
    """Of each resource the least that so many of the pods request; a kind has so many pods."""
    if len(kinds) == 1:
        (asked, count), *_ = kinds
        return tuple((name, amount * min(needed, count)) for name, amount in asked)
    each = [(dict(asked), count) for asked, count in kinds]
    names = dict.fromkeys(name for asked, _ in kinds for name, _ in asked)
    return tuple((name, _least(name, each, needed)) for name in names)


def _least(name: str, kinds: Sequence[tuple[dict[str, int], int]], needed: int) -> int:
    found, left = 0, needed
    for amount, count in sorted((asked.get(name, 0), count) for asked, count in kinds):
        taken = min(left, count)
        found += taken * amount
        left -= taken
    return found
