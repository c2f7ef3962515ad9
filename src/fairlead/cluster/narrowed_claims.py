"""Claims as if their requests had only later alternatives (`firstAvailable`), for a trial."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from fairlead.cluster.device_claims import DeviceClaims
from fairlead.model.claims import ResourceClaim

#: For each request of a claim, how many of its alternatives are left out.
Skipped = tuple[int, ...]


@contextmanager
def narrowed_claims(state: DeviceClaims, skipped: Mapping[str, Skipped]) -> Iterator[None]:
    """Meanwhile these claims, by key, have only the alternatives that are left.

    Steps that are planned meanwhile name such claims: the caller puts that right.
    """
    whole = [state.claims[key] for key in skipped]
    for claim in whole:
        state.put_narrowed(_without(claim, skipped[claim.key]))
    try:
        yield
    finally:
        for claim in whole:
            state.put_narrowed(claim)


def _without(claim: ResourceClaim, skipped: Skipped) -> ResourceClaim:
    requests = (replace(request, first_available=request.first_available[out:])
                for request, out in zip(claim.requests, skipped, strict=True))  # fmt: skip
    return replace(claim, requests=tuple(requests))
