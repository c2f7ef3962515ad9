"""Resource claims, the devices that drivers publish, and allocations on their way.

A device is held by a claim, whatever pods use the claim: from the decision until the API server
shows the claim without an allocation, or shows that the claim is gone. What was decided and is not
shown yet is *in flight*. Objects come from watches and from replies to writes, so an older version
of a claim is passed over.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeVar, assert_never

from fairlead.claims.errors import InvalidPools
from fairlead.claims.extended import RequestMapping
from fairlead.claims.inventory import DeviceInventory
from fairlead.claims.pools import PoolKey
from fairlead.claims.turn_limit import DEVICES_OF_STEP
from fairlead.claims.usage import DeviceUsage
from fairlead.cluster.changes import ChangeLog
from fairlead.cluster.claim_answers import KeptAnswers
from fairlead.cluster.claim_groups import ClaimGroups
from fairlead.cluster.claim_holders import ClaimHolders
from fairlead.cluster.compute_domains import ComputeDomains
from fairlead.cluster.device_taints import MOST_TAINTS, tainted, taints_part
from fairlead.cluster.extended_classes import ExtendedClasses, in_flight_uid
from fairlead.cluster.grouped import Grouped
from fairlead.cluster.kept_devices import KEPT, KeptDevices, holder_of
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import (
    AllocatedDevice,
    Allocation,
    ClaimObject,
    ClaimUser,
    DeviceId,
    ResourceClaim,
)
from fairlead.model.compute_domains import ComputeDomain
from fairlead.model.devices import DeviceClass, DeviceTaintRule, ResourceSlice
from fairlead.model.extended import ExtendedUse
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod

if TYPE_CHECKING:
    from fairlead.claims.allocator import Allocator
    from fairlead.cluster.claim_blocks import ClaimBlocks
    from fairlead.cluster.device_totals import DeviceTotals

T = TypeVar("T")

#: What asking a node costs besides, in steps.
STEPS_OF_ASK = 5
#: How often devices of one GPU are chosen twice for a pod before it is refused.
_MOST_CLASHES = 8


@dataclass(frozen=True, slots=True)
class SettledUse(ClaimUse):
    """A use of a claim as it is now. Without a key: one for all pods that ask for the same."""

    claim: ResourceClaim = field(default_factory=lambda: ResourceClaim("", ""))
    #: It was decided what the claim gets, and that is not shown yet.
    in_flight: bool = False


@dataclass(frozen=True, slots=True)
class ClaimWrite:
    """What is written for a claim before a pod that uses it is bound."""

    #: As it was decided on.
    claim: ResourceClaim
    #: None: it is allocated already, and is only reserved for the pod.
    allocation: Allocation | None = None
    #: Of a claim that is to be made for extended resources of the pod.
    mappings: tuple[RequestMapping, ...] = ()
    #: What it is reserved for: the PodGroup of the pod. None: the pod.
    user: ClaimUser | None = None


@dataclass(slots=True)
class InFlightAllocation:
    """An allocation that was decided, and how many pods wait until it is written."""

    claim: ResourceClaim
    allocation: Allocation
    pods: int = 0
    #: It was decided in the trial under way: other members of the gang rely on it.
    in_trial: bool = False


@dataclass(frozen=True, slots=True)
class ClaimChange:
    """What a change of an object changes for rules."""

    #: Anything at all.
    seen: bool
    #: Devices that a claim held, and devices that it holds now.
    freed: tuple[AllocatedDevice, ...] = ()
    taken: tuple[AllocatedDevice, ...] = ()


NO_CHANGE = ClaimChange(seen=False)


class DeviceClaims:
    """What rules may ask about claims. `Cluster` puts objects, and allocations in flight."""

    def __init__(self) -> None:
        self.claims: dict[str, ResourceClaim] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.extended = ExtendedClasses(self.classes)
        #: PodGroups with claims for all of their pods.
        self.groups = ClaimGroups()
        #: Which claims for channels belong together.
        self.domains = ComputeDomains()
        #: What drivers publish, with the taints of rules.
        self.inventory = DeviceInventory()
        #: What claims hold of it.
        self.usage = DeviceUsage()
        self._allocator: Allocator | None = None
        #: How often nodes were asked for devices.
        self._asks = 0
        #: Until where `work` has been counted, while it is (`device_work.py`).
        self.counted_until: int | None = None
        #: Devices of GPUs that are in use otherwise; set by the cluster.
        self.blocks: ClaimBlocks
        #: What changes in the cluster; set by the cluster.
        self.changes: ChangeLog
        #: On which nodes the claims of pods can be used.
        self.answers = KeptAnswers()
        self._totals: DeviceTotals | None = None
        self._slices: dict[str, ResourceSlice] = {}
        #: Nodes that slices with devices of a pool are for; "": of no single node.
        self._nodes_of: dict[PoolKey, Counter[str]] = {}
        self._counter_slices: Counter[PoolKey] = Counter()
        self._on_node: Grouped[str, ResourceSlice] = Grouped()
        self._taint_rules: dict[str, DeviceTaintRule] = {}
        #: Slices whose devices rules taint otherwise than they were published, in order.
        self._to_taint: dict[str, None] = {}
        #: Devices that each claim holds, by uid.
        self.held: dict[str, tuple[AllocatedDevice, ...]] = {}
        #: The same by pool, and pods by claim.
        self.holders = ClaimHolders()
        #: Keys of claims that are there, by uid.
        self._keys: dict[str, str] = {}
        #: Devices that claims get if they can; none: the first ones.
        self.wanted: frozenset[DeviceId] = frozenset()
        #: Of these, what the API server shows.
        self._observed: dict[str, tuple[AllocatedDevice, ...]] = {}
        #: Uids of claims that hold nothing in the trial under way.
        self._hidden: set[str] = set()
        #: What is held for units that others were evicted for.
        self.kept = KeptDevices()
        self._in_flight: dict[str, InFlightAllocation] = {}
        #: Uids of claims that were made for extended resources, by what stood for them before.
        self._made: dict[str, str] = {}
        #: Claims as pods that ask for the same see them, by uid; only of those not allocated.
        self._alike: dict[str, SettledUse] = {}

    # -- asking ------------------------------------------------------------------------------

    @property
    def are_used(self) -> bool:
        """Whether a pod may have a claim: one that is there, or one that is made for a class."""
        return bool(self.claims or self.classes)

    def claim_of(self, use: ClaimUse) -> ResourceClaim | None:
        return use.claim if isinstance(use, SettledUse) else self.claims.get(use.key)

    def with_uid(self, uid: str) -> ResourceClaim | None:
        """The claim, if the API server shows it."""
        return self.claims.get(self._keys.get(uid, ""))

    def problem_with(self, use: ClaimUse) -> str:
        """Why no pod can use the claim at the moment, in kube-scheduler's words."""
        if isinstance(use, ExtendedUse):
            return ""
        claim = self.claim_of(use)
        if claim is None and not use.key:
            return f'pod "{use.pod}": ResourceClaim not created yet'
        if claim is None:
            return f'could not find ResourceClaim "{use.key}"'
        if use.owner and claim.owner != use.owner and not self.groups.owns(use, claim):
            return f"ResourceClaim {claim.key} was not created for Pod {use.pod} ({_owners(use)})"
        if claim.deleting:
            return f'resourceclaim "{claim.name}" is being deleted'
        return claim.problem

    def pending(self, claim: ResourceClaim) -> InFlightAllocation | None:
        """What was decided for the claim and is not shown yet."""
        return self._in_flight.get(claim.uid) if claim.allocation is None else None

    def allocation_of(self, claim: ResourceClaim) -> Allocation | None:
        """What a pod that uses the claim relies on; None: it is to be allocated."""
        pending = self.pending(claim)
        return pending.allocation if pending and pending.in_trial else claim.allocation

    def settled(self, uses: tuple[ClaimUse, ...]) -> tuple[ClaimUse, ...]:
        """The uses with their claims as they are now: pods with equal ones get equal answers.

        Claims that hold nothing yet are told apart only by what they ask for.
        """
        distinct = len({use.key for use in uses}) == len(uses)
        return tuple(self._settled(use, distinct) for use in uses)

    def _settled(self, use: ClaimUse, distinct: bool) -> ClaimUse:
        if isinstance(use, ExtendedUse):
            return self.extended.settled(use)
        claim = self.claims.get(use.key)
        if claim is None:
            return use
        pending = self.pending(claim)
        if claim.allocation or pending or not distinct or self.problem_with(use):
            told = pending is not None and not pending.in_trial
            named = (use.entry, use.key, use.pod, use.owner, use.template, use.group)
            return SettledUse(*named, claim, told)
        found = self._alike.get(claim.uid)
        if found is None:
            alike = ResourceClaim("", "", requests=claim.requests, constraints=claim.constraints)
            found = self._alike[claim.uid] = SettledUse("", "", claim=alike)
        return found

    @property
    def allocator(self) -> "Allocator":
        """One for all claims: it remembers what it was asked."""
        if self._allocator is None:
            from fairlead.claims.allocator import Allocator  # not at the start of the program

            self._allocator = Allocator(self.inventory, self.classes, self.usage)
        return self._allocator

    @property
    def work(self) -> int:
        """What searches for devices took until now, and what they looked at, in steps."""
        if self._allocator is None:
            return 0
        looked = self.inventory.looked + self.blocks.work
        return self._allocator.work + STEPS_OF_ASK * self._asks + looked // DEVICES_OF_STEP

    @property
    def totals(self) -> "DeviceTotals":
        """How many devices nodes have, of classes that scores ask for."""
        if self._totals is None:
            from fairlead.cluster.device_totals import DeviceTotals

            self._totals = DeviceTotals(self)
        return self._totals

    def allocate(
        self,
        node: Node,
        claims: Sequence[ResourceClaim],
        but_not: frozenset[DeviceId] = frozenset(),
    ) -> tuple[Allocation, ...] | None:
        """What each claim would get on the node; None: not all of them can be allocated there.

        `but_not`: devices that are left out. Raises AllocationError, and InvalidPools.
        """
        self.settle_taints()
        self._asks += 1
        if self.wanted and (found := self._wanted(node, claims, but_not)):
            return found
        return self._allocated_but(node, claims, but_not)

    def _wanted(
        self, node: Node, claims: Sequence[ResourceClaim], but_not: frozenset[DeviceId]
    ) -> tuple[Allocation, ...] | None:
        """What each claim would get of the devices that are wanted."""
        there = (each.key for each in self.inventory.on(node.name, node.labels).candidates)
        others = frozenset(key for key in there if key not in self.wanted)
        try:
            return self._allocated_but(node, claims, but_not | others)
        except InvalidPools:
            return None

    def _allocated_but(
        self, node: Node, claims: Sequence[ResourceClaim], but_not: frozenset[DeviceId]
    ) -> tuple[Allocation, ...] | None:
        blocked = self.blocks.on(node.name) | but_not
        for _ in range(_MOST_CLASHES):
            found = self.allocator.allocate(node.name, node.labels, claims, blocked)
            clash = self.blocks.clash(node.name, found) if found else None
            if clash is None:
                return found
            blocked |= {clash}
        return None

    # -- what the API server shows -----------------------------------------------------------

    def put(self, seen: ClaimObject) -> ClaimChange:
        """Takes in an object."""
        match seen:
            case ResourceClaim():
                return self._put_claim(seen)
            case ResourceSlice():
                self._file(self._slices.get(seen.name), -1)
                self._file(seen, +1)
                changed = _put(self._slices, seen.name, seen)
                if changed:
                    self._publish(seen)
                return ClaimChange(seen=changed)
            case DeviceClass():
                self.extended.put(self.classes.get(seen.name), seen)
                return ClaimChange(seen=_put(self.classes, seen.name, seen))
            case DeviceTaintRule():
                before = self._taint_rules.get(seen.name)
                changed = _put(self._taint_rules, seen.name, seen)
                if changed:
                    self._taint_again(before, seen)
                return ClaimChange(seen=changed)
            case ComputeDomain():  # what it says changes no answer about a node
                self.domains.put(seen)
                return NO_CHANGE
            case _:
                assert_never(seen)

    def remove(self, gone: ClaimObject) -> ClaimChange:
        """Forgets an object."""
        match gone:
            case ResourceClaim():
                claim = self.claims.get(gone.key)
                if claim is None or claim.uid != gone.uid:
                    return NO_CHANGE
                del self.claims[gone.key]
                self._name(claim, None)
                self.extended.put_claim(claim, None)
                return self._observe(gone.uid, None)
            case ResourceSlice():
                part = self._slices.pop(gone.name, None)
                self._file(part, -1)
                self.inventory.remove(gone.name)
                if self._totals is not None:
                    self._totals.forget(gone.name)
                return ClaimChange(seen=part is not None)
            case DeviceClass():
                known_class = self.classes.pop(gone.name, None)
                self.extended.put(known_class, None)
                return ClaimChange(seen=known_class is not None)
            case DeviceTaintRule():
                known = self._taint_rules.pop(gone.name, None)
                self._taint_again(known)
                return ClaimChange(seen=known is not None)
            case ComputeDomain():
                self.domains.remove(gone)
                return NO_CHANGE
            case _:
                assert_never(gone)

    def _put_claim(self, seen: ResourceClaim) -> ClaimChange:
        known = self.claims.get(seen.key)
        if known is not None and _is_older(seen, known):  # also one of the same name before it
            return NO_CHANGE
        if known == seen:
            self.claims[seen.key] = seen
            return NO_CHANGE
        self.claims[seen.key] = seen
        self._name(known, seen)
        self.extended.put_claim(known, seen)
        if seen.for_extended_resources:
            self._made_known(seen)
        before = NO_CHANGE
        if known is not None and known.uid != seen.uid:
            before = self._observe(known.uid, None)
        now = self._observe(seen.uid, seen.allocation)
        return ClaimChange(seen=True, freed=(*before.freed, *now.freed), taken=now.taken)

    def _name(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None:
            self._keys.pop(old.uid, None)
        if new is not None:
            self._keys[new.uid] = new.key

    def _made_known(self, claim: ResourceClaim) -> None:
        """What was decided for the extended resources of its pod is in flight for the claim."""
        stand_in = in_flight_uid(claim.owner)
        if stand_in in self._in_flight and claim.uid not in self._in_flight:
            self._made[stand_in] = claim.uid
            self._in_flight[claim.uid] = self._in_flight.pop(stand_in)
            decided, held = self.held.get(stand_in, ()), self.held.get(claim.uid, ())
            self._has(stand_in, ())
            self._has(claim.uid, (*held, *decided))

    def _observe(self, uid: str, allocation: Allocation | None) -> ClaimChange:
        if allocation is None:
            self._observed.pop(uid, None)
        else:
            self._observed[uid] = allocation.devices
        return self._hold(uid)

    def nodes_of(self, driver: str, pool: str) -> Collection[str]:
        """Nodes that slices of the pool concern; "": others, too. In 1.36 counters concern all."""
        users = self.users_of(driver, pool)
        return {*users, ""} if (driver, pool) in self._counter_slices else users

    def users_of(self, driver: str, pool: str) -> Collection[str]:
        """Nodes that can use devices of the pool; "": others, too."""
        return self._nodes_of.get((driver, pool), {}).keys()

    def slice_named(self, name: str) -> ResourceSlice | None:
        """As it was seen last."""
        return self._slices.get(name)

    def slices_on(self, node: str) -> Iterable[ResourceSlice]:
        """Slices with devices of this node alone."""
        return self._on_node.of(node).values()

    def _file(self, part: ResourceSlice | None, sign: int) -> None:
        if part is None:
            return
        if part.nodes.node_name and sign > 0:
            self._on_node.put(part.nodes.node_name, part.name, part)
        elif part.nodes.node_name:
            self._on_node.drop(part.nodes.node_name, part.name)
        key = part.driver, part.pool
        if part.counter_sets:
            self._counter_slices[key] += sign
            if not self._counter_slices[key]:
                del self._counter_slices[key]
            return
        counts = self._nodes_of.setdefault(key, Counter())
        node = part.nodes.node_name
        counts[node] += sign
        if not counts[node]:
            del counts[node]
        if not counts:
            del self._nodes_of[key]

    def _publish(self, part: ResourceSlice) -> None:
        if not len(self.inventory):
            # Now, not in the first decision; and not at the start of a program without devices.
            import fairlead.claims.expressions
            import fairlead.claims.glance  # noqa: F401
        behaviour = self.inventory.behaviour
        self.inventory.put(tainted(part, self._taint_rules.values(), behaviour))

    def _taint_again(self, *rules: DeviceTaintRule | None) -> None:
        """These rules came, changed or went: only devices that they concern are published again."""
        behaviour, given = self.inventory.behaviour, [rule for rule in rules if rule is not None]
        for part in self._slices.values():
            if any(taints_part(rule, part, behaviour) for rule in given):
                self._to_taint[part.name] = None

    def settle_taints(self) -> None:
        """Devices have the taints of rules: to be called before they are searched.

        Raises LookUnfinished: a rule may be about all devices.
        """
        for name in list(self._to_taint):
            del self._to_taint[name]
            if part := self._slices.get(name):
                self._publish(part)
                rules = len(self._taint_rules)
                looked = len(part.devices) * (2 + min(rules, MOST_TAINTS) // 4) + rules // 2
                self.inventory.turn.spend(steps=5, devices=looked)

    # -- what is in flight -------------------------------------------------------------------

    def assume(self, writes: Iterable[ClaimWrite], *, in_trial: bool) -> ClaimChange:
        """A pod relies on these allocations; those that are new are held from now on."""
        taken: list[AllocatedDevice] = []
        for claim, allocation in _allocated(writes):
            found = self._in_flight.get(claim.uid)
            if found is None:
                found = InFlightAllocation(claim, allocation, in_trial=in_trial)
                self._in_flight[claim.uid] = found
                taken += self._hold(claim.uid).taken
            found.pods += 1
        return ClaimChange(seen=True, taken=tuple(taken))

    def settle(self, writes: Iterable[ClaimWrite]) -> ClaimChange:
        """A pod relies on them no more: what the API server has shown counts."""
        freed: list[AllocatedDevice] = []
        for claim, _ in _allocated(writes):
            uid = self._made.pop(claim.uid, claim.uid)
            found = self._in_flight.get(uid)
            if found is None:
                continue
            found.pods -= 1
            if not found.pods:
                del self._in_flight[uid]
                freed += self._hold(uid).freed
        return ClaimChange(seen=True, freed=tuple(freed))

    def commit(self, writes: Iterable[ClaimWrite]) -> None:
        """They were decided in a trial that has become the decision."""
        for claim, _ in _allocated(writes):
            if found := self._in_flight.get(claim.uid):
                found.in_trial = False

    def put_narrowed(self, claim: ResourceClaim) -> None:
        """In a trial: the claim with fewer alternatives, or as it is again."""
        self.claims[claim.key] = claim
        self._alike.pop(claim.uid, None)

    def hide(self, uid: str, *, hidden: bool) -> ClaimChange:
        """In a trial: as if the claim held nothing, or no longer so."""
        if hidden:
            self._hidden.add(uid)
        else:
            self._hidden.discard(uid)
        return self._hold(uid)

    def is_hidden(self, uid: str) -> bool:
        """Whether the claim is as if it held nothing, at the moment."""
        return uid in self._hidden

    def keep(
        self, key: str, pod: Pod, claims: Iterable[str], devices: Iterable[AllocatedDevice]
    ) -> ClaimChange:
        """These devices, and what the claims free, are held for a unit until `keep_no_more`."""
        self.kept.begin(key, pod, claims)
        self.kept.add(key, (each for each in devices if not self.usage.is_held(each.key)))
        return self._hold(holder_of(key))

    def keep_more(self, key: str, device: AllocatedDevice) -> ClaimChange:
        """The device, which is free, is held for the unit as well."""
        self.kept.add(key, (device,))
        return self._hold(holder_of(key))

    def keep_no_more(self, key: str) -> ClaimChange:
        self.kept.end(key)
        return self._hold(holder_of(key))

    def _hold(self, uid: str) -> ClaimChange:
        """Holds what the claim has, as observed and in flight, and no more."""
        old, new = self.held.get(uid, ()), self._devices_of(uid)
        self._alike.pop(uid, None)
        self._has(uid, new)
        freed = tuple(device for device in old if device not in new)
        taken = tuple(device for device in new if device not in old)
        heir = self.kept.heir_of(uid) if freed and uid not in self._hidden else None
        if heir is not None:
            self.kept.add(heir, freed)
            self._has(holder_of(heir), self.kept.devices(heir))
            freed = ()
        self.usage.release(Allocation(freed))
        self.usage.hold(Allocation(taken))
        return ClaimChange(True, freed, taken)

    def _has(self, uid: str, devices: tuple[AllocatedDevice, ...]) -> None:
        self.holders.hold(uid, self.held.get(uid, ()), devices)
        if devices:
            self.held[uid] = devices
        else:
            self.held.pop(uid, None)

    def _devices_of(self, uid: str) -> tuple[AllocatedDevice, ...]:
        """A share has a name of its own only after it is written."""
        if uid in self._hidden:
            return ()
        if uid.startswith(KEPT):
            return self.kept.devices(uid.removeprefix(KEPT))
        observed, found = self._observed.get(uid, ()), self._in_flight.get(uid)
        if found is None:
            return observed
        shown = {(device.request, device.key) for device in observed}
        decided = found.allocation.devices
        return (*observed, *(each for each in decided if (each.request, each.key) not in shown))


def _allocated(writes: Iterable[ClaimWrite]) -> list[tuple[ResourceClaim, Allocation]]:
    return [(write.claim, write.allocation) for write in writes if write.allocation is not None]


def _owners(use: ClaimUse) -> str:
    if not use.group:
        return "Pod is not owner"
    return f"neither Pod nor PodGroup {use.group.partition('/')[2]} is the owner"


def _is_older(seen: ResourceClaim, known: ResourceClaim) -> bool:
    new, old = seen.version, known.version
    return new.isdigit() and old.isdigit() and int(new) < int(old)


def _put(table: dict[str, T], key: str, new: T) -> bool:
    changed = table.get(key) != new
    table[key] = new
    return changed
