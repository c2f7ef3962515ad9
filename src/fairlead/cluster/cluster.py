"""What is where: every node, every pod that takes something, and pods on their way."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf

import numpy as np

from fairlead.cluster import claim_gpus, claiming, crowded, reserving
from fairlead.cluster.arrays import NodeMask, Rows
from fairlead.cluster.aspects import EVERYTHING, NOTHING, Aspect
from fairlead.cluster.changes import ANYWHERE, ChangeLog
from fairlead.cluster.charges import Charges
from fairlead.cluster.claim_blocks import ClaimBlocks
from fairlead.cluster.claim_gpus import ClaimGpus
from fairlead.cluster.columns import Columns
from fairlead.cluster.counted_books import CountedBooks
from fairlead.cluster.default_selectors import DefaultSelectors
from fairlead.cluster.device_claims import ClaimWrite
from fairlead.cluster.draft import Draft
from fairlead.cluster.eviction_rule import EvictionRule
from fairlead.cluster.extended_claims import UnknownNodes, as_bound, gets_devices, without_gpus
from fairlead.cluster.extended_rows import ExtendedMembers, ExtendedRows
from fairlead.cluster.gang_units import GangUnits
from fairlead.cluster.gpu_services import GpuServices
from fairlead.cluster.holdings import Holding, granted, holds_the_same
from fairlead.cluster.improvements import Improvements
from fairlead.cluster.load import Place, slot_of
from fairlead.cluster.map_indices import MapIndices
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.nominations import Nominations
from fairlead.cluster.planned_places import NO_PLACES
from fairlead.cluster.price_tables import PriceTables
from fairlead.cluster.priority_sums import AmountsByRow, PrioritySums, Share, sum_by_row
from fairlead.cluster.releasing import Releasing
from fairlead.cluster.storage import SeenBefore
from fairlead.cluster.tenants import OnChange, TenantOf, Tenants
from fairlead.cluster.topology_levels import TopologyLevels
from fairlead.cluster.trial import Trial
from fairlead.cluster.work import Work
from fairlead.model.behaviour import Behaviour
from fairlead.model.budgets import Budget
from fairlead.model.ending import ending_sign
from fairlead.model.gpus import Grant, Inventory
from fairlead.model.holders import Holder, pod_holder
from fairlead.model.node_figures import SeenFigures
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import HostPort, Pod, PodField, PodRequest
from fairlead.model.prices import Prices
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.model.service_classes import GpuTerms
from fairlead.model.storage import StorageObject, VolumePlan
from fairlead.model.volumes import PodVolumes

# Plain numbers: flags are slow, and this is asked for every placement.
_IMAGES, _PREFERRED_AFFINITY = int(PodField.IMAGES), int(PodField.PREFERRED_AFFINITY)
_DEFAULT_SELECTOR, _LOAD = int(PodField.DEFAULT_SELECTOR), int(PodField.LOAD)


class Cluster:
    """The one truth about occupancy. All changes go through here and are logged by row."""

    def __init__(self) -> None:
        self.default_selectors = DefaultSelectors()
        self.row_of: dict[str, int] = {}
        self.columns = Columns(self.row_of)
        self.storage = self.columns.storage
        self.claims = self.columns.claims
        self.claims.blocks = ClaimBlocks(self)
        #: GPUs that resource claims hold.
        self.claim_gpus = ClaimGpus()
        self.reservations = self.columns.reservations
        self.changes = self.claims.changes = ChangeLog()
        self.improved = Improvements()
        self.holdings: dict[str, Holding] = {}
        self.nominations = Nominations(self.columns, self.row_of, self.improved)
        self.budgets: dict[str, Budget] = {}
        self.map_indices = MapIndices()
        #: Zones, racks and other domains of nodes; computed when a rule of a gang asks.
        self.topology = TopologyLevels(self.columns, self.changes, self.improved)
        #: GPUs that no pod holds and that may not be assigned yet.
        self.releasing = Releasing()
        #: What holdings and requests count for, for a tenant.
        self.charges = Charges(self)
        #: What each tenant holds; None while it is not counted.
        self.tenants: Tenants | None = None
        #: Counted resources; None while there are none.
        self.counted: CountedBooks | None = None
        self.priority_sums = PrioritySums(self.columns, below=True)
        self._on_node: dict[str, set[str]] = {}
        self._on_unknown_nodes = UnknownNodes()
        #: Nodes that have too many pods to be used, and no row.
        self.crowded: dict[str, Node] = {}
        self._free_rows: list[int] = []
        self._distrusted: dict[str, str] = {}  # cause → node
        self._causes: Counter[str] = Counter()  # by node
        #: Is a trial under way?
        self.in_trial = False
        #: Rows that pods may be placed on just now; None: all.
        self.open_rows: NodeMask | None = None
        #: Where pods are placed that were planned, if that is what is tried.
        self.planned_places = NO_PLACES
        #: What HTTP extenders say of the nodes for the pod that is being placed.
        self.extended: ExtendedRows | None = None
        self.extended_members: ExtendedMembers | None = None
        #: Gangs whose members are evicted together.
        self.gangs = GangUnits()

    @property
    def behaviour(self) -> Behaviour:
        """What its own kube-scheduler would do; set before the first node and pod."""
        return self.columns.behaviour

    @behaviour.setter
    def behaviour(self, behaviour: Behaviour) -> None:
        self.columns.behaviour = behaviour
        self.claims.inventory.behaviour = behaviour

    @property
    def eviction_rule(self) -> EvictionRule:
        """Which pods may be evicted for another; set before the first pod."""
        return self.nominations.eviction_rule

    @eviction_rule.setter
    def eviction_rule(self, rule: EvictionRule) -> None:
        self.nominations.eviction_rule = rule

    @property
    def work(self) -> Work:
        """How much was looked at so far."""
        return self.columns.work

    def __len__(self) -> int:
        """Nodes there are now."""
        return len(self.row_of)

    @property
    def nodes(self) -> Nodes:
        return Nodes(self.columns)

    def node_named(self, name: str) -> Node | None:
        row = self.row_of.get(name)
        return None if row is None else self.node_at(row)

    def node_at(self, row: int) -> Node:
        node = self.columns.nodes[row]
        assert node is not None, f"row {row} holds no node"
        return node

    def request_of(
        self, pod: Pod, pod_keys: tuple[str, ...] = (), pod_fields: int = 0
    ) -> PodRequest:
        """What rules see of the pod; pods with equal requests get equal answers."""
        pods, tenancy = self.columns.pods, self.columns.devices.tenancy
        if tenancy is not None and tenancy.concerns(pod.request):
            pod = replace(pod, request=tenancy.request(pod.request, pod.namespace))
        services = self.columns.devices.services
        if services is not None and (request := services.request(pod)) is not pod.request:
            pod = replace(pod, request=request)
        if not pod_fields:
            return pod.request_with(pod_keys, pods.keys_of_anti_affinity)
        seen = (
            pods.keys_of_anti_affinity | pods.keys_of_affinity
            if pod_fields & _PREFERRED_AFFINITY
            else pods.keys_of_anti_affinity
        )
        spreads = pod.request.spread or pod.request.soft_spread
        default_selector = (
            self.default_selectors.of(pod)
            if pod_fields & _DEFAULT_SELECTOR and not spreads
            else None
        )
        images, load = bool(pod_fields & _IMAGES), bool(pod_fields & _LOAD)
        return pod.request_with(
            pod_keys, seen, images=images, default_selector=default_selector, load=load
        )

    def pods_on(self, node: str) -> list[Pod]:
        return [held.pod for held in self.held_on(node)]

    def held_on(self, node: str) -> list[Holding]:
        return [self.holdings[uid] for uid in self._on_node.get(node, ())]

    def gpu_models(self) -> dict[str, int]:
        """How many GPUs there are of each model; "" where GPUs are only counted."""
        devices, nodes = self.columns.devices, self.nodes
        size = slice(0, self.columns.size)
        there = devices.there[size] & devices.known[size, None]
        found = {
            model: int((there & (devices.model[size] == code)).sum())
            for model, code in devices.codes.items()
        }
        counted = int(nodes.allocatable(GPU)[~devices.known[size]].sum())
        found[""] = found.get("", 0) + counted
        return {model: count for model, count in found.items() if count}

    def gpu_mib(self) -> int:
        """The mean memory of a GPU; 0 if it is not known."""
        devices = self.columns.devices
        memory = devices.memory[devices.there]
        return int(memory.mean()) if memory.size else 0

    def put_prices(self, prices: Prices) -> None:
        """What gaps are worth from now on."""
        self.columns.prices = PriceTables(prices, self.columns.devices.models)
        self.changes.add(ANYWHERE, Aspect.PRICES)

    def put_figures(self, seen: SeenFigures) -> None:
        """What nodes cost, draw or emit from now on."""
        self.columns.figures.put(seen, self.columns.nodes)
        self.changes.add(ANYWHERE, Aspect.FIGURES)
        self.improved.add(Aspect.FIGURES)

    def put_readings(self, readings: Collection[NodeReadings], now_s: float) -> None:
        """What GPUs are doing; unknown nodes and GPUs are ignored.

        Without readings, those of all nodes fade; with some, only their nodes are looked at.
        """
        devices, load = self.columns.devices, self.columns.load
        found: dict[Place, tuple[GpuReading, float]] = {}
        for observed in sorted(readings, key=lambda observed: observed.taken_s):
            row = self.row_of.get(observed.node)
            if row is None:
                continue
            known = devices.slots_of(row)
            for gpu, reading in observed.gpus.items():
                slot = slot_of(gpu, reading.place, known, devices.slots)
                if slot is not None:
                    found[row, slot] = reading, observed.taken_s
        load.put(found)
        touched = sorted({row for row, _ in found})
        rows = np.array(touched, dtype=np.intp) if readings else load.measured_rows()
        changed = load.renew(now_s, rows)
        for row in changed:
            self.changes.add(row, Aspect.LOAD)
            self.improved.add(Aspect.LOAD)
        for row in devices.follow_readings(rows):
            self.changes.add(row, Aspect.DEVICES)
            self.improved.add(Aspect.DEVICES)

    # -- what if -----------------------------------------------------------------------------

    def evictable(self, preemptor: Pod) -> AmountsByRow:
        """What pods hold that may be evicted for this one, by resource and row."""
        limit = self.eviction_rule.priority_limit(preemptor)
        if limit is not None:
            return self.priority_sums.of(limit, self._shares)
        self.work.pods += len(self.holdings)
        may_evict, vector = self.eviction_rule.may_evict, self.columns.vector
        evictable = (h for h in self.holdings.values() if may_evict(preemptor, h.pod))
        rows = ((self.row_of.get(held.node), held) for held in evictable)
        return sum_by_row(
            self.columns, [(row, vector(held.amounts)) for row, held in rows if row is not None]
        )

    def priorities_below(self, limit: int) -> Sequence[int]:
        """The priorities of pods that hold anything, in order; after `evictable` was asked."""
        return self.priority_sums.priorities_below(limit)

    def evictable_on(self, preemptor: Pod, node: str) -> list[Holding]:
        """What pods hold on this node that may be evicted."""
        may_evict = self.eviction_rule.may_evict
        return [held for held in self.held_on(node) if may_evict(preemptor, held.pod)]

    def draft(self, row: int) -> Draft:
        """Changes to the pods of one node that are undone at the end of the `with`."""
        return Draft(self, row)

    def trial(self) -> Trial:
        """Changes to the pods of many nodes that are undone unless they are committed."""
        return Trial(self)

    @contextmanager
    def limited_to(self, rows: NodeMask | None) -> Iterator[None]:
        """Pods are placed on these rows only, and on those that came since; None: on all."""
        if rows is not None and len(rows) < self.columns.size:
            more = self.columns.size - len(rows)
            rows = np.concatenate([rows, np.ones(more, dtype=np.bool_)])
        kept, self.open_rows = self.open_rows, rows
        try:
            yield
        finally:
            self.open_rows = kept

    @contextmanager
    def taking(self, requested: AmountsByRow) -> Iterator[None]:
        """As if this much were taken, on all rows."""
        kept, self.columns.requested = self.columns.requested, requested
        try:
            yield
        finally:
            self.columns.requested = kept

    @contextmanager
    def taking_more(self, rows: Rows, amounts: AmountsByRow) -> Iterator[None]:
        """As if this much more were taken on these rows; `amounts` has a column for each."""
        requested = self.columns.requested
        kept = requested[:, rows]
        requested[:, rows] = kept + amounts
        try:
            yield
        finally:
            requested[:, rows] = kept

    def charge(self, row: int, held: Holding, sign: int) -> None:
        """Puts the pod on the row or takes it away, without logging it."""
        columns = self.columns
        vector = columns.vector(held.amounts)
        if sign > 0:
            columns.requested[:, row] += vector
            columns.pods.put(row, held.pod)
        else:
            columns.requested[:, row] -= vector
            columns.pods.take(held.pod.uid)
        columns.scored[0, row] += sign * held.scored[0]
        columns.scored[1, row] += sign * held.scored[1]
        if held.ports or held.pod.request.volumes is not None:
            self.use_of_node(row, held, sign)
        if held.grant or held.shared:
            self._occupy_devices(row, held, sign)

    def use_of_node(self, row: int, held: Holding, sign: int) -> None:
        """Its ports and its volumes alone, without logging it."""
        if held.ports:
            self._occupy_ports(row, held.ports, sign)
        if held.pod.request.volumes is not None:
            self._occupy_volumes(held, held.pod.request.volumes, sign)

    def _shares(self) -> Iterator[Share]:
        for held in self.holdings.values():
            row = self.row_of.get(held.node)
            if row is not None:
                yield row, held.pod.priority, self.columns.vector(held.amounts)

    # -- nodes -------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        """Adds or updates a node."""
        row = self.row_of.get(node.name)
        if row is None:
            if self._is_crowded(node):
                return
            self._add_node(node)
            self.improved.add(EVERYTHING)
            return
        aspects = _difference(self.node_at(row), node)
        if not aspects:
            self.columns.nodes[row] = node
            return
        self.columns.put_node(row, node)
        if self.columns.figures:
            aspects |= Aspect.FIGURES
        if node.name in self.claim_gpus.charged or self.claim_gpus.on(node.name):
            claim_gpus.charge(self, node.name)
        if aspects & Aspect.DEVICES:
            self._count_tenants_on(node.name)
        if self.counted is not None and aspects & (Aspect.DEVICES | Aspect.LABELS):
            self.counted.node_changed(node.name)
        self.changes.add(row, aspects)
        self.improved.add(aspects)
        if aspects & Aspect.LABELS:
            self.storage.outlook = None
            self.topology.see(node)

    def put_inventory(self, node: str, source: str, inventory: Inventory | None) -> None:
        """What a source other than the Node object lists of the node's GPUs; None: nothing.

        The source may come before the node, and stay after it.
        """
        self.columns.inventories.put(node, source, inventory)
        self.renew_gpus(node)

    def inventory_of(self, node: str) -> Inventory | None:
        """The node's GPUs as all sources list them."""
        return self.columns.devices.inventories.get(self.row_of.get(node, -1))

    def ask_for(self, resources: Collection[str]) -> None:
        """A pod that is about to be tried asks for these: they have columns while it is.

        Not within a draft: what pods take is counted as they are. No answer changes by it.
        """
        columns = self.columns
        new = columns.ask_for((*resources, *columns.missed))
        if not new:
            return
        index = columns.resource_index
        for held in self.holdings.values():
            row = self.row_of.get(held.node)
            for name, amount in held.amounts if row is not None else ():
                if name in new:
                    columns.requested[index[name], row] += amount
        self._forget_sums()

    def _forget_sums(self) -> None:
        """There are other columns than the sums were made for."""
        self.priority_sums.forget()
        self.nominations.forget_sums()

    def remove_node(self, name: str) -> None:
        """The node is gone: pods are spread over the others now."""
        self.crowded.pop(name, None)
        row = self.row_of.pop(name, None)
        if row is None:
            return
        self.columns.clear_row(row)
        self.claim_gpus.charged.pop(name, None)
        self.priority_sums.clear_row(row)
        self.nominations.node_went(row)
        pods = self._on_node.get(name, ())
        self.work.pods += 2 * len(pods)
        for uid in pods:
            self.columns.pods.take(uid)
            self.storage.leave(uid)
        self.storage.node_changed(name)
        if self.counted is not None:
            self.counted.node_gone(name, row)
        self.topology.forget(name)
        self._free_rows.append(row)
        self.changes.add(row, EVERYTHING)
        self.improved.add(Aspect.PRESENCE)

    def distrust(self, name: str, cause: str) -> None:
        """Nothing new goes to this node while the cause stands."""
        if self._distrusted.get(cause) != name:
            self.trust(cause)
            self._distrusted[cause] = name
            self._causes[name] += 1
            self._mark_trust(name)

    def trust(self, cause: str) -> None:
        """The cause is gone."""
        name = self._distrusted.pop(cause, None)
        if name is not None:
            self._causes[name] -= 1
            if not self._causes[name]:
                del self._causes[name]
            self._mark_trust(name)
            self.improved.add(Aspect.TRUST if name in self.row_of else NOTHING)

    def _is_crowded(self, node: Node) -> bool:
        """Whether the node, which has no row, gets none yet: its pods cannot be counted in a turn.

        It has no room for others, or next to none, so little is lost.
        """
        count = len(self._on_node.get(node.name, ()))
        weight = crowded.POD_WEIGHT * count
        if count and weight <= crowded.MOST_WEIGHT:
            weight = crowded.weight_of_all(self.held_on(node.name))
        if weight > crowded.MOST_WEIGHT:
            self.crowded[node.name] = node
            return True
        self.work.pods += weight
        self.crowded.pop(node.name, None)
        return False

    def _add_node(self, node: Node) -> None:
        if self._free_rows:
            row = self._free_rows.pop()
            self.changes.add(row, EVERYTHING)
        else:
            row = self.columns.new_row()
            self.changes.start_over()  # shared answers have no room for the new row
        self.row_of[node.name] = row
        self.columns.put_node(row, node)
        self.columns.distrusted[row] = node.name in self._causes
        self.storage.node_changed(node.name)
        self.topology.see(node)
        for uid in self._on_node.get(node.name, ()):
            self._occupy(row, self.holdings[uid], +1)
        devices = self.columns.devices
        for kept in self.releasing.on(node.name):
            devices.occupy(row, kept.holder, kept.grant, kept.pod)
        claim_gpus.charge(self, node.name)
        self._count_tenants_on(node.name)
        if self.counted is not None:
            self.counted.node_changed(node.name)
        self.nominations.node_came(node.name)
        for pod in self._on_unknown_nodes.served_by_plugin(node):
            self.holdings[pod.uid].by_claim = False
            self.confirm(pod)

    def _mark_trust(self, name: str) -> None:
        row = self.row_of.get(name)
        if row is not None:
            self.columns.distrusted[row] = name in self._causes
            self.changes.add(row, Aspect.TRUST)

    # -- pods --------------------------------------------------------------------------------

    def assume(self, pod: Pod, node: str, grant: Grant | None = None) -> None:
        """The pod is on its way to the node: what it needs is taken from now on."""
        self._hold(self.holding(pod, node, grant))

    def holding(self, pod: Pod, node: str, grant: Grant | None) -> Holding:
        """What a pod that holds nothing yet would hold on its way to the node."""
        assert pod.uid not in self.holdings, f"{pod.key} already holds something"
        held = Holding.of(pod, node, assumed=True, grant=grant)
        if pod.request.claims and gets_devices(pod.request.claims, self.node_named(node)):
            return without_gpus(held)
        return held

    def confirm(self, pod: Pod) -> None:
        """The API server shows the pod on its node."""
        held, seen = self.holdings.get(pod.uid), pod
        if held is not None and not held.assumed and held.pod.counted != pod.counted:
            pod = replace(pod, counted=held.pod.counted)  # as it was bound, whatever it says later
        if pod.gpus_by_claim or (held is not None and held.by_claim):
            pod = as_bound(pod, held, self.node_named(pod.node))
        grant = granted(pod, held)
        if held is not None and holds_the_same(held, pod, grant):
            self._relabel(held, pod)
            if pod.request.claims != held.pod.request.claims:
                self.claims.holders.came(pod)
            held.pod, held.assumed, held.grant = pod, False, grant
            return
        self._free(pod.uid)
        now = Holding.of(pod, pod.node, assumed=False)
        now.grant, now.by_claim = grant, pod.gpus_by_claim
        if held is not None:
            now.tenant = held.tenant
            now.shared = held.shared if held.node == pod.node else ()
        self._hold(now)
        if now.by_claim and pod.node not in self.row_of:
            self._on_unknown_nodes.put(seen)

    def share(self, uid: str, holder: Holder, grant: Grant) -> None:
        """The pod has these GPUs, too, together with all pods there that refer to the holder.

        What the holder has there already, it keeps.
        """
        held = self.holdings[uid]
        if holder in dict(held.shared):
            return
        others = dict(pair for other in self.held_on(held.node) for pair in other.shared)
        grant = others.get(holder, grant)
        held.shared = (*held.shared, (holder, grant))
        row = self.row_of.get(held.node)
        if row is not None:
            self.columns.devices.occupy(row, holder, grant, held.pod)
            self.changes.add(row, Aspect.DEVICES)

    def lost_gpu(self, held: Holding) -> str:
        """The first GPU that was granted and is not there any more, as a sentence; empty if none.

        A map may name GPUs of a node that does not list them.
        """
        row, devices, grant = self.row_of.get(held.node), self.columns.devices, held.grant
        slots = devices.slots_of(row) if row is not None else {}
        if grant is None or (grant.member and not slots):
            return ""
        for use in grant.uses:
            slot = slots.get(use.uuid, -1)
            if use.uuid and (row is None or slot < 0 or not devices.there.item(row, slot)):
                return f"GPU {use.uuid} was lost"
        return ""

    # -- reservations of GPUs ----------------------------------------------------------------

    def reserve(self, node: str, number: int) -> None:
        """A pod waits for the reservation: it is counted from now on, if it is not yet."""
        reserving.begin(self, node, number)

    def renew_gpus(self, node: str, *, improves: bool = True) -> None:
        """The GPUs of the node as all sources list them now."""
        row = self.row_of.get(node)
        if row is not None and self.columns.put_gpus(row, self.node_at(row)):
            claim_gpus.charge(self, node)
            self._count_tenants_on(node)
            if self.counted is not None:
                self.counted.node_changed(node)
            self.changes.add(row, Aspect.DEVICES)
            self.improved.add(Aspect.DEVICES if improves else NOTHING)

    def remove(self, uid: str) -> None:
        """Frees what the pod holds, assumed or confirmed; nothing if it holds nothing."""
        held = self._free(uid)
        if self.crowded and held is not None and held.node in self.crowded:
            self.put_node(self.crowded[held.node])

    def _free(self, uid: str) -> Holding | None:
        held = self.detach(uid)
        if held is not None:
            self.improved.add(held.touches)
            if held.by_claim:
                self._on_unknown_nodes.drop(held.pod)
        return held

    def detach(self, uid: str) -> Holding | None:
        """Takes what the pod holds off its node, and returns it. Only views see the change."""
        held = self.leave(uid)
        row = self.row_of.get(held.node) if held is not None else None
        if held is not None and row is not None:
            self._occupy(row, held, -1)
        return held

    def leave(self, uid: str) -> Holding | None:
        """The pod holds nothing any more, but for what its row has: that is for the caller."""
        held = self.holdings.pop(uid, None)
        if held is None:
            return None
        if held.grant and self.reservations:
            self.reservations.unweighed.add(held.node)
        if self.tenants is not None:
            self.tenants.take(held)
            claiming.count_for_others(self, held)
        if self.counted is not None:
            self.counted.take(uid)
        if held.grant and held.grant.member:
            self.map_indices.leave(uid, held.grant.member)
        if held.pod.request.claims:
            self.claims.holders.left(uid)
        neighbours = self._on_node[held.node]
        neighbours.discard(uid)
        if not neighbours:
            del self._on_node[held.node]
        return held

    def leave_all(self, uids: Iterable[str]) -> list[Holding]:
        """The same for many pods that hold something; none has claims or a place in a map."""
        if self.tenants is not None or self.counted is not None or self.reservations:
            return [held for uid in uids if (held := self.leave(uid)) is not None]
        found = [self.holdings.pop(uid) for uid in uids]
        for held in found:
            neighbours = self._on_node[held.node]
            neighbours.discard(held.pod.uid)
            if not neighbours:
                del self._on_node[held.node]
        return found

    def hold_back(self, held: Holding, now_s: float) -> None:
        """Keeps the GPUs of a pod that is gone, if its node has an agent that says when they are
        free; `held` is what the pod had, and has no more.
        """
        row = self.row_of.get(held.node)
        gpus = self.inventory_of(held.node)
        if held.node in self.crowded:
            self._hold_back_of_crowded(held, now_s)
        if row is None or held.grant is None or gpus is None or not gpus.confirms:
            return
        known = self.columns.devices.slots_of(row)
        if any(use.uuid in known for use in held.grant.uses):
            kept = self.releasing.put(held.pod, held.node, held.grant, now_s)
            self.columns.devices.occupy(row, kept.holder, kept.grant, held.pod)
            self.changes.add(row, Aspect.DEVICES)

    def _hold_back_of_crowded(self, held: Holding, now_s: float) -> None:
        """Its node has no row: the GPUs are occupied when it gets one."""
        gpus = self.columns.gpus_of(self.crowded[held.node])
        if held.grant is None or gpus is None or not gpus.confirms:
            return
        if {use.uuid for use in held.grant.uses} & {gpu.uuid for gpu in gpus.gpus}:
            self.releasing.put(held.pod, held.node, held.grant, now_s)

    def release(self, uid: str) -> None:
        """The GPUs that were kept of this pod are free."""
        kept = self.releasing.pop(uid)
        row = self.row_of.get(kept.node) if kept else None
        if kept is None or row is None:
            return
        self.columns.devices.release(row, kept.holder)
        self.changes.add(row, Aspect.DEVICES)
        self.improved.add(Aspect.DEVICES)

    def grants_on(self, node: str) -> dict[Holder, Grant]:
        """What each holder has of the GPUs of a node."""
        found = dict(pair for held in self.held_on(node) for pair in held.grants())
        found |= self.claim_gpus.charged.get(node, {})
        return found | {kept.holder: kept.grant for kept in self.releasing.on(node)}

    def put_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """A namespace was seen, or (None) is gone. Whether it has another tenant than before."""
        if self.columns.pods.put_namespace(name, labels):
            self.changes.start_over()
            self.improved.add(Aspect.PODS | Aspect.LABELS)
        devices = self.columns.devices
        tenancy = devices.tenancy
        if tenancy is None or not tenancy.put_namespace(name, labels):
            return False
        for row in tenancy.rows_of(name):
            devices.mark_tenants(row)
            self.changes.add(row, Aspect.DEVICES)
        self.improved.add(Aspect.DEVICES)
        return True

    def put_gpu_terms(self, terms: Mapping[str, GpuTerms], class_of: Callable[[Pod], str]) -> None:
        """Which GPUs pods of service classes get, by the name of the class; `class_of` has the
        class of a pod. It is called once.
        """
        if not terms:
            return
        devices = self.columns.devices
        services = devices.services = GpuServices(terms, class_of)
        for held in self.holdings.values():
            row = self.row_of.get(held.node)
            if row is not None:
                for holder, _ in held.grants():
                    services.came(row, holder, held.pod, -inf)
        for row in self.row_of.values():
            devices.mark_services(row)
        self.changes.start_over()

    def count_tenants(self, tenant_of: TenantOf, on_change: OnChange | None = None) -> Tenants:
        """Counts by tenant what is held, from now on."""
        charge_of = self.charges.of_counted
        self.tenants = Tenants(tenant_of, charge_of, self.holdings.values(), on_change)
        return self.tenants

    def _count_tenants_on(self, node: str) -> None:
        """The GPUs of the node are other ones than before."""
        if self.tenants is not None:
            for held in self.held_on(node):
                self.tenants.count_again(held)

    def put_budget(self, key: str, budget: Budget | None) -> None:
        """None: it is gone. If it protects less than before, pods may be evicted for others."""
        old = self.budgets.get(key)
        if budget is None:
            self.budgets.pop(key, None)
        else:
            self.budgets[key] = budget
        less = old is not None and (budget is None or budget.protects_less_than(old))
        self.improved.add(Aspect.USAGE if less else NOTHING)

    # -- storage -----------------------------------------------------------------------------

    def put_storage(self, observed: StorageObject) -> None:
        """An object that storage is made of was seen."""
        if self.storage.put(observed):
            self._storage_changed()

    def remove_storage(self, gone: StorageObject) -> None:
        if self.storage.remove(gone):
            self._storage_changed()

    def assume_volumes(self, plan: VolumePlan, node: str) -> None:
        """The plan is being carried out: no other pod may use its volumes."""
        self.storage.assume(plan, node)
        self.changes.add(ANYWHERE, Aspect.VOLUMES)

    def see_again(self, before: SeenBefore) -> None:
        """A plan was not carried out after all. Only views see the change."""
        self.storage.restore(before)
        self.changes.add(ANYWHERE, Aspect.VOLUMES)

    def settle_volumes(self, plan: VolumePlan) -> None:
        """The plan is done, or has failed: its volumes are what the API server says of them."""
        self.storage.settle(plan)
        self._storage_changed()

    def assume_claims(self, writes: tuple[ClaimWrite, ...]) -> None:
        """Resource claims are being allocated: no other claim may get their devices."""
        claiming.assume(self, writes)

    def _storage_changed(self) -> None:
        self.changes.add(ANYWHERE, Aspect.VOLUMES)
        self.improved.add(Aspect.VOLUMES)

    # -- what holdings take ------------------------------------------------------------------

    def _relabel(self, held: Holding, pod: Pod) -> None:
        """The pod is where it was, but others may see it differently now."""
        row = self.row_of.get(held.node)
        same = held.pod.labels == pod.labels and held.pod.deleting == pod.deleting
        if same or row is None:
            return
        self.columns.pods.put(row, pod)
        if self.columns.pods.asked:
            self.changes.add(row, Aspect.PODS)
            self.improved.add(Aspect.PODS)

    def _hold(self, held: Holding) -> None:
        if self.releasing:
            self.release(held.pod.uid)  # it was not gone after all
        self.attach(held)
        self.improved.add(Aspect.PODS)  # waiting pods may have affinity to it

    def attach(self, held: Holding) -> None:
        """Puts what a pod holds on its node. Only views see the change."""
        self.enter(held)
        row = self.row_of.get(held.node)
        if row is not None:
            self._occupy(row, held, +1)

    def enter(self, held: Holding) -> None:
        """The pod holds this, but for what its row has: that is for the caller."""
        self.holdings[held.pod.uid] = held
        if held.grant and self.reservations:
            self.reservations.unweighed.add(held.node)
        if self.tenants is not None:
            self.tenants.put(held)
        if self.counted is not None:
            self.counted.put(held)
        if held.grant and held.grant.member:
            self.map_indices.take(held.pod.uid, held.grant.member)
        if held.pod.request.claims:
            self.claims.holders.came(held.pod)
        self._on_node.setdefault(held.node, set()).add(held.pod.uid)

    def enter_all(self, found: Iterable[Holding]) -> None:
        """The same for many pods; none has claims or a place in a map."""
        if self.tenants is not None or self.counted is not None or self.reservations:
            for held in found:
                self.enter(held)
            return
        for held in found:
            uid = held.pod.uid
            self.holdings[uid] = held
            self._on_node.setdefault(held.node, set()).add(uid)

    def _occupy(self, row: int, held: Holding, sign: int) -> None:
        self.charge(row, held, sign)
        if self.priority_sums:
            vector = self.columns.vector(held.amounts)
            self.priority_sums.follow(row, held.pod.priority, vector, sign)
        self.changes.add(row, held.touches)

    def _occupy_devices(self, row: int, held: Holding, sign: int) -> None:
        devices, own = self.columns.devices, pod_holder(held.pod.uid)
        if sign > 0:
            if held.grant:
                devices.occupy(row, own, held.grant, held.pod)
            for holder, grant in held.shared:
                devices.occupy(row, holder, grant, held.pod)
        else:
            if held.grant:
                devices.release(row, own)
            for holder, _ in held.shared:
                devices.release(row, holder)

    def _occupy_ports(self, row: int, ports: tuple[HostPort, ...], sign: int) -> None:
        for port in ports:
            held = self.columns.ports.setdefault((port.protocol, port.port), {})
            if sign > 0:
                held.setdefault(row, []).append(port)
            else:
                held[row].remove(port)
                if not held[row]:
                    self.columns.free_ports((port.protocol, port.port), row)

    def _occupy_volumes(self, held: Holding, volumes: PodVolumes, sign: int) -> None:
        if sign > 0:
            self.storage.use(held.pod.uid, held.node, volumes)
        else:
            self.storage.leave(held.pod.uid)


#: What may say that a node ends, besides taints.
_ENDING = Aspect.LABELS | Aspect.ANNOTATIONS


def _ends(node: Node) -> bool:
    return bool(ending_sign(node.taints, node.labels, node.annotations))


def _difference(old: Node, new: Node) -> Aspect:
    changed = NOTHING
    if old.allocatable != new.allocatable:
        changed |= Aspect.ALLOCATABLE
    if old.labels != new.labels:
        changed |= Aspect.LABELS
    if old.annotations != new.annotations:
        changed |= Aspect.ANNOTATIONS
    if old.inventory != new.inventory or old.reservable != new.reservable:
        changed |= Aspect.DEVICES
    if old.taints != new.taints or old.unschedulable != new.unschedulable:
        changed |= Aspect.TAINTS
    if changed & _ENDING and _ends(old) != _ends(new):
        changed |= Aspect.TAINTS
    if old.images != new.images:
        changed |= Aspect.IMAGES
    if old.features != new.features:
        changed |= Aspect.FEATURES
    return changed
