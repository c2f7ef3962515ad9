"""The state of some rows at a time in the future, in a trial: what has ended then, who is there."""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace

import numpy as np

from fairlead.claims.pools import PoolKey
from fairlead.cluster.arrays import NodeMask, Rows
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.planned_places import PlannedPlace, PlannedPlaces, planned_places
from fairlead.cluster.trial import Trial
from fairlead.engine.backfill.claim_ends import ClaimEnds
from fairlead.engine.backfill.ends import Ends
from fairlead.engine.backfill.freed_rows import FreedRows, is_enough
from fairlead.engine.backfill.planned_claims import PlacedPod, distant_pools, placed_pod
from fairlead.model.backfill import PlannedStart
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.start_terms import EASY_TERMS, StartTerms
from fairlead.placement.place import Placement
from fairlead.queue.entries import Entry
from fairlead.queue.units import Unit

#: Its place among units: the smaller comes first.
UnitKey = tuple[object, ...]


@dataclass(slots=True, eq=False)
class Plan:
    """A unit with its planned start, and the pods that are to be placed then."""

    entry: Entry
    planned: PlannedStart
    order: UnitKey
    #: The pods of each node.
    on: Mapping[str, tuple[Pod, ...]]
    #: The node, the GPUs and the devices of each pod.
    places: PlannedPlaces
    #: What is free at its start.
    freed: FreedRows
    #: Since when room is held for it, and when it was first to start.
    since_s: float
    first_start_s: float
    #: Whether it was tried since its start has come.
    called: bool = False
    #: What others must leave to it, and its place among units that are planned together.
    rule: StartTerms = EASY_TERMS
    rank: UnitKey = ()
    #: Uids of the claims of its pods, and pools of its devices that are not of one node.
    claims: frozenset[str] = frozenset()
    #: One pod for each kind of those that have claims.
    asking: tuple[Pod, ...] = ()
    distant: frozenset[PoolKey] = frozenset()
    #: The state of its nodes at its start, as it was when the plan was last checked.
    seen: dict[str, object] = field(default_factory=dict, init=False)

    def follow(self, before: "Plan") -> "Plan":
        """It replaces a plan for the same unit."""
        self.since_s, self.first_start_s = before.since_s, before.first_start_s
        self.called = before.called and before.start_s == self.start_s
        return self

    def on_nodes(
        self,
        placed: Sequence[PlacedPod],
        basis: tuple[str, ...],
        distant: frozenset[PoolKey],
        *,
        bounded: bool,
    ) -> "Plan":
        """The same start on other nodes."""
        nodes = tuple((each.pod.uid, each.place.node) for each in placed)
        planned = replace(self.planned, nodes=nodes, basis=basis, bounded=bounded)
        on, places = pods_by_node(placed), places_of(placed)
        return replace(self, planned=planned, on=on, places=places, distant=distant)

    def with_gpus(self, places: PlannedPlaces, distant: frozenset[PoolKey]) -> "Plan":
        """The same start on the same nodes, with other GPUs and devices of these pods."""
        return replace(self, places={**self.places, **places}, distant=distant)

    def shared_with(self, nodes: AbstractSet[str], *, claims: bool) -> AbstractSet[str]:
        """Its nodes that pods on these nodes may take room of; `claims`: they have some."""
        return self.on.keys() if claims and self.distant else nodes & self.on.keys()

    def overlaps(self, at_s: float) -> bool:
        """Whether it runs then."""
        return self.start_s <= at_s < self.end_s

    def has_room(self, now: float, staying: Container[str]) -> bool:
        """Whether there may be room at its start, by amounts; `staying` still run then."""
        room = self.freed.room(now, staying)
        return room is None or is_enough(room, self.freed.kinds)

    @property
    def evictor(self) -> Pod:
        return evictor_of(self.entry.unit)

    @property
    def latest_s(self) -> float:
        """Until when others may put its start off."""
        return self.rule.latest_s(self.start_s, self.first_start_s, self.since_s)

    def held_until_s(self, hold_s: float) -> float:
        """When its room is given to others, whatever it waits for."""
        first_s = self.first_start_s
        return self.rule.latest_s(first_s, first_s, self.since_s) + hold_s

    @property
    def start_s(self) -> float:
        return self.planned.start_s

    @property
    def end_s(self) -> float:
        return float("inf") if self.planned.end_s is None else self.planned.end_s


def pods_by_node(placed: Sequence[PlacedPod]) -> dict[str, tuple[Pod, ...]]:
    found: dict[str, tuple[Pod, ...]] = {}
    for pod, place, _ in placed:
        found[place.node] = (*found.get(place.node, ()), pod)
    return found


def places_of(placed: Sequence[PlacedPod]) -> PlannedPlaces:
    return {each.pod.uid: each.planned for each in placed}


def evictor_of(unit: Unit) -> Pod:
    """A pod that stands for the unit where pods are evicted for it."""
    pod = unit.pod
    return pod if pod.priority == unit.priority else replace(pod, priority=unit.priority)


class Futures:
    """It changes the trial that it is given, and nothing else."""

    def __init__(
        self,
        cluster: Cluster,
        placements: Mapping[str, Placement],
        ends: Ends,
        claim_ends: ClaimEnds,
    ) -> None:
        self._cluster = cluster
        self._placements = placements
        self._ends = ends
        self._claim_ends = claim_ends

    def rows_of(self, plan: Plan) -> Rows:
        """Of its nodes that are still there."""
        found = (self._cluster.row_of.get(node) for node in plan.on)
        return np.array([row for row in found if row is not None], dtype=np.int64)

    def advance(
        self,
        trial: Trial,
        plan: Plan,
        nodes: Collection[str],
        until_s: float,
        now: float,
        staying: Container[str] = (),
        others: Iterable[Plan] = (),
    ) -> list[str]:
        """Pods of these nodes that end by then are gone, and so are claims.

        `others`: plans whose devices may be free then, too, wherever they are.
        """
        gone, evictor = [], plan.evictor
        for node in nodes:
            for held in self._cluster.held_on(node):
                self._cluster.work.pods += 1
                end = self._ends.of(held, now, evictor)
                if end is not None and end.at_s <= until_s and held.pod.uid not in staying:
                    gone.append(held.pod.uid)
        if self._cluster.claims.held:
            pools = {pool for each in (plan, *others) for pool in each.distant}
            ended = self._claim_ends.ended(nodes, until_s, now, evictor, staying, pools)
            trial.free_claims([uid for uid in ended if uid not in plan.claims])
        gone.sort()
        trial.evict_all(gone)
        return gone

    def place(
        self,
        trial: Trial,
        plan: Plan,
        nodes: Collection[str],
        given: dict[str, PlannedPlace] | None = None,
    ) -> bool:
        """Puts the pods that are planned for these nodes there; whether all fit.

        They fit only if their planned GPUs and devices are free; or, with a dict that is `given`,
        others of the node, which are written there.
        """
        with planned_places(self._cluster, plan.places):
            for node in sorted(nodes):
                for pod in plan.on.get(node, ()):
                    if node not in self._cluster.row_of or not self._place(
                        trial, pod, plan.places[pod.uid], given
                    ):
                        return False
        return True

    def _place(
        self, trial: Trial, pod: Pod, planned: PlannedPlace, given: dict[str, PlannedPlace] | None
    ) -> bool:
        trial.suspend_nomination(pod.uid)
        if (held := self._cluster.holdings.get(pod.uid)) is not None:
            if given is not None:
                given[pod.uid] = PlannedPlace(held.node, held.grant, planned.devices)
            return True
        placement = self._placements[pod.scheduler]
        found = placement.find(pod)
        if found is None:
            return False
        placed = placed_pod(placement, pod, found)
        if given is not None:
            given[pod.uid] = placed.planned
        elif placed.planned[1:] != planned[1:]:
            return False
        placed.assume(trial)
        return True

    def state(
        self,
        trial: Trial,
        plan: Plan,
        others: Iterable[Plan],
        nodes: AbstractSet[str],
        now: float,
        staying: Container[str] = (),
        beside: Sequence[PlacedPod] = (),
        given: dict[str, PlannedPlace] | None = None,
    ) -> bool:
        """These nodes when the plan starts, with its pods there; whether they fit.

        Those of `others` that run then are there, too, and so are pods that are `staying`, and
        those that are put `beside` it. `given`: as for `place`.
        """
        there = [each for each in others if each is not plan and each.overlaps(plan.start_s)]
        self.advance(trial, plan, nodes, plan.start_s, now, staying, there)
        for each in beside:
            if each.place.node in nodes or (plan.distant and each.writes):
                each.assume(trial)
        for other in there:
            if not self.place(trial, other, nodes & other.on.keys()):
                return False
        return self.place(trial, plan, nodes, given)

    def with_other_gpus(
        self,
        trial: Trial,
        plan: Plan,
        others: Sequence[Plan],
        nodes: AbstractSet[str],
        now: float,
        staying: Container[str] = (),
    ) -> Plan | None:
        """The plan with other GPUs of these nodes, if it delays none of the others."""
        begin, given = trial.checkpoint(), dict[str, PlannedPlace]()
        fits = self.state(trial, plan, others, nodes, now, staying, given=given)
        trial.rollback(begin)
        distant = distant_pools({**plan.places, **given}, self._cluster)
        made = plan.with_gpus(given, distant)
        plans = [made, *(other for other in others if other is not plan)]
        return made if fits and self.keep(trial, plans, made, nodes, now, staying) else None

    def keep(
        self,
        trial: Trial,
        plans: Sequence[Plan],
        new: Plan,
        nodes: AbstractSet[str],
        now: float,
        staying: Container[str] = (),
    ) -> bool:
        """Whether those that start while a new one of them runs on these nodes still fit."""
        begin = trial.checkpoint()
        for plan in plans:
            both = plan.shared_with(nodes, claims=bool(new.claims or new.distant))
            if plan is new or not both or not new.overlaps(plan.start_s):
                continue
            kept = self.state(trial, plan, plans, both, now, staying)
            trial.rollback(begin)
            if not kept:
                return False
        return True

    def held(
        self,
        plan: Plan,
        others: Sequence[Plan],
        nodes: AbstractSet[str],
        now: float,
        late_s: float,
    ) -> Plan | None:
        """The plan, if its pods still fit these nodes at its start; others may end `late_s` later.

        With other GPUs if they must; None if they do not fit.
        """
        with self._cluster.trial() as trial:
            self.advance(trial, plan, nodes, plan.start_s + late_s, now, others=others)
            begin = trial.checkpoint()
            if self.state(trial, plan, others, nodes, now):
                return plan
            trial.rollback(begin)
            return self.with_other_gpus(trial, plan, others, nodes, now)

    def open_beside(
        self,
        trial: Trial,
        plan: Plan,
        others: Iterable[Plan],
        pods: Iterable[Pod],
        rows: Rows,
        now: float,
    ) -> NodeMask:
        """Of these rows, those where each of the pods would also fit when the plan starts."""
        cluster, found = self._cluster, np.zeros(len(rows), dtype=np.bool_)
        begin = trial.checkpoint()
        for at, row in enumerate(rows.tolist()):
            node = cluster.node_at(row).name
            start = trial.checkpoint()
            if self.state(trial, plan, others, {node}, now):
                found[at] = True
            else:
                trial.rollback(start)
        views = [self._placements[pod.scheduler].view(pod) for pod in pods]
        for view in views:
            found &= view.left[rows]
        trial.rollback(begin)
        return found
