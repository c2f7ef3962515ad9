"""Looks at devices in trials of the future: they have a limit in each turn, and count as work.

A trial cannot go on in the next turn, so a look that is too long is given up. Before a trial, all
devices are looked at as they are, turn by turn: what a trial looks at then is what it has changed.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.device_work import counted_work
from fairlead.model.pods import Pod

#: Looks at more nodes for the claims of pods; whether nothing is left to look at.
LooksAt = Callable[[Iterable[Pod]], bool]


@contextmanager
def limited_looks(cluster: Cluster) -> Iterator[None]:
    """LookUnfinished is raised if more is looked at than a turn allows."""
    turn = cluster.claims.inventory.turn
    if not cluster.claims.are_used or turn.is_limited:
        yield
        return
    with turn.limited(in_trial=True), counted_work(cluster):
        yield
