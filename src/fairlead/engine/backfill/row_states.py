"""What a node holds when a planned unit starts, in a form that can be compared.

As long as it is the same as when the plan was last checked, the plan needs no other check: most
pods that come to a planned node, or leave it, do not run at the planned start.
"""

from collections.abc import Sequence

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.engine.backfill.ends import Ends
from fairlead.engine.backfill.futures import Plan
from fairlead.model.holders import pod_holder

#: What changes of a node when pods come and go; other changes are not compared.
OF_PODS = int(Aspect.USAGE | Aspect.PODS | Aspect.DEVICES)

RowState = tuple[object, ...]


class RowStates:
    """It looks, and changes nothing."""

    def __init__(self, cluster: Cluster, ends: Ends) -> None:
        self._cluster = cluster
        self._ends = ends

    def of(
        self, plan: Plan, others: Sequence[Plan], node: str, late_s: float, now: float
    ) -> RowState:
        """The node when the plan starts; what ends up to `late_s` after that is gone."""
        cluster = self._cluster
        row, held = cluster.row_of[node], cluster.held_on(node)
        cluster.work.pods += len(held)
        gone = [each for each in held if self._ends_by(each, plan, plan.start_s + late_s, now)]
        uids = {each.pod.uid for each in gone}
        stay = sorted((each.pod for each in held if each.pod.uid not in uids), key=lambda p: p.uid)
        beside = [each for each in others if each.overlaps(plan.start_s) and node in each.on]
        return (
            cluster.node_at(row),
            self._taken(row, gone),
            self._granted(row, uids),
            tuple(stay),
            tuple(cluster.nominations.on(node)),
            tuple(beside),
        )

    def _ends_by(self, held: Holding, plan: Plan, until_s: float, now: float) -> bool:
        end = self._ends.of(held, now, plan.evictor)
        return end is not None and end.at_s <= until_s

    def _taken(self, row: int, gone: Sequence[Holding]) -> bytes:
        """The amounts that are left to others."""
        columns = self._cluster.columns
        taken = columns.requested[:, row].copy()
        for each in gone:
            taken -= columns.vector(each.amounts)
        return taken.tobytes()

    def _granted(self, row: int, gone: set[str]) -> RowState:
        """GPUs by holder."""
        devices, holders = self._cluster.columns.devices, {pod_holder(uid) for uid in gone}
        granted = zip(devices.holders(row), devices.grants(row), strict=True)
        return tuple(each for each in granted if each[0] not in holders)
