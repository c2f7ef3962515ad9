"""Searches for devices count as work, wherever they are a part of something that is counted."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster

#: What a step of such a search costs, in the unit of `Work.spent`.
_STEP = 10


@contextmanager
def counted_work(cluster: "Cluster") -> Iterator[None]:
    """What a search for devices takes counts as work: once, also if this is within another one."""
    claims = cluster.claims
    is_outermost = claims.counted_until is None
    if is_outermost:
        claims.counted_until = claims.work
    try:
        yield
    finally:
        cluster.work.terms += _STEP * (claims.work - (claims.counted_until or 0))
        claims.counted_until = None if is_outermost else claims.work
