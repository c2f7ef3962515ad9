"""Everything known about nodes, as columns: one row a node, updated in place.

Resources are stored one after another, (resource, row), so that a rule that asks about one
resource reads one contiguous array. Only what pods ask for has a column: a node may offer thousands
of resources, and each column costs as much as there are nodes.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from fairlead.cluster.data_sets import DataSets
from fairlead.cluster.device_claims import DeviceClaims
from fairlead.cluster.devices import Devices
from fairlead.cluster.images import ImageIndex
from fairlead.cluster.interned import Interned
from fairlead.cluster.inventories import Inventories
from fairlead.cluster.labels import LabelColumn, labelled
from fairlead.cluster.named_readings import NamedReadings
from fairlead.cluster.node_figures import NodeFigures
from fairlead.cluster.pod_index import PodIndex
from fairlead.cluster.price_tables import PriceTables
from fairlead.cluster.reservations import Reservations
from fairlead.cluster.storage import Storage
from fairlead.cluster.work import Work
from fairlead.model.behaviour import KUBERNETES_1_36
from fairlead.model.capacity_types import CapacityType, capacity_type
from fairlead.model.ending import ending_sign
from fairlead.model.gpus import Inventory
from fairlead.model.limits import MOST_GPUS
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Amounts, HostPort, Taint
from fairlead.model.quantities import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from fairlead.model.sizes import Kept, weigh

Vector = npt.NDArray[np.int64]  # (resources,)
#: Places of resources in the columns, and how much of each is needed.
IndexedAmounts = tuple[tuple[int, int], ...]

#: Resources that always have a column.
ALWAYS = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS, GPU)
#: Resources with a column; a pod may ask for half as many (`kube.limits`). The one that was not
#: asked for longest gives way.
MOST_RESOURCES = 128
#: Of the columns of labels. Pods may ask about any number; who asks again gets a column again.
_LABEL_BYTES = 64 << 20
_FEWEST_LABELS, _MOST_LABELS = 64, 1024
#: Of amounts that are kept in column order.
_VECTOR_BYTES = 16 << 20

#: Up to this many new columns are made one by one.
_FEW_LABELS = 2


class Columns:
    """Plain storage. `Cluster` keeps it consistent; `Nodes` is how rules read it."""

    def __init__(self, row_of: dict[str, int] | None = None) -> None:
        self.size = 0  # rows in use, holes included
        self.behaviour = KUBERNETES_1_36
        self._capacity = 64
        self.work = Work()
        self.pods = PodIndex(self._capacity, work=self.work)
        #: Rows by the names of their nodes.
        self.row_of = {} if row_of is None else row_of
        self.storage = Storage(self.row_of)
        self.claims = DeviceClaims()
        self.devices = Devices(self._capacity)
        self.load = self.devices.load
        self.inventories = Inventories()
        self.reservations = Reservations()
        #: What nodes cost, draw and emit.
        self.figures = NodeFigures()
        #: Data that pods read, and where it is.
        self.data = DataSets()
        #: Numbers about nodes and GPUs that the configuration names.
        self.readings = NamedReadings()
        #: What free parts of GPUs are worth, once enough pods were seen.
        self.prices: PriceTables | None = None
        #: Columns by resource; the first always have one, then the longest not asked for.
        self.resource_index = {name: place for place, name in enumerate(ALWAYS)}
        self._free_places: list[int] = []
        #: How many nodes offer each resource.
        self.offered: Counter[str] = Counter()
        #: Resources that a rule asked about and that nodes offer, but that have no column yet.
        self.missed: set[str] = set()
        self.present = np.zeros(self._capacity, dtype=np.bool_)
        self.cordoned = np.zeros(self._capacity, dtype=np.bool_)
        self.distrusted = np.zeros(self._capacity, dtype=np.bool_)
        #: Nodes that end soon, and how each is paid for (`CapacityType`).
        self.ending = np.zeros(self._capacity, dtype=np.bool_)
        self.capacity_type = np.zeros(self._capacity, dtype=np.int8)
        self.allocatable = np.zeros((8, self._capacity), dtype=np.int64)
        self.requested = np.zeros((8, self._capacity), dtype=np.int64)
        self.scored = np.zeros((2, self._capacity), dtype=np.int64)
        self.taint_set = np.zeros(self._capacity, dtype=np.int32)
        self._taint_sets: Interned[tuple[Taint, ...]] = Interned()
        self._taint_sets.take(())  # of rows without a node
        self.nodes: list[Node | None] = []
        self.images = ImageIndex(self.nodes)
        #: Host ports in use: (protocol, port) → row → one entry for each pod that holds it.
        self.ports: dict[tuple[str, int], dict[int, list[HostPort]]] = {}
        self._labels: dict[str, LabelColumn] = {}
        self._vectors: Kept[Amounts, Vector] = Kept(_VECTOR_BYTES)
        self._indexed_amounts: Kept[Amounts, IndexedAmounts] = Kept(_VECTOR_BYTES)

    def new_row(self) -> int:
        if self.size == self._capacity:
            self._grow_rows()
        self.nodes.append(None)
        self.size += 1
        return self.size - 1

    def put_node(self, row: int, node: Node) -> None:
        self._count_offers(self.nodes[row], node)
        self.data.version += 1
        self.images.put(row, node)
        self.nodes[row] = node
        self.present[row] = True
        self.cordoned[row] = node.unschedulable
        self.ending[row] = bool(ending_sign(node.taints, node.labels, node.annotations))
        self.capacity_type[row] = capacity_type(node.labels)
        self._put_taints(row, node.taints)
        self._put_allocatable(row, node)
        for key, column in self._labels.items():
            column.put(row, node.labels.get(key))
        self.devices.make_slots(min(dict(node.allocatable).get(GPU, 0), MOST_GPUS))
        self.put_gpus(row, node)
        self.figures.put_node(row, node)

    def put_gpus(self, row: int, node: Node) -> bool:
        """The node's GPUs as all sources list them now; says whether that changed anything."""
        changed = self.devices.put(row, self.gpus_of(node))
        if changed:
            self.load.clear_row(row)  # slots may stand for other GPUs now
        self.load.fit(self._capacity, self.devices.slots)
        if self.readings:
            self.readings.put_row(row, node.name, self.devices.inventories.get(row))
        return changed

    def gpus_of(self, node: Node) -> Inventory | None:
        """The GPUs of a node as the ledger has them."""
        return self.reservations.inventory(node, self.inventories.of(node))

    def is_spot(self, row: int) -> bool:
        return self.capacity_type.item(row) == CapacityType.SPOT

    def clear_row(self, row: int) -> None:
        self._count_offers(self.nodes[row], None)
        self.data.version += 1
        self.images.put(row, None)
        self.nodes[row] = None
        self.present[row] = False
        self._put_taints(row, ())
        self.allocatable[:, row] = 0
        self.requested[:, row] = 0
        self.scored[:, row] = 0
        self.devices.clear_row(row)
        self.load.clear_row(row)
        self.readings.put_row(row, "", None)
        for column in self._labels.values():
            column.put(row, None)
        for port in [port for port, rows in self.ports.items() if row in rows]:
            self.free_ports(port, row)

    def label(self, key: str) -> LabelColumn:
        column = self._labels.get(key)
        if column is None:
            self._fill_labels((key,))
            column = self._labels[key]
        return column

    def prepare_labels(self, keys: Collection[str]) -> None:
        """Many are about to be asked for: one walk over the nodes is enough."""
        wanted = {key for key in keys if key not in self._labels}
        if len(wanted) <= _FEW_LABELS or len(wanted) > self._most_labels:
            return
        self._fill_labels(wanted)

    def _fill_labels(self, keys: Collection[str]) -> None:
        self.work.ask(self.size)
        labels = (node.labels if node else None for node in self.nodes)
        for key, (rows, values) in labelled(keys, labels).items():
            self._new_label(key).fill(rows, values)

    def _new_label(self, key: str) -> LabelColumn:
        while len(self._labels) >= self._most_labels:
            del self._labels[next(iter(self._labels))]
        column = self._labels[key] = LabelColumn(self._capacity)
        return column

    @property
    def _most_labels(self) -> int:
        return min(_MOST_LABELS, max(_FEWEST_LABELS, _LABEL_BYTES // (4 * self._capacity)))

    # -- resources ---------------------------------------------------------------------------

    def ask_for(self, resources: Iterable[str]) -> set[str]:
        """These have columns from now on, if a node offers them; those whose column is new.

        What pods take of a new one is still to be counted. A column that gives way, or whose
        place another gets, makes every table by resource void.
        """
        index = self.resource_index
        new = set()
        for name in islice(resources, MOST_RESOURCES // 2):
            if name in index:
                if name not in ALWAYS:
                    index[name] = index.pop(name)  # asked for last
            elif name in self.offered:
                new.add(name)
                self._add_resource(name)
        if new:
            self._fill(new)
            self.missed -= new
        return new

    def miss(self, resource: str) -> bool:
        """Whether a node offers what has no column; it gets one before the next pod is tried."""
        offered = resource in self.offered and resource not in self.resource_index
        if offered and len(self.missed) < MOST_RESOURCES // 4:
            self.missed.add(resource)
        return offered

    def _add_resource(self, resource: str) -> None:
        if len(self.resource_index) >= MOST_RESOURCES:
            self._drop_resource(next(name for name in self.resource_index if name not in ALWAYS))
        place = self._free_places.pop() if self._free_places else len(self.resource_index)
        if place == len(self.allocatable):
            self._grow_resources()
        self.resource_index[resource] = place

    def _fill(self, new: set[str]) -> None:
        """One look at all nodes, however many columns are new."""
        self._vectors.clear()
        self._indexed_amounts.clear()
        for row, node in enumerate(self.nodes):
            for name, amount in node.allocatable if node else ():
                if name in new:
                    self.allocatable[self.resource_index[name], row] = max(0, amount)

    def _drop_resource(self, resource: str) -> None:
        place = self.resource_index.pop(resource)
        self.allocatable[place] = 0
        self.requested[place] = 0
        self._free_places.append(place)
        self._vectors.clear()
        self._indexed_amounts.clear()

    def _count_offers(self, old: Node | None, new: Node | None) -> None:
        """What a node offers instead of what it did; what none offers any more has no column."""
        if old is not None and new is not None and old.allocatable == new.allocatable:
            return
        for name, _ in new.allocatable if new else ():
            self.offered[name] += 1
        for name, _ in old.allocatable if old else ():
            self.offered[name] -= 1
            if not self.offered[name]:
                del self.offered[name]
                self.missed.discard(name)
                if name in self.resource_index and name not in ALWAYS:
                    self._drop_resource(name)

    def _put_allocatable(self, row: int, node: Node) -> None:
        self.allocatable[:, row] = 0
        for name, amount in node.allocatable:
            place = self.resource_index.get(name)
            if place is not None:
                self.allocatable[place, row] = max(0, amount)

    def vector(self, amounts: Amounts) -> Vector:
        """Amounts in column order, one pod counted.

        Without what has no column: any user can write names of resources into a pod.
        """
        vector = self._vectors.get(amounts)
        if vector is None:
            index = self.resource_index
            vector = np.zeros(len(self.allocatable), dtype=np.int64)
            for name, amount in amounts:
                if name in index:
                    vector[index[name]] += amount
            vector[index[PODS]] = 1
            self._vectors.keep(amounts, vector, weigh(amounts) + vector.nbytes)
        return vector

    def indexed_amounts(self, amounts: Amounts) -> IndexedAmounts | None:
        """What must be free, a place for the pod included; None if some of it has no column."""
        indexed_amounts = self._indexed_amounts.get(amounts)
        if indexed_amounts is None:
            if any(need > 0 and name not in self.resource_index for name, need in amounts):
                return None
            index = self.resource_index
            found = {index[name]: need for name, need in amounts if name in index}
            indexed_amounts = tuple((found | {index[PODS]: 1}).items())
            self._indexed_amounts.keep(amounts, indexed_amounts, weigh(amounts, indexed_amounts))
        return indexed_amounts

    # -- taints and ports --------------------------------------------------------------------

    @property
    def taint_sets(self) -> Sequence[tuple[Taint, ...] | None]:
        """By the numbers in `taint_set`; None where no node has such a number."""
        return self._taint_sets.values

    def _put_taints(self, row: int, taints: tuple[Taint, ...]) -> None:
        """A row that has none counts for nothing: their number is never given to others."""
        old = self.taint_set.item(row)
        self.taint_set[row] = self._taint_sets.take(taints) if taints else 0
        if old:
            self._taint_sets.drop(old)

    def free_ports(self, port: tuple[str, int], row: int) -> None:
        """No pod of the row holds the port any more."""
        rows = self.ports[port]
        del rows[row]
        if not rows:
            del self.ports[port]

    # -- room --------------------------------------------------------------------------------

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
    "ending": 0,
    "capacity_type": 0,
    "allocatable": 0,
    "requested": 0,
    "scored": 0,
    "taint_set": 0,
}
