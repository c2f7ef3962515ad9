"""Nodes for the pods of a gang, each placed beside the ones before it in one trial.

Equal pods need no search: as many of them fit as the nodes hold, in whatever order. Of unequal ones
the largest go first; if a pod then finds no node, a few other orders are tried, each with the pods
that found none first.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Protocol, TypeVar

from fairlead.cluster.arrays import NodeMask
from fairlead.cluster.aspects import NOTHING, Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.device_work import counted_work
from fairlead.cluster.trial import Trial
from fairlead.engine import gang_domains, gang_models, reservations
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.goal_report import recorded
from fairlead.placement.place import Placement
from fairlead.placement.topology_refusals import TopologyRefusal
from fairlead.placement.verdicts import Placed, PlacementRecord, Refused
from fairlead.plugins.prepare import PrepareStep
from fairlead.queue.quota import QuotaRefusal
from fairlead.queue.units import Gang

V = TypeVar("V")
#: Other orders of unequal pods that are tried, and of how many pods at most.
_MORE_ORDERS = 3
_MOST_REORDERED = 200
#: Groups that are left out, one after another, if a gang does not fit with all of them.
_MOST_LEFT_OUT = 16
#: How often members are looked at again whose rules ask for other pods.
_MOST_LOOKS = 8

#: What one attempt may cost (see `Work.spent`) before no more orders, groups or domains are tried.
_MOST_WORK = 100_000
#: The same for gangs with resource claims: their work is counted less exactly.
_MOST_CLAIM_WORK = 40_000
_ANY_WORK = 1 << 62
#: What it costs to find parts of GPUs for a member; devices for its claims, besides the search.
_PART_WORK = 150
_CLAIM_WORK = 800

#: A refusal without its reasons.
_UNTOLD = Refused(0, (), (), NOTHING)

#: A request, and which mask of rows it is limited to.
Kind = tuple[PodRequest, int]


#: Where a pod has GPUs of other models than those that are beyond a limit.
OtherModels = Callable[[Pod, QuotaRefusal, NodeMask | None], Placed | QuotaRefusal]


class BeyondQuota(Protocol):
    """Why a pod must wait whatever the nodes, or may not have the GPUs of its node."""

    def __call__(self, pod: Pod, placed: Placed | Refused | None = None) -> QuotaRefusal | None: ...


class KnowsPlaces(Protocol):
    """What was found out about members in earlier turns."""

    def place(self, pod: Pod, look: Callable[[], Placed | Refused]) -> Placed | Refused: ...


@dataclass(frozen=True, slots=True)
class MemberPlacement:
    """A member, its node, and what must be done before its bind."""

    pod: Pod
    placed: Placed
    steps: tuple[PrepareStep, ...] = ()
    #: Why it goes there; None unless records are kept.
    record: PlacementRecord | None = None


@dataclass(slots=True)
class Filling:
    """A gang whose members get nodes one by one; all at once, or some in each turn."""

    gang: Gang
    #: The members that are still to be looked at, the last first.
    left: list[Pod]
    #: The rows that a member is limited to, by uid; None: all rows.
    within: Mapping[str, NodeMask] | None = None
    placed: list[MemberPlacement] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    #: The queue of a team that did not admit a member.
    held_back_by: str | None = None
    #: Members by group that have a node or may still get one.
    possible: Counter[str] = field(default_factory=Counter)
    #: By request and mask: equal members are refused alike.
    refused: dict[Kind, Refused] = field(default_factory=dict)
    #: Members whose rules ask for other pods, which may be there later.
    put_off_pods: list[Pod] = field(default_factory=list)
    #: How many had nodes when these were refused, and when all of them were looked at again.
    _refused_at: dict[Kind, int] = field(default_factory=dict)
    _looked_at: int = 0
    _looks: int = 0
    #: Members on spot capacity, as soon as that matters; and masks without it, by mask.
    on_spot: int = -1
    without_spot: dict[int, NodeMask] = field(default_factory=dict)
    #: Whether the gang is satisfied and the trial has it.
    succeeded: bool = False
    #: Whether later alternatives of its claims are to be tried in the next turn; whether some were
    #: left out for good.
    unfinished: bool = False
    alternatives_left: bool = False
    #: Whether none was tried, since other gangs took too long just before.
    try_again: bool = False
    #: Whether it would fit, but would delay a planned start.
    delays: bool = False
    #: Whether it took too long: members are left that were not looked at.
    cut_short: bool = False
    #: Why no plan under topology rules worked out, and what could change that.
    topology: TopologyRefusal | None = None
    awaits: Aspect = NOTHING
    #: Domains that the gang spans, by level of its topology.
    spans: Mapping[str, int] = field(default_factory=dict)
    #: The first member without a node, and why.
    first: tuple[Pod, Refused | QuotaRefusal] | None = None

    @classmethod
    def of(
        cls, gang: Gang, order: Iterable[Pod], within: Mapping[str, NodeMask] | None = None
    ) -> "Filling":
        pods = list(order)
        return cls(gang, pods[::-1], within, possible=Counter(map(group_of, pods)))

    @property
    def satisfied(self) -> bool:
        """Whether the gang would have what it needs, and a pod more than before."""
        return bool(self.placed) and not self.gang.needed_with(self.counts)

    @property
    def wastes(self) -> bool:
        """Whether pods of a group that lacks others have nodes."""
        useless = self.gang.useless_with(self.counts)
        return not useless.isdisjoint(self.counts)

    @property
    def is_hopeless(self) -> bool:
        """Whether too many members found no node."""
        return self.gang.needed_with(self.possible) > 0

    @property
    def is_full(self) -> bool:
        room = self.gang.room
        return room is not None and len(self.placed) >= room

    def take(self, member: MemberPlacement) -> None:
        self.placed.append(member)
        self.counts[group_of(member.pod)] += 1

    def miss(self, pod: Pod, why: Refused | QuotaRefusal | None = None) -> None:
        """The member gets no node."""
        self.possible[group_of(pod)] -= 1
        if isinstance(why, QuotaRefusal):
            self.held_back_by = why.queue
        if why is not None and self.first is None:
            self.first = pod, why

    def refuse(self, pod: Pod, kind: Kind, why: Refused) -> None:
        """No node fits the member; one whose rules ask for other pods is looked at once more."""
        if pod.request.required_affinity:
            self.first = self.first or (pod, why)
            self._put_off(pod, kind)
        else:
            self.refused[kind] = why
            self.miss(pod, why)

    def is_known(self, pod: Pod, kind: Kind) -> bool:
        """Whether an equal member was refused, so that this one is, too."""
        if kind in self.refused:
            self.miss(pod)
        elif self._refused_at.get(kind) == len(self.placed):
            self._put_off(pod, kind)
        else:
            return False
        return True

    def _put_off(self, pod: Pod, kind: Kind) -> None:
        self.put_off_pods.append(pod)
        self._refused_at[kind] = len(self.placed)

    def look_again(self) -> bool:
        """Whether there are members to look at once more, since others got nodes."""
        again, self.put_off_pods = self.put_off_pods, []
        if len(self.placed) > self._looked_at and self._looks < _MOST_LOOKS:
            self._looked_at, self._looks = len(self.placed), self._looks + 1
            self.left = again[::-1]
        else:
            for pod in again:
                self.miss(pod)
        return bool(self.left)

    @property
    def woken_by(self) -> Aspect:
        woken_by = self.awaits
        for refused in self.refused.values():
            woken_by |= refused.woken_by
        return woken_by | (self.first[1].woken_by if self.first else NOTHING)


class GangTrials:
    """Fills gangs. It changes the trial that it is given, and nothing else."""

    def __init__(
        self,
        cluster: Cluster,
        placements: Mapping[str, Placement],
        beyond_quota: BeyondQuota,
        other_models: OtherModels | None = None,
    ) -> None:
        """`other_models`: where a pod goes that may not have the GPUs of its node."""
        self._cluster = cluster
        self._placements = placements
        self._beyond_quota = beyond_quota
        self._other_models = other_models
        self._spent_until = 0
        #: Whether it is found out why members get no node: that takes as long as to place some.
        self.gives_reasons = True
        #: Whether it is noted why members go where they go.
        self.keeps_records: Callable[[], bool] = _never
        #: Verdicts of earlier turns; None: there are none.
        self.known: KnowsPlaces | None = None

    @property
    def _is_spent(self) -> bool:
        return self._cluster.work.spent > self._spent_until

    def fill(self, trial: Trial, filling: Filling, most: int, work: int = _ANY_WORK) -> bool:
        """Places up to `most` more members; True when there is nothing more to do.

        `work`: what that may cost, at least one member.
        """
        until, spent_until = len(filling.placed) + most, self._cluster.work.spent + work
        while not filling.is_full:
            while filling.left:
                if len(filling.placed) >= until:
                    return False
                if not self._next_counted(trial, filling) and filling.is_hopeless:
                    return True
                if filling.is_full:
                    return True
                if self._cluster.work.spent > spent_until:
                    return False
            if not filling.look_again():
                return True
        return True

    def _next_counted(self, trial: Trial, filling: Filling) -> bool:
        """The same, with what a search for devices takes."""
        if not filling.left[-1].request.claims:
            return self._next(trial, filling)
        self._cluster.work.terms += _CLAIM_WORK
        with counted_work(self._cluster):
            return self._next(trial, filling)

    def _next(self, trial: Trial, filling: Filling) -> bool:
        """Whether the next member got a node."""
        pod = filling.left.pop()
        placement = self._placements[pod.scheduler]
        within = filling.within.get(pod.uid) if filling.within else None
        if pod.request.capacity is not None:
            within = self._within_spot_share(filling, pod.request.capacity.spot_share, within)
        if (filling.refused or filling.put_off_pods) and filling.is_known(
            pod, self._kind(pod, within)
        ):
            return False
        if beyond := self._beyond_quota(pod):
            filling.miss(pod, beyond)
            return False
        verdict = self._known_or_placed(placement, pod, within)
        if isinstance(verdict, Refused):
            if self._cluster.counted is not None and (beyond := self._beyond_quota(pod, verdict)):
                filling.miss(pod, beyond)
                return False
            filling.refuse(pod, self._kind(pod, within), verdict)
            return False
        if beyond := self._beyond_quota(pod, verdict):
            other = self._on_other_models(pod, beyond, within)
            if isinstance(other, QuotaRefusal):
                filling.miss(pod, other)
                return False
            verdict = other
        steps = placement.steps(pod, verdict.node)
        steps += reservations.steps(verdict.node, verdict.grant)
        record = None
        if self.keeps_records():
            record = recorded(placement, self._cluster, pod, verdict)
        trial.assume(pod, verdict.node, verdict.grant)
        for step in steps:
            step.assume(trial, verdict.node)
        filling.take(MemberPlacement(pod, verdict, steps, record))
        if filling.on_spot >= 0:
            filling.on_spot += self._is_spot(pod.uid)
        return True

    def _kind(self, pod: Pod, within: NodeMask | None) -> Kind:
        """Members of the same kind get the same answer."""
        return self._placements[pod.scheduler].request(pod), self._limits(pod, within)

    def _limits(self, pod: Pod, within: NodeMask | None) -> int:
        """The same for members that are limited to the same rows."""
        members = self._cluster.extended_members
        if members is None or pod.uid not in members:
            return id(within)
        return hash((id(within), pod.uid))

    def _known_or_placed(
        self, placement: Placement, pod: Pod, within: NodeMask | None
    ) -> Placed | Refused:
        if self.known is None:
            return self._place(placement, pod, within)
        return self.known.place(pod, lambda: self._place(placement, pod, within))

    def _place(self, placement: Placement, pod: Pod, within: NodeMask | None) -> Placed | Refused:
        """With what HTTP extenders say about the member. Parts of GPUs are work to look at."""
        if pod.request.gpu_request is not None:
            self._cluster.work.pods += _PART_WORK
        return self._extended(pod, lambda: self._verdict(placement, pod, within))

    def _on_other_models(
        self, pod: Pod, beyond: QuotaRefusal, within: NodeMask | None
    ) -> Placed | QuotaRefusal:
        """On GPUs of a model of which its queue may have more."""
        if (find := self._other_models) is None:
            return beyond
        return self._extended(pod, lambda: find(pod, beyond, within))

    def _extended(self, pod: Pod, find: Callable[[], V]) -> V:
        """What is found with what HTTP extenders say about the member."""
        if (members := self._cluster.extended_members) is None:
            return find()
        self._cluster.extended = members.of(pod.uid)
        try:
            return find()
        finally:
            self._cluster.extended = None

    def _verdict(self, placement: Placement, pod: Pod, within: NodeMask | None) -> Placed | Refused:
        if self.gives_reasons:
            return placement.place(pod, within, evicts=False)
        return placement.find(pod, within) or _UNTOLD

    def _within_spot_share(
        self, filling: Filling, share: float | None, within: NodeMask | None
    ) -> NodeMask | None:
        """Without spot capacity, if one more member there would be more than the share.

        The share is that of the members that have nodes, or of the minimum of the gang.
        """
        if share is None:
            return within
        gang = filling.gang
        if filling.on_spot < 0:
            filling.on_spot = sum(self._is_spot(uid) for uid in gang.placed)
        have_nodes = len(filling.placed) + len(gang.placed)
        if filling.on_spot + 1 <= share * max(have_nodes + 1, gang.needed + len(gang.placed)):
            return within
        if id(within) not in filling.without_spot:
            rows_left = ~self._cluster.nodes.spot()
            filling.without_spot[id(within)] = rows_left if within is None else rows_left & within
        return filling.without_spot[id(within)]

    def _is_spot(self, uid: str) -> bool:
        """Whether the pod is on spot capacity."""
        held = self._cluster.holdings.get(uid)
        row = self._cluster.row_of.get(held.node) if held else None
        return row is not None and self._cluster.columns.is_spot(row)

    def best(self, trial: Trial, gang: Gang, work: int = _MOST_WORK) -> Filling:
        """One that satisfies the gang and is in the trial, or else the one that came nearest.

        After so much `work` no more orders, groups or domains are tried.
        """
        order, start = ordered(gang), trial.checkpoint()
        most = _MOST_CLAIM_WORK if any(pod.request.claims for pod in order) else _MOST_WORK
        self._spent_until = self._cluster.work.spent + min(work, most)
        if (found := self._on_one_model(trial, gang, order)) is not None:
            return found
        nearest = Filling.of(gang, ())
        work = _MOST_WORK if any(pod.request.claims for pod in order) else _ANY_WORK
        for _ in range(1 + _MORE_ORDERS):
            filling = Filling.of(gang, order)
            filling.cut_short = not self.fill(trial, filling, len(order), work)
            if filling.cut_short:
                trial.rollback(start)
                return filling
            changed = _changed(order, filling)
            if filling.satisfied and changed is order:
                filling.succeeded = True
                return filling
            nearest = max(filling, nearest, key=lambda one: len(one.placed))
            trial.rollback(start)
            if changed == order or (self._is_spent and not filling.satisfied):
                break
            order = changed
        found = self._with_fewer_groups(trial, nearest) if gang.spec.groups else None
        return found or self._in_one_domain(trial, gang, nearest)

    def _with_fewer_groups(self, trial: Trial, nearest: Filling) -> Filling | None:
        """Without the groups that do not fit, as long as the others are enough."""
        gang, filling, start = nearest.gang, nearest, trial.checkpoint()
        order = ordered(gang)
        for _ in range(_MOST_LEFT_OUT):
            order = _without_group(order, filling)
            if self._is_spent or not order or gang.needed_with(Counter(map(group_of, order))):
                return None
            filling = Filling.of(gang, order)
            self.fill(trial, filling, len(order))
            if filling.satisfied and not filling.wastes:
                filling.succeeded = True
                return filling
            trial.rollback(start)
        return None

    def one_model(self, gang: Gang, order: list[Pod]) -> NodeMask | None:
        """The rows with GPUs of the model that the gang prefers; None if any will do."""
        if len(self._cluster.columns.devices.models.code_of) < 2 or not order:
            return None
        holdings = self._cluster.holdings
        nodes = {held.node for uid in gang.placed if (held := holdings.get(uid)) is not None}
        return gang_models.one_model(order, nodes, self._placements, self._cluster)

    def _on_one_model(self, trial: Trial, gang: Gang, order: list[Pod]) -> Filling | None:
        """All of them on GPUs of one model, if that is a choice and they fit there."""
        mask = self.one_model(gang, order)
        if mask is None:
            return None
        start, filling = trial.checkpoint(), Filling.of(gang, order, dict.fromkeys(
            (pod.uid for pod in order), mask))  # fmt: skip
        self.fill(trial, filling, len(order))
        if filling.satisfied and len(filling.placed) == len(order):
            filling.succeeded = True
            return filling
        trial.rollback(start)
        return None

    def _in_one_domain(self, trial: Trial, gang: Gang, nearest: Filling) -> Filling:
        """For pods that must be near each other: in one domain after the other."""
        order, start = ordered(gang), trial.checkpoint()
        for mask in gang_domains.masks(order, self._placements, self._cluster):
            if self._is_spent:
                break
            filling = Filling.of(gang, order, {pod.uid: mask for pod in order})
            self.fill(trial, filling, len(order))
            if filling.satisfied:
                filling.succeeded = True
                return filling
            trial.rollback(start)
        return nearest


def _never() -> bool:
    return False


def _changed(order: list[Pod], filling: Filling) -> list[Pod]:
    """Another order that may do better; the same if there is none."""
    if filling.satisfied:
        useless = filling.gang.useless_with(filling.counts)
        useful = [pod for pod in order if group_of(pod) not in useless]
        return useful if len(useful) < len(order) else order
    if filling.first is None or len(order) > _MOST_REORDERED:
        return order
    request = filling.first[0].request
    first = [pod for pod in order if pod.request == request]
    return first + [pod for pod in order if pod.request != request]


def _without_group(order: list[Pod], filling: Filling) -> list[Pod]:
    """Without the group of the first pod that found no node, and those that need it."""
    out = group_of(filling.first[0]) if filling.first else ""
    left = [pod for pod in order if group_of(pod) != out]
    useless = filling.gang.useless_with(Counter(map(group_of, left)))
    left = [pod for pod in left if group_of(pod) not in useless]
    return left if len(left) < len(order) else []


def ordered(gang: Gang) -> list[Pod]:
    """Its pods, the largest first; among equals by rank, then as they came."""
    ranked = sorted(gang.pods, key=_rank)
    if len({id(pod.request) for pod in ranked}) > 1:
        ranked.sort(key=_size, reverse=True)
    return ranked


def group_of(pod: Pod) -> str:
    return pod.gang.group if pod.gang else ""


def _rank(pod: Pod) -> float:
    rank = pod.gang.rank if pod.gang else None
    return float("inf") if rank is None else rank


def _size(pod: Pod) -> tuple[int, int, tuple[int, int]]:
    asked = pod.request.gpu_request
    return (
        pod.request.amount(GPU),
        asked.gpus * asked.milli if asked else 0,
        pod.request.scored,
    )
