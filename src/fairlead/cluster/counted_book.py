"""One counted resource: what each pod holds of it, on which layers, and how much is left."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fairlead.cluster import counted_gpus
from fairlead.cluster.arrays import NodeMask, PerNode
from fairlead.cluster.counted_layers import CountedLayers
from fairlead.cluster.counted_rows import RowsWithEnough
from fairlead.model.counted import CountedMode, CountedResource
from fairlead.model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from fairlead.cluster.cluster import Cluster


@dataclass(frozen=True, slots=True)
class CountedCharge:
    """What one pod holds of one resource."""

    amount: int
    #: The part of it that the pod asked for; the rest is for its GPUs.
    asked: int
    layers: tuple[str, ...]
    namespace: str

    @property
    def of_gpus(self) -> int:
        return self.amount - self.asked


class CountedBook:
    """One resource."""

    def __init__(self, spec: CountedResource) -> None:
        self.spec = spec
        self.layers = CountedLayers(spec)
        self.charges: dict[str, CountedCharge] = {}
        self.used = 0
        self.by_layer: Counter[str] = Counter()
        self.by_namespace: Counter[str] = Counter()
        #: Nodes whose pods are not charged yet, and what pods there were charged with before.
        self.uncharged: dict[str, None] = {}
        self.earlier: dict[str, CountedCharge] = {}
        #: Grows when any of this changes.
        self.version = 0
        self._outside, self._includes_pods = 0, False
        #: Whether use outside the cluster should be known, and is not.
        self.is_stale = False
        self.rows_with = RowsWithEnough(self.layers, self.by_layer)
        self._by_gpu: tuple[PerNode, list[int]] | None = None

    @property
    def outside(self) -> int:
        """What others than pods of the cluster use."""
        return max(0, self._outside - self.used) if self._includes_pods else self._outside

    def count_outside(
        self, used: int, *, includes_pods: bool = False, is_stale: bool = False
    ) -> None:
        """So many are used by others; `includes_pods`: by pods of the cluster and by others."""
        before = self._outside, self._includes_pods, self.is_stale
        self._outside, self._includes_pods, self.is_stale = used, includes_pods, is_stale
        self.version += before != (used, includes_pods, is_stale)

    @property
    def free(self) -> int | None:
        """How many are left in all; below 0 if the count was lowered. None: layers limit it."""
        total = self.spec.total
        return None if total is None else total - self.outside - self.used

    def left_on(self, layer: str) -> int:
        return self.layers.count_of(layer) - self.by_layer[layer]

    def add(self, uid: str, charge: CountedCharge) -> None:
        self.charges[uid] = charge
        self._change(charge, +1)

    def take(self, uid: str) -> CountedCharge | None:
        charge = self.charges.pop(uid, None)
        if charge is not None:
            self._change(charge, -1)
        return charge

    def charge_of(self, uid: str) -> CountedCharge | None:
        return self.charges.get(uid) or self.earlier.get(uid)

    def adopt(self, before: "CountedBook") -> None:
        """All pods hold what they held before, on the same layers."""
        self.layers = before.layers
        self.layers.renumber(self.spec)
        self.charges, self.used = before.charges, before.used
        self.by_layer, self.by_namespace = before.by_layer, before.by_namespace
        self.uncharged, self.earlier = before.uncharged, before.earlier
        self.rows_with = RowsWithEnough(self.layers, self.by_layer)

    def _change(self, charge: CountedCharge, sign: int) -> None:
        amount = sign * charge.amount
        self.version += 1
        self.used += amount
        self.by_namespace[charge.namespace] += amount
        if not self.by_namespace[charge.namespace]:
            del self.by_namespace[charge.namespace]
        for layer in charge.layers:
            self.by_layer[layer] += amount
            if not self.by_layer[layer]:
                del self.by_layer[layer]
        self.rows_with.changed.update(charge.layers)

    def layers_for(self, row: int | None, amount: int) -> tuple[str, ...]:
        """The layers that a pod on the row is charged on; None: its node is gone."""
        covering = self.layers.covering(row)
        if self.spec.mode is not CountedMode.ANY or not covering:
            return covering
        return (next((each for each in covering if self.left_on(each) >= amount), covering[0]),)

    def rows(self, cluster: "Cluster", amount: int) -> NodeMask | None:
        """Rows whose layers have so many left; None: all."""
        if not self.spec.layers:
            return None
        return self.rows_with.of(amount, self.spec.mode, cluster.columns.size)

    def by_gpu(self, cluster: "Cluster") -> tuple[PerNode, list[int]]:
        """What one GPU of each row is charged for, and all such amounts."""
        if self._by_gpu is None or len(self._by_gpu[0]) != cluster.columns.size:
            found = counted_gpus.by_row(cluster, self.spec.per_gpu)
            self._by_gpu = found, np.unique(found).tolist()
        return self._by_gpu

    def put_node(self, row: int, labels: Mapping[str, str] | None) -> None:
        """The node of the row came, or has other labels or GPUs than before; None: it is gone."""
        self.rows_with.put(self.layers.put_node(row, labels))
        self._by_gpu = None
        self.version += 1
