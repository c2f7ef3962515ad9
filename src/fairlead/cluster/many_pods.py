"""Many pods that leave their nodes together in a trial, and come back together.

One by one each of them writes its row in every column and adds to the change log. Together they are
added up first: a row is written once, and is in the log once.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.gpu_batch import GpuBatch
from fairlead.cluster.holdings import Holding
from fairlead.cluster.priority_sums import sums_of_rows

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster


def plain_pods(cluster: "Cluster", uids: Iterable[str]) -> list[str]:
    """Those that hold what belongs to one node, and nothing that is counted, each once."""
    holdings, row_of, counted = cluster.holdings, cluster.row_of, cluster.counted
    found = [uid for uid in dict.fromkeys(uids) if _is_plain(holdings.get(uid), row_of)]
    if counted is None:
        return found
    return [uid for uid in found if not counted.charges(holdings[uid].pod)]


def _is_plain(held: Holding | None, nodes: Collection[str]) -> bool:
    if held is None or held.shared or held.node not in nodes:
        return False
    if held.grant is not None and held.grant.member is not None:
        return False
    return not held.pod.request.claims


class ManyPods:
    """Plain ones, which hold something. Only views see that they come and go."""

    def __init__(self, cluster: "Cluster", uids: Sequence[str]) -> None:
        self._cluster = cluster
        self._uids = uids
        self._pods = [cluster.holdings[uid] for uid in uids]
        self._rows = [cluster.row_of[held.node] for held in self._pods]
        self._gpus = GpuBatch(cluster.columns.devices, self._rows, self._pods)
        #: What of each row changes, by the number of the object: there are few.
        self._touched = {
            (row, id(touches)): touches
            for row, touches in zip(self._rows, map(_touches, self._pods), strict=True)
        }

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def touches(self) -> Collection[Aspect]:
        """What changes when they come or go."""
        return {id(each): each for each in self._touched.values()}.values()

    def detach(self) -> None:
        """Takes what they hold off their nodes."""
        self._cluster.leave_all(self._uids)
        self._cluster.columns.pods.take_all([held.pod for held in self._pods])
        self._gpus.release()
        self._occupy(-1)
        self._use(-1)

    def attach(self) -> None:
        """Puts it back, when all is as it was after `detach`: the last one first."""
        rows, pods = self._rows[::-1], self._pods[::-1]
        self._cluster.enter_all(pods)
        self._cluster.columns.pods.put_all(
            (row, held.pod) for row, held in zip(rows, pods, strict=True)
        )
        self._gpus.occupy()
        self._occupy(+1)
        self._use(+1)

    def _use(self, sign: int) -> None:
        """Ports and volumes: few pods have some."""
        for row, held in zip(self._rows, self._pods, strict=True):
            if held.ports or held.pod.request.volumes is not None:
                self._cluster.use_of_node(row, held, sign)

    def _occupy(self, sign: int) -> None:
        """What they take of their rows, by amounts; and in the log."""
        cluster, columns = self._cluster, self._cluster.columns
        vectors = [columns.vector(held.amounts) for held in self._pods]
        rows, amounts = sums_of_rows(list(zip(self._rows, vectors, strict=True)))
        columns.requested[:, rows] += sign * amounts
        scored = np.array([held.scored for held in self._pods], dtype=np.int64)
        for column, amount in zip(columns.scored, scored.T, strict=True):
            np.add.at(column, self._rows, sign * amount)
        if cluster.priority_sums:
            priorities = [held.pod.priority for held in self._pods]
            shares = list(zip(self._rows, priorities, vectors, strict=True))
            cluster.priority_sums.follow_all(shares, sign)
        for (row, _), touches in self._touched.items():
            cluster.changes.add(row, touches)


def _touches(held: Holding) -> Aspect:
    return held.touches
