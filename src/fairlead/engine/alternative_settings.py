"""Which alternatives (`firstAvailable`) the claims of a gang may have: what is tried, in order.

A setting says for each claim how many of the first alternatives are left out. Of claims that ask
for the same, the first ones keep earlier alternatives. Few settings are all tried, those with the
earliest alternatives first. Of many, all claims get later alternatives at once; if that helps, as
many claims as possible get their first ones back.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import combinations_with_replacement, product
from math import comb, prod

from fairlead.cluster.narrowed_claims import Skipped
from fairlead.model.claims import ResourceClaim

#: So many settings, and ways to leave out alternatives of one claim, are all tried.
MOST_SETTINGS = 64
_MOST_WAYS = 16

#: What is left out, by key of the claim; claims that keep all are missing.
Setting = Mapping[str, Skipped]

#: Gives settings, with whether one that the gang fits with is the answer; is told if it fits.
Settings = Generator[tuple[Setting, bool], bool, None]


def have_alternatives(claim: ResourceClaim) -> bool:
    return any(len(request.first_available) > 1 for request in claim.requests)


def settings(claims: Iterable[ResourceClaim]) -> Settings:
    """For claims that have alternatives."""
    kinds = list(_kinds(claims).values())
    ways = [_ways(kind[0]) for kind in kinds]
    count = prod(comb(len(kind) + len(way) - 1, len(way) - 1)
                 for kind, way in zip(kinds, ways, strict=True))  # fmt: skip
    return _all(kinds, ways) if count <= MOST_SETTINGS else _some(kinds, ways)


def are_all_tried(claims: Iterable[ResourceClaim]) -> bool:
    """Whether no setting is left out."""
    kinds = list(_kinds(claims).values())
    return prod(comb(len(kind) + len(way) - 1, len(way) - 1)
                for kind in kinds if (way := _ways(kind[0]))) <= MOST_SETTINGS  # fmt: skip


def count_kinds(claims: Iterable[ResourceClaim]) -> int:
    """How many different things the claims ask for."""
    return len(_kinds(claims))


def _kinds(claims: Iterable[ResourceClaim]) -> dict[object, list[ResourceClaim]]:
    """Claims that ask for the same."""
    found: dict[object, list[ResourceClaim]] = {}
    for claim in claims:
        found.setdefault((claim.requests, claim.constraints), []).append(claim)
    return found


def _ways(claim: ResourceClaim) -> list[Skipped]:
    """How alternatives of the claim can be left out, the least first: none is the first way."""
    counts = [len(request.first_available) or 1 for request in claim.requests]
    if prod(counts) <= _MOST_WAYS:
        return sorted(product(*map(range, counts)), key=sum)
    last = max(counts)
    return [tuple(min(out, count - 1) for count in counts) for out in range(last)]


def _all(kinds: Sequence[Sequence[ResourceClaim]], ways: Sequence[Sequence[Skipped]]) -> Settings:
    chosen = [combinations_with_replacement(way, len(kind))
              for kind, way in zip(kinds, ways, strict=True)]  # fmt: skip
    claims = [claim.key for kind in kinds for claim in kind]
    every = ([out for some in each for out in some] for each in product(*chosen))
    for each in sorted(every, key=lambda outs: sum(map(sum, outs))):
        if setting := _setting(claims, each):
            yield setting, True


def _some(kinds: Sequence[Sequence[ResourceClaim]], ways: Sequence[Sequence[Skipped]]) -> Settings:
    claims = [(claim.key, way) for kind, way in zip(kinds, ways, strict=True) for claim in kind]
    last = max(map(len, ways))
    for place in range(1, last):
        outs = [way[min(place, len(way) - 1)] for _, way in claims]
        found = _setting([key for key, _ in claims], outs)
        if (yield found, False):
            break
    else:
        return
    fits, fails = 0, len(claims)  # so many of them keep their first alternatives
    keys = [key for key, _ in claims]
    while fails - fits > 1:
        first = (fits + fails) // 2
        if (yield {key: found[key] for key in keys[first:] if key in found}, False):
            fits = first
        else:
            fails = first
    yield {key: found[key] for key in keys[fits:] if key in found}, True


def _setting(claims: Iterable[str], outs: Iterable[Skipped]) -> dict[str, Skipped]:
    return {key: out for key, out in zip(claims, outs, strict=True) if any(out)}
