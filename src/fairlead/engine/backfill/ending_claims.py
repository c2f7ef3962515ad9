"""Claims that end, in the order of their ends, and the devices that are free then."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairlead.claims.device_counts import DeviceCounts
from fairlead.cluster.arrays import NodeMask, Rows
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.priority_sums import AmountsByRow
from fairlead.engine.backfill.ending_pods import Times
from fairlead.engine.backfill.planned_claims import own_claims
from fairlead.model.claims import AllocatedDevice
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
    #: How many devices of each kind that is counted each of them has, a column each.
    devices: npt.NDArray[np.int64]

    def _count(self, until_s: float) -> int:
        return int(np.searchsorted(self.at_s, until_s, side="right"))

    def ended(self, until_s: float, rows: NodeMask) -> list[str]:
        """Uids of those that end by then on these rows, and of those that are of no row."""
        count = self._count(until_s)
        pairs = zip(self.uids[:count], self.rows[:count].tolist(), strict=True)
        return [uid for uid, row in pairs if row == _DISTANT or rows[row]]

    def with_rows(self, freed: Rows, until_s: float) -> Rows:
        """These rows, and once more those where claims end by then."""
        own = self.rows[: self._count(until_s)]
        return np.concatenate([freed, own[own != _DISTANT]]) if len(own) else freed

    def add_freed(self, free: AmountsByRow, until_s: float) -> None:
        """What is free then; devices come after other amounts. Distant ones are for any row."""
        count = self._count(until_s)
        rows, first = self.rows[:count], len(free) - len(self.devices)
        for at, held in enumerate(self.devices):
            near = rows != _DISTANT
            counts = np.bincount(rows[near], weights=held[:count][near], minlength=free.shape[1])
            free[first + at] += counts.astype(np.int64) + int(held[:count][~near].sum())


_NONE = np.zeros(0, dtype=np.int64)
NO_CLAIMS = EndingClaims(np.zeros(0), (), _NONE, _NONE.reshape(0, 0))


def ending_claims(
    ends: Iterable[tuple[str, float]],
    pods: Iterable[Pod],
    kinds: Sequence[PodKind],
    cluster: Cluster,
) -> EndingClaims:
    """Of claims by uid, for these pods that wait. What the pods have themselves stays theirs."""
    own, state = own_claims(pods, cluster), cluster.claims
    found = sorted(
        ((end_s, uid) for uid, end_s in ends if uid not in own), key=lambda each: each[0]
    )
    held = [state.held[uid] for _, uid in found]
    counted = list({each.kind: each for kind in kinds for each in kind.devices}.values())
    return EndingClaims(
        np.array([end_s for end_s, _ in found], dtype=np.float64),
        [uid for _, uid in found],
        np.array([_row(devices, cluster) for devices in held], dtype=np.int64),
        np.array([_served(held, each) for each in counted], dtype=np.int64).reshape(
            len(counted), len(held)
        ),
    )


def _served(held: Sequence[Sequence[AllocatedDevice]], counts: DeviceCounts) -> list[int]:
    return [sum(counts.serves(each.key) for each in devices) for devices in held]


def _row(devices: Sequence[AllocatedDevice], cluster: Cluster) -> int:
    """Of the node that alone can use all of the devices."""
    pools = {(each.driver, each.pool) for each in devices}
    nodes = {node for pool in pools for node in cluster.claims.users_of(*pool)}
    return cluster.row_of.get(next(iter(nodes)), _DISTANT) if len(nodes) == 1 else _DISTANT
