"""Claims that end, in the order of their ends, and the devices that are free then."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from fairlead.claims.pools import PoolKey
from fairlead.cluster.arrays import NodeMask, PerNode, Rows
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.priority_sums import AmountsByRow
from fairlead.engine.backfill.claim_ends import ClaimEnds
from fairlead.engine.backfill.ending_pods import EndingPods, Times
from fairlead.engine.backfill.planned_claims import own_claims
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.placement.room_rows import PodKind

#: In place of a row: devices that pods on several nodes can use.
_DISTANT = -1


@dataclass(frozen=True, slots=True)
class EndingClaims:
    at_s: Times
    uids: Sequence[str]
    #: Of the devices of each.
    rows: Rows
    #: How many devices each of them has in pools with devices of each kind that is counted.
    devices: npt.NDArray[np.int64]
    #: How many devices of each kind each row has.
    every: Sequence[PerNode] = ()

    def _count(self, until_s: float) -> int:
        return int(np.searchsorted(self.at_s, until_s, side="right"))

    def ended(self, until_s: float, rows: NodeMask) -> list[str]:
        """Uids of those that end by then on these rows, and of those that are of no row."""
        own = self.rows[: self._count(until_s)]
        found = np.flatnonzero((own == _DISTANT) | rows[own])
        return [self.uids[at] for at in found.tolist()]

    def with_rows(self, freed: Rows, until_s: float) -> Rows:
        """These rows, and once more those where claims end by then."""
        own = self.rows[: self._count(until_s)]
        return np.concatenate([freed, own[own != _DISTANT]]) if len(own) else freed

    def add_freed(self, free: AmountsByRow, until_s: float) -> None:
        """What is free then; devices come after other amounts. Distant ones are for any row."""
        count = self._count(until_s)
        rows, first = self.rows[:count], len(free) - len(self.devices)
        near = rows != _DISTANT
        for at, held in enumerate(self.devices[:, :count]):
            counts = np.bincount(rows[near], weights=held[near], minlength=free.shape[1])
            more = counts.astype(np.int64) + int(held[~near].sum())
            free[first + at] = np.minimum(free[first + at] + more, self.every[at])


_NONE = np.zeros(0, dtype=np.int64)
NO_CLAIMS = EndingClaims(np.zeros(0), (), _NONE, _NONE.reshape(0, 0))


class ClaimListing:
    """It is made over several turns if there are many claims, for pods that wait."""

    def __init__(
        self,
        cluster: Cluster,
        claim_ends: ClaimEnds,
        pods: Iterable[Pod],
        kinds: Sequence[PodKind],
        ending: EndingPods,
    ) -> None:
        """What the pods have themselves stays theirs."""
        self._cluster, self._claim_ends = cluster, claim_ends
        own = own_claims(pods, cluster)
        self._left = [uid for uid in cluster.claims.held if uid not in own]
        self._known = dict(zip(ending.uids, ending.at_s.tolist(), strict=True))
        self._kinds = list({each.kind: each for kind in kinds for each in kind.devices}.values())
        self._pools = [each.columns.pools_with(each.usable) for each in self._kinds]
        self._found: list[tuple[float, str, int, list[int]]] = []

    def go_on(self, most: int, now: float, planned: Pod) -> bool:
        """Looks at up to so many more of them; whether that was all."""
        some, self._left = self._left[:most], self._left[most:]
        held = self._cluster.claims.held
        for uid, end_s in self._claim_ends.of_some(some, self._known, now, planned):
            if devices := held.get(uid):  # it may have been deallocated since the turn before
                pools = [(each.driver, each.pool) for each in devices]
                counts = [sum(pool in known for pool in pools) for known in self._pools]
                self._found.append((end_s, uid, self._row(pools), counts))
        return not self._left

    def _row(self, pools: Sequence[PoolKey]) -> int:
        """Of the node that alone can use all of these pools."""
        nodes = {node for pool in {*pools} for node in self._cluster.claims.users_of(*pool)}
        return self._cluster.row_of.get(nodes.pop(), _DISTANT) if len(nodes) == 1 else _DISTANT

    def result(self) -> EndingClaims:
        found = sorted(self._found, key=_end_s)
        return EndingClaims(
            np.array([each[0] for each in found], dtype=np.float64),
            [each[1] for each in found],
            np.array([each[2] for each in found], dtype=np.int64),
            np.array([each[3] for each in found], dtype=np.int64)
            .reshape(len(found), len(self._kinds))
            .T,
            [each.every for each in self._kinds],
        )


def _end_s(listed: tuple[float, str, int, list[int]]) -> float:
    return listed[0]
