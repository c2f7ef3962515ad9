"""The nodes as a rule sees them: read-only columns over all rows, or over a few of them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import numpy as np

from fairlead.cluster.affinity_weights import AffinityWeights, KeyWeights
from fairlead.cluster.arrays import Codes, NodeMask, NodeScores, PerNode, RowPick, Rows, sealed
from fairlead.cluster.columns import Columns
from fairlead.cluster.data_sets import Wanted
from fairlead.cluster.device_claims import DeviceClaims
from fairlead.cluster.devices import Gpus
from fairlead.cluster.gpu_rows import GpuRows
from fairlead.cluster.load import GpuShares, LoadRows
from fairlead.cluster.map_indices import Obstacle, obstacle
from fairlead.cluster.pod_index import ExistingAntiAffinity, PodQuery
from fairlead.cluster.price_tables import PriceTables, Table
from fairlead.cluster.storage import Storage
from fairlead.cluster.work import Work
from fairlead.model.behaviour import Behaviour
from fairlead.model.capacity_types import CapacityType
from fairlead.model.gpus import WHOLE, Inventory
from fairlead.model.map_slots import MapSlot
from fairlead.model.node_figures import Figure
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import ANY_ADDRESS, Amounts, HostPort, PodRequest, Taint
from fairlead.model.quantities import CPU, PODS
from fairlead.model.selectors import PodTerm
from fairlead.model.volumes import PodVolumes


class Nodes:
    """Some rows of the cluster. Every array it returns has `len(nodes)` entries, in row order."""

    __slots__ = ("_columns", "_pick", "_size")

    def __init__(self, columns: Columns, pick: RowPick | None = None) -> None:
        self._columns = columns
        self._pick: RowPick = slice(0, columns.size) if pick is None else pick
        self._size = (
            self._pick.stop - self._pick.start
            if isinstance(self._pick, slice)
            else len(self._pick)
        )  # fmt: skip

    def __len__(self) -> int:
        return self._size

    @property
    def row(self) -> int:
        """Of a single node."""
        return self._pick.start if isinstance(self._pick, slice) else int(self._pick[0])

    def namespace_labels(self, namespace: str) -> Mapping[str, str] | None:
        """None: it was not seen."""
        return self._columns.pods.namespace_labels(namespace)

    @property
    def behaviour(self) -> Behaviour:
        """What kube-scheduler of the cluster's version does where others do otherwise."""
        return self._columns.behaviour

    @property
    def work(self) -> Work:
        """How much was looked at so far."""
        return self._columns.work

    def all(self) -> NodeMask:
        return np.ones(self._size, dtype=np.bool_)

    def none(self) -> NodeMask:
        return np.zeros(self._size, dtype=np.bool_)

    def only(self, mask: NodeMask) -> "Nodes":
        """Of all nodes those where the mask is true."""
        return Nodes(self._columns, np.flatnonzero(mask))

    @property
    def whole(self) -> bool:
        """Are these all nodes that there are?"""
        return isinstance(self._pick, slice) and self._pick == slice(0, self._columns.size)

    def at(self, positions: Rows) -> "Nodes":
        """Of these nodes those at the positions."""
        pick = self._pick
        rows = positions + pick.start if isinstance(pick, slice) else pick[positions]
        return Nodes(self._columns, rows)

    @property
    def row_numbers(self) -> Rows:
        """The rows of these nodes."""
        pick = self._pick
        return np.arange(pick.start, pick.stop) if isinstance(pick, slice) else pick

    @property
    def all_rows(self) -> int:
        """How many rows the cluster has."""
        return self._columns.size

    @property
    def claims(self) -> DeviceClaims:
        """Resource claims and what they can be allocated."""
        return self._columns.claims

    @property
    def storage(self) -> Storage:
        """Volume claims, volumes and related objects; they belong to no node."""
        return self._columns.storage

    def objects(self) -> Iterable[Node | None]:
        """The nodes themselves, row by row: for rules that need what no column holds."""
        nodes = self._columns.nodes
        if isinstance(self._pick, slice):
            return nodes[self._pick]
        return [nodes[row] for row in self._pick]

    def inventories(self) -> Iterable[Inventory]:
        """The GPUs of those nodes that list any, as all sources list them."""
        pick, found = self._pick, self._columns.devices.inventories
        rows = range(pick.start, pick.stop) if isinstance(pick, slice) else pick.tolist()
        return [found[row] for row in rows if row in found]

    def listed_gpus(self) -> Iterable[Inventory | None]:
        """The GPUs of each node; None where it lists none."""
        pick, found = self._pick, self._columns.devices.inventories
        rows = range(pick.start, pick.stop) if isinstance(pick, slice) else pick.tolist()
        return [found.get(row) for row in rows]

    # -- resources ---------------------------------------------------------------------------

    def allocatable(self, resource: str) -> PerNode:
        index = self._columns.resource_index.get(resource)
        if index is None:
            return self._offers(resource)
        return sealed(self._columns.allocatable[index, self._pick])

    def requested(self, resource: str) -> PerNode:
        """What the pods on each node take, those on their way there included."""
        index = self._columns.resource_index.get(resource)
        if index is None:
            return self._taken(resource)
        return sealed(self._columns.requested[index, self._pick])

    def free(self, resource: str) -> PerNode:
        """May be negative where a node shrank under its pods."""
        index = self._columns.resource_index.get(resource)
        if index is None:
            return self.allocatable(resource) - self.requested(resource)
        columns = self._columns
        free: PerNode = columns.allocatable[index, self._pick] - columns.requested[
            index, self._pick
        ]  # fmt: skip
        return free

    def free_here(self, resource: str) -> int:
        """Of a single node, as a plain number."""
        taken, offered = self.amounts_here(resource)
        return offered - taken

    def amounts_here(self, resource: str) -> tuple[int, int]:
        """What a single node's pods take, and what it offers, as plain numbers."""
        columns, row = self._columns, self.row
        index = columns.resource_index.get(resource)
        if index is None:
            return int(self.requested(resource)[0]), int(self.allocatable(resource)[0])
        return columns.requested.item(index, row), columns.allocatable.item(index, row)

    def have_room(self, amounts: Amounts) -> NodeMask:
        """Where that much of each resource is free, and one more pod may come."""
        indexed_amounts = self._columns.indexed_amounts(amounts)
        if indexed_amounts is None:
            return self._find_room(amounts)
        offered, taken, pick = self._columns.allocatable, self._columns.requested, self._pick
        if self._size == 1:  # plain numbers: after each placement one node is asked about again
            row = self.row
            for at, need in indexed_amounts:
                if offered.item(at, row) - taken.item(at, row) < need:
                    return np.array([False])
            return np.array([True])
        enough = self.all()
        for at, need in indexed_amounts:
            enough &= offered[at, pick] - taken[at, pick] >= need
        return enough

    def scored_requested(self, which: int) -> PerNode:
        """Cpu (0) or memory (1) taken, with kube-scheduler's defaults for unstated requests."""
        return sealed(self._columns.scored[which, self._pick])

    def scored_here(self, which: int) -> int:
        """The same of a single node, as a plain number."""
        scored: int = self._columns.scored.item(which, self.row)
        return scored

    # -- what kind of node -------------------------------------------------------------------

    def present(self) -> NodeMask:
        return sealed(self._columns.present[self._pick])

    def cordoned(self) -> NodeMask:
        return sealed(self._columns.cordoned[self._pick])

    def distrusted(self) -> NodeMask:
        return sealed(self._columns.distrusted[self._pick])

    def ending(self) -> NodeMask:
        """True where the node ends soon, by what autoscalers and clouds write on it."""
        return sealed(self._columns.ending[self._pick])

    def spot(self) -> NodeMask:
        """True where the provider may take the node away at short notice."""
        return sealed(self._columns.capacity_type[self._pick] == CapacityType.SPOT)

    def figure(self, figure: Figure) -> NodeScores:
        """What each node costs for an hour, draws in watts or emits in grams for a kWh.

        Where that is not known, the median of the others; 0 where nothing is known.
        """
        return sealed(self._columns.figures.column(figure, self._columns.size)[self._pick])

    def reading(self, name: str) -> NodeScores:
        """A reading of nodes; NaN where it has neither a value nor a fallback."""
        return sealed(self._columns.readings.of_nodes(name, self._columns.size)[self._pick])

    def gpu_reading(self, name: str) -> GpuShares:
        """The same of GPUs, by node and slot."""
        columns = self._columns
        found = columns.readings.of_gpus(name, columns.size, columns.devices.slots)
        return sealed(found[self._pick])

    def is_of_gpus(self, name: str) -> bool:
        """Whether the reading is about GPUs."""
        return self._columns.readings.is_of_gpus(name)

    def median_reading(self, name: str) -> float:
        """Of all nodes or GPUs that have a value; 0 if none has."""
        return self._columns.readings.median(name)

    def seen_readings(self, key: str, *, by_gpu: bool) -> dict[str, float]:
        """All readings of a node by its name, or of a GPU by its UUID."""
        readings = self._columns.readings
        return readings.seen_of(key, by_gpu=by_gpu) if readings else {}

    def named(self, names: Iterable[str]) -> NodeMask:
        row_of = self._columns.row_of
        found = np.zeros(self._columns.size, dtype=np.bool_)
        found[[row_of[name] for name in names if name in row_of]] = True
        named: NodeMask = found[self._pick]
        return named

    def prepare_labels(self, keys: Collection[str]) -> None:
        """These labels are about to be asked about: makes what is new together."""
        if len(keys) > 1:
            self._columns.prepare_labels(keys)

    def has_label(self, key: str) -> NodeMask:
        return self._columns.label(key).exists(self._pick)

    def label_in(self, key: str, values: tuple[str, ...]) -> NodeMask:
        return self._columns.label(key).is_in(values, self._pick)

    def label_compares(self, key: str, operator: str, bound: int) -> NodeMask:
        return self._columns.label(key).compares(operator, bound, self._pick)

    def domains(self, key: str) -> Codes:
        """The domain of each node under a topology key, as a number; -1 without the label."""
        return self._columns.label(key).codes(self._pick)

    def taints_pass(self, accepts: Callable[[tuple[Taint, ...]], bool]) -> NodeMask:
        """Asks once for each distinct set of taints, however many nodes carry it."""
        return self.taint_numbers(accepts).astype(np.bool_)

    def may_have_taints(self, like: Callable[[tuple[Taint, ...]], bool]) -> bool:
        """Whether a node of the cluster, one of these or another, has such taints."""
        return any(like(each) for each in self._columns.taint_sets if each)

    def taint_numbers(self, number: Callable[[tuple[Taint, ...]], int]) -> PerNode:
        """A number for each node's taints; asks once for each distinct set of them."""
        sets, codes = self._columns.taint_sets, self._columns.taint_set[self._pick]
        if self._size == 1:
            return np.array([number(sets[codes.item(0)] or ())], dtype=np.int64)
        if len(sets) <= self._size:
            every = np.fromiter((number(each or ()) for each in sets), dtype=np.int64)
            asked: PerNode = every[codes]
            return asked
        there: list[int] = np.flatnonzero(np.bincount(codes, minlength=1)).tolist()
        table = np.zeros(len(sets), dtype=np.int64)
        table[there] = [number(sets[code] or ()) for code in there]
        numbers: PerNode = table[codes]
        return numbers

    def declares(self, feature: str) -> NodeMask:
        """Where the kubelet says that it can do this. Slow: few pods ask."""
        return np.fromiter(
            (node is not None and feature in node.features for node in self.objects()),
            dtype=np.bool_,
            count=self._size,
        )

    def has_image(self, name: str) -> bool:
        """Is the image on any node of the cluster?"""
        return self._columns.images.has(name)

    def image_sizes_bytes(self, name: str) -> PerNode:
        """0 where the node does not have the image."""
        sizes: PerNode = self._columns.images.sizes_bytes(name, self._columns.size)[self._pick]
        return sizes

    def missing_bytes(self, wanted: Wanted) -> NodeScores:
        """What each node would have to fetch before a pod could use it."""
        return sealed(self._columns.data.missing_bytes(wanted, self._columns)[self._pick])

    def port_taken(self, wanted: HostPort) -> NodeMask:
        holders = self._columns.ports.get((wanted.protocol, wanted.port), {})
        if self._size == 1:
            return np.array([any(map(wanted.conflicts, holders.get(self.row, ())))])
        taken = np.zeros(self._columns.size, dtype=np.bool_)
        if wanted.ip == ANY_ADDRESS:
            taken[list(holders)] = True
        else:
            for row, held in holders.items():
                taken[row] = any(map(wanted.conflicts, held))
        chosen: NodeMask = taken[self._pick]
        return chosen

    # -- volumes -----------------------------------------------------------------------------

    def over_volume_limit(self, volumes: PodVolumes) -> NodeMask:
        """True where the volumes would be more than a CSI driver's limit."""
        attached = self.storage.attached
        if self._size == 1 and (node := self._columns.nodes[self.row]):
            wanted = attached.of_pod(volumes)
            return np.array([attached.over_limit_on(wanted, node.name, self.row)])
        over: NodeMask = attached.over_limit(attached.of_pod(volumes), self._columns.size)[
            self._pick
        ]
        return over

    def has_driver(self, driver: str) -> NodeMask:
        """True where the kubelet knows the CSI driver."""
        found: NodeMask = self.storage.attached.installed(driver, self._columns.size)[self._pick]
        return found

    def migrated(self, plugin: str) -> NodeMask:
        """True where a CSI driver serves the volumes of an in-tree plugin."""
        found: NodeMask = self.storage.attached.migrated(plugin, self._columns.size)[self._pick]
        return found

    def domain_of(self, key: str) -> Mapping[str, int]:
        """The numbers that `domains` has for the values of a label."""
        return self._columns.label(key).code_of

    # -- GPUs -------------------------------------------------------------------------------

    def obstacle(self, map_slot: MapSlot, position: int) -> Obstacle | None:
        """What keeps a scheduling map from the GPUs that it names on the node at this position."""
        row = self._pick.start + position if isinstance(self._pick, slice) else self._pick[position]
        counted = int(self.allocatable(GPU)[position])
        return obstacle(map_slot, self._columns.devices, int(row), counted)

    def gpu_room(self) -> Gpus:
        """Thousandths of each GPU that are free; unlisted GPUs are free or not as a whole."""
        devices = self._columns.devices
        room: Gpus = devices.room[self._pick]
        if self._all_listed:
            return room
        listed = devices.slotted[self._pick]
        count = np.where(listed, 0, self.free(GPU))
        room = room + WHOLE * (np.arange(room.shape[1]) < count[:, None])
        if devices.in_doubt:
            room = _without_last(room, np.where(listed, devices.elsewhere[self._pick], 0))
        return room

    def free_gpus(self) -> tuple[PerNode, PerNode]:
        """Thousandths of GPUs that are free on each node, and how many GPUs as a whole."""
        devices = self._columns.devices
        if self._all_listed:
            return devices.free_milli[self._pick], devices.full[self._pick]
        count = np.maximum(self.free(GPU), 0)
        if not devices.listed:
            return WHOLE * count, count
        listed, full = devices.slotted[self._pick], devices.full[self._pick]
        # Pods whose GPUs we do not know have idle ones.
        held = np.minimum(devices.elsewhere[self._pick], full)
        milli = devices.free_milli[self._pick] - WHOLE * held
        return np.where(listed, milli, WHOLE * count), np.where(listed, full - held, count)

    def free_gpus_here(self) -> tuple[int, int]:
        """The same of a single node, as plain numbers."""
        devices, row = self._columns.devices, self.row
        all_listed = self._all_listed
        if not all_listed and not (devices.listed and devices.slotted.item(row)):
            count = max(self.free_here(GPU), 0)
            return WHOLE * count, count
        milli, full = devices.free_milli.item(row), devices.full.item(row)
        held = 0 if all_listed else min(devices.elsewhere.item(row), full)
        return milli - WHOLE * held, full - held

    @property
    def _all_listed(self) -> bool:
        """Is every node's every GPU known, and who has it?"""
        devices = self._columns.devices
        return devices.listed == self._columns.size and not devices.in_doubt

    def prices(self) -> PriceTables | None:
        """What gaps are worth; None while too few pods were seen."""
        return self._columns.prices

    def fragments_milli(self) -> Table | None:
        """Free thousandths that are of no use to a typical pod; None while those are not known."""
        tables = self.prices()
        if tables is None:
            return None
        room, rank = self.gpu_room(), tables.cpu_rank(self.free(CPU))
        fragments: Table = room.sum(axis=1) - tables.usable_milli(room, self.gpus.model(), rank)
        return fragments

    @property
    def gpus(self) -> GpuRows:
        """The GPUs of each node: arrays of (node, slot)."""
        return GpuRows(self._columns.devices, self._pick)

    @property
    def load(self) -> LoadRows:
        """What the GPUs of each node are really doing: arrays of (node, slot)."""
        return LoadRows(self._columns.load, self._pick)

    # -- who is there ------------------------------------------------------------------------

    def pods_meant(self, query: PodQuery) -> PerNode:
        """How many pods the query means on each node."""
        return sealed(self._columns.pods.count(query)[self._pick])

    def is_there(self, uid: str) -> bool:
        """Is the pod on any node?"""
        return uid in self._columns.pods.pods

    def prepare_counts(self, queries: Collection[PodQuery]) -> None:
        """Many counts are about to be asked for: makes them together."""
        self._columns.pods.prepare(queries)

    def existing_anti_affinity(self, request: PodRequest) -> ExistingAntiAffinity:
        """Anti-affinity terms of existing pods that select this one, and where those pods are."""
        if not self._columns.pods.keys_of_anti_affinity:
            return []
        return self._columns.pods.existing_anti_affinity(request.namespace, dict(request.labels))

    def existing_anti_affinity_by_key(self, request: PodRequest) -> Mapping[str, PerNode]:
        """By topology key, how many such terms the pods of each node hold. Of all nodes only."""
        if not self._columns.pods.keys_of_anti_affinity:
            return {}
        labels = dict(request.labels)
        return self._columns.pods.existing_anti_affinity_by_key(
            request.namespace, labels, self._size
        )

    def holding(self, terms: Collection[PodTerm], below: int) -> Iterator[tuple[PodTerm, int]]:
        """The row of each pod below a priority that has one of these terms, for each term."""
        return self._columns.pods.holding(terms, below)

    def preferred_affinity_to(self, request: PodRequest) -> tuple[KeyWeights, ...]:
        """Topology keys of preferred terms of existing pods for this one; weights by row."""
        return self._about(self._columns.pods.preferred_affinity, request)

    def required_affinity_to(self, request: PodRequest) -> tuple[KeyWeights, ...]:
        """Topology keys of required affinity of existing pods to this one; counts by row."""
        return self._about(self._columns.pods.required_affinity, request)

    def _about(self, held: AffinityWeights, request: PodRequest) -> tuple[KeyWeights, ...]:
        of_namespace = self._columns.pods.labels_of(request.namespace)
        return held.about(request.namespace, request.labels, of_namespace)

    def means_itself(self, request: PodRequest, terms: tuple[PodTerm, ...]) -> bool:
        return self._columns.pods.means(terms, request.namespace, dict(request.labels))

    # -- resources without a column ----------------------------------------------------------

    def _offers(self, resource: str) -> PerNode:
        """Node by node: slow, but whatever is asked for has a column from the next pod on."""
        offers = np.zeros(self._size, dtype=np.int64)
        if self._columns.miss(resource):
            for place, node in enumerate(self.objects()):
                for name, amount in node.allocatable if node else ():
                    if name == resource:
                        offers[place] = max(0, amount)
        return offers

    def _taken(self, resource: str) -> PerNode:
        """Pod by pod. Nothing where no node offers it: then it is not counted."""
        taken = np.zeros(self._columns.size, dtype=np.int64)
        if self._columns.miss(resource):
            for row, pod in self._columns.pods.pods.values():
                for name, amount in pod.usage if pod.node else pod.request.resources:
                    if name == resource:
                        taken[row] += amount
        picked: PerNode = taken[self._pick]
        return picked

    def _find_room(self, amounts: Amounts) -> NodeMask:
        """The same as `have_room`, resource by resource."""
        enough: NodeMask = self.free(PODS) >= 1
        for resource, need in amounts:
            if need > 0 or resource in self._columns.offered:
                enough &= self.free(resource) >= need
        return enough


def _without_last(room: Gpus, held: PerNode) -> Gpus:
    """Some idle GPUs are taken by pods that we do not know the GPUs of: say, the last ones."""
    idle = room == WHOLE
    from_the_end = np.cumsum(idle[:, ::-1], axis=1)[:, ::-1]
    return np.where(idle & (from_the_end <= held[:, None]), 0, room)
