"""Everything known about nodes, as columns: one row a node, updated in place.

Resources are stored one after another, (resource, row), so that a rule that asks about one
resource reads one contiguous array.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fairlead.cluster.devices import Devices
from fairlead.cluster.images import ImageIndex
from fairlead.cluster.labels import LabelColumn
from fairlead.cluster.pod_index import PodIndex
from fairlead.cluster.price_tables import PriceTables
from fairlead.cluster.storage import Storage
from fairlead.model.behaviour import KUBERNETES_1_36
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Amounts, HostPort, Taint
from fairlead.model.quantities import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

Vector = npt.NDArray[np.int64]  # (resources,)
#: Places of resources in the columns, and how much of each is needed.
Needs = tuple[tuple[int, int], ...]

#: Of one node; what is beyond is counted, but not told apart.
_MOST_CARDS = 64
#: Keys with a column. Pods may ask about any number; who asks again gets a column again.
_MOST_LABELS = 1024


class Columns:
    """Plain storage. `Cluster` keeps it consistent; `Nodes` is how rules read it."""

    def __init__(self, row_of: dict[str, int] | None = None) -> None:
        self.size = 0  # rows in use, holes included
        self.behaviour = KUBERNETES_1_36
        self._capacity = 64
        self.pods = PodIndex(self._capacity)
        #: Rows by the names of their nodes.
        self.row_of = {} if row_of is None else row_of
        self.storage = Storage(self.row_of)
        self.devices = Devices(self._capacity)
        self.load = self.devices.load
        #: What free parts of cards are worth, once enough pods were seen.
        self.prices: PriceTables | None = None
        self.resource_index = {CPU: 0, MEMORY: 1, EPHEMERAL_STORAGE: 2, PODS: 3}
        self.present = np.zeros(self._capacity, dtype=np.bool_)
        self.cordoned = np.zeros(self._capacity, dtype=np.bool_)
        self.distrusted = np.zeros(self._capacity, dtype=np.bool_)
        self.allocatable = np.zeros((8, self._capacity), dtype=np.int64)
        self.requested = np.zeros((8, self._capacity), dtype=np.int64)
        self.scored = np.zeros((2, self._capacity), dtype=np.int64)
        self.taint_set = np.zeros(self._capacity, dtype=np.int32)
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.nodes: list[Node | None] = []
        self.images = ImageIndex(self.nodes)
        #: Host ports in use: (protocol, port) → row → one entry for each pod that holds it.
        self.ports: dict[tuple[str, int], dict[int, list[HostPort]]] = {}
        self._labels: dict[str, LabelColumn] = {}
        self._vectors: dict[Amounts, Vector] = {}
        self._needs: dict[Amounts, Needs] = {}
        self._taint_set_of: dict[tuple[Taint, ...], int] = {(): 0}

    def new_row(self) -> int:
        if self.size == self._capacity:
            self._grow_rows()
        self.nodes.append(None)
        self.size += 1
        return self.size - 1

    def put_node(self, row: int, node: Node) -> None:
        self.images.put(row, node)
        self.nodes[row] = node
        self.present[row] = True
        self.cordoned[row] = node.unschedulable
        self.taint_set[row] = self._intern_taints(node.taints)
        self.allocatable[:, row] = 0
        for name, amount in node.allocatable:
            self.allocatable[self.resource_index[name], row] = max(0, amount)
        for key, column in self._labels.items():
            column.put(row, node.labels.get(key))
        self.devices.make_slots(min(dict(node.allocatable).get(GPU, 0), _MOST_CARDS))
        if self.devices.put(row, node.gpus):
            self.load.clear_row(row)  # slots may stand for other cards now
        self.load.fit(self._capacity, self.devices.slots)

    def clear_row(self, row: int) -> None:
        self.images.put(row, None)
        self.nodes[row] = None
        self.present[row] = False
        self.allocatable[:, row] = 0
        self.requested[:, row] = 0
        self.scored[:, row] = 0
        self.devices.clear_row(row)
        self.load.clear_row(row)
        for column in self._labels.values():
            column.put(row, None)
        for rows in self.ports.values():
            rows.pop(row, None)

    def label(self, key: str) -> LabelColumn:
        column = self._labels.get(key)
        if column is None:
            if len(self._labels) >= _MOST_LABELS:
                del self._labels[next(iter(self._labels))]
            column = self._labels[key] = LabelColumn(self._capacity)
            for row, node in enumerate(self.nodes):
                if node and key in node.labels:
                    column.put(row, node.labels[key])
        return column

    def add_resource(self, resource: str) -> None:
        """A node offers what none did before. Whoever holds some of it is to be counted again."""
        self.resource_index[resource] = len(self.resource_index)
        if len(self.resource_index) > len(self.allocatable):
            self._grow_resources()
        self._vectors.clear()
        self._needs.clear()

    def vector(self, amounts: Amounts) -> Vector:
        """Amounts in column order, one pod counted.

        Without what no node offers: anybody can write names of resources into a pod.
        """
        vector = self._vectors.get(amounts)
        if vector is None:
            index = self.resource_index
            vector = np.zeros(len(self.allocatable), dtype=np.int64)
            for name, amount in amounts:
                if name in index:
                    vector[index[name]] += amount
            vector[index[PODS]] = 1
            if len(self._vectors) >= 4096:
                self._vectors.clear()
            self._vectors[amounts] = vector
        return vector

    def needs(self, amounts: Amounts) -> Needs | None:
        """What must be free, a place for the pod included; None if nobody has any of some."""
        needs = self._needs.get(amounts)
        if needs is None:
            if any(need > 0 and name not in self.resource_index for name, need in amounts):
                return None
            index = self.resource_index
            found = {index[name]: need for name, need in amounts if name in index}
            needs = tuple((found | {index[PODS]: 1}).items())
            if len(self._needs) >= 4096:
                self._needs.clear()
            self._needs[amounts] = needs
        return needs

    def _intern_taints(self, taints: tuple[Taint, ...]) -> int:
        found = self._taint_set_of.get(taints)
        if found is None:
            found = self._taint_set_of[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return found

    def _grow_rows(self) -> None:
        extra = self._capacity
        self._capacity += extra
        for name, filler in _ROW_FILLERS.items():
            old = getattr(self, name)
            tail = np.full((*old.shape[:-1], extra), filler, dtype=old.dtype)
            setattr(self, name, np.concatenate([old, tail], axis=-1))
        for column in self._labels.values():
            column.grow(self._capacity)
        self.pods.grow(self._capacity)
        self.devices.grow(self._capacity)
        self.load.fit(self._capacity, self.devices.slots)

    def _grow_resources(self) -> None:
        for name in ("allocatable", "requested"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros_like(old)], axis=0))


_ROW_FILLERS: Mapping[str, int] = {
    "present": 0,
    "cordoned": 0,
    "distrusted": 0,
    "allocatable": 0,
    "requested": 0,
    "scored": 0,
    "taint_set": 0,
}
