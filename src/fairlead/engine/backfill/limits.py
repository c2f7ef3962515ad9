"""The rows that a unit may use without delaying units whose start is planned."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from datetime import UTC, datetime

from fairlead.claims.errors import LookUnfinished
from fairlead.cluster.arrays import NodeMask, Rows
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.planned_places import PlannedPlaces
from fairlead.cluster.trial import Trial
from fairlead.engine.backfill.device_looks import limited_looks
from fairlead.engine.backfill.futures import Plan
from fairlead.engine.backfill.planner import Planner
from fairlead.engine.reasons import WAITING_FOR_PLANNED_START, WAITING_FOR_RESERVATION
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.queue.quota import QuotaRefusal

#: In place of a queue: units that a planned start holds back wait for a change of the plans.
PLANNED = "planned start"

#: What is said to units that wait.
DELAYS = "it would delay a unit before it, whose start is planned for {at}"
OUTLASTS = "it runs for long past {at}, when a unit before it is planned to start"
CUT_SHORT = "; not all places were looked at"
RESERVED = "it could still run when the nodes that fit it are reserved, at {at}"
RESERVED_GPUS = "it could still run when the GPUs that fit it are reserved, at {at}"

_ROOM = (
    Aspect.PRESENCE | Aspect.ALLOCATABLE | Aspect.USAGE | Aspect.TAINTS | Aspect.LABELS
    | Aspect.DEVICES
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReservedGpus:
    """Nodes of which GPUs are reserved, and whether pods on some of them leave these free."""

    nodes: frozenset[str]
    are_left: Callable[[Iterable[str], frozenset[str], float], bool]


@dataclass(slots=True, eq=False)
class Limit:
    """What a unit that may run past planned starts must leave free."""

    cluster: Cluster
    #: The plans that it could delay, each with all others that it must not delay.
    plans: Sequence[tuple[Plan, Sequence[Plan]]]
    #: What is said to a unit that waits for it, and when, in seconds since 1970, what it waits
    #: for is to start.
    says: str
    start_s: float
    #: Rows that it may use whatever it delays; None: all.
    open_rows: NodeMask | None = None
    #: Whether it may not run past these planned starts wherever it is.
    forbids: bool = False
    #: Rows of its own plan, if its start has come, and its places there, where it delays none that
    #: is planned after it.
    own_rows: NodeMask | None = None
    own_places: PlannedPlaces = field(default_factory=dict)
    #: What it must leave free if it cannot start without a delay of units after it, and its start
    #: has come; None: the same.
    least: "Limit | None" = None
    #: Plans that are on other nodes if the unit is placed as was last tried.
    moved: dict[Plan, Plan] = field(default_factory=dict)
    #: GPUs that people keep free on nodes that others may use; None: there are none.
    reserved: ReservedGpus | None = None
    #: What looking for a place may cost until then (see `Work.spent`), and whether it was too much.
    work_until: int | None = None
    cut_short: bool = False

    def begin(self, work: int) -> None:
        """From now on, looking for a place may cost so much."""
        if self.work_until is None:
            self.work_until = self.cluster.work.spent + work

    @property
    def is_spent(self) -> bool:
        """Whether no more places are looked at."""
        if self.work_until is not None and self.cluster.work.spent > self.work_until:
            self.cut_short = True
        return self.cut_short

    @property
    def refusal(self) -> QuotaRefusal:
        """Of a unit that it keeps waiting. Many units are asked about, and few are told."""
        at = datetime.fromtimestamp(int(self.start_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        said = self.says.format(at=at) + (CUT_SHORT if self.cut_short else "")
        reserved = self.says in (RESERVED, RESERVED_GPUS)
        reason = WAITING_FOR_RESERVATION if reserved else WAITING_FOR_PLANNED_START
        return QuotaRefusal(reason, said, _ROOM, PLANNED)

    @property
    def strict(self) -> NodeMask:
        """Rows that no planned unit needs."""
        nodes = self.cluster.nodes
        reserved = self.reserved.nodes if self.reserved else ()
        planned = nodes.named((*(node for plan, _ in self.plans for node in plan.on), *reserved))
        found: NodeMask = ~planned if self.open_rows is None else self.open_rows & ~planned
        return found

    @property
    def key(self) -> object:
        """Units of one class with the same one get the same answer."""
        closed = None if self.open_rows is None else self.open_rows.tobytes()
        return tuple(id(plan) for plan, _ in self.plans), self.forbids, closed


class Limits:
    def __init__(
        self, cluster: Cluster, planner: Planner, all_plans: Callable[[], Sequence[Plan]]
    ) -> None:
        self._cluster = cluster
        self._planner = planner
        self._futures = planner.futures
        self._all_plans = all_plans

    def rows(
        self, trial: Trial, limit: Limit, pods: Sequence[Pod], fits: NodeMask, now: float
    ) -> NodeMask:
        """Rows where each of the pods alone delays none of the plans, which stay where they are.

        `fits`: rows that fit one of the pods now; others are not looked at.
        """
        start = trial.checkpoint()
        try:
            with limited_looks(self._cluster):
                return self._rows(trial, limit, pods, fits, now)
        except LookUnfinished:
            trial.rollback(start)
            limit.cut_short = True
            return limit.strict

    def _rows(
        self, trial: Trial, limit: Limit, pods: Sequence[Pod], fits: NodeMask, now: float
    ) -> NodeMask:
        found = self._cluster.nodes.all()
        if limit.open_rows is not None:
            found &= limit.open_rows
        for plan, others in limit.plans:
            planned = self._futures.rows_of(plan)
            rows: Rows = planned[fits[planned] & found[planned]]
            if len(rows):
                opened = self._futures.open_beside(trial, plan, others, pods, rows, now)
                found[rows[~opened]] = False
        return found

    def keeps(
        self,
        trial: Trial,
        limit: Limit,
        nodes: Iterable[str],
        uids: frozenset[str],
        now: float,
        *,
        moving: bool,
    ) -> bool:
        """Whether all planned units still fit at their starts, with pods on these nodes.

        With `moving` they may be on other nodes then; `limit.moved` says on which.
        """
        start = trial.checkpoint()
        try:
            with limited_looks(self._cluster):
                return self._keeps(trial, limit, set(nodes), uids, now, moving=moving)
        except LookUnfinished:
            trial.rollback(start)
            limit.moved.clear()
            limit.cut_short = True
            return False

    def _keeps(
        self,
        trial: Trial,
        limit: Limit,
        used: AbstractSet[str],
        uids: frozenset[str],
        now: float,
        *,
        moving: bool,
    ) -> bool:
        start = trial.checkpoint()
        limit.moved.clear()
        if limit.reserved and not limit.reserved.are_left(used & limit.reserved.nodes, uids, now):
            return False
        for plan, others in limit.plans:
            both = plan.shared_with(used, claims=bool(plan.distant) and self._have_claims(uids))
            if not both:
                continue
            plans = [limit.moved.get(each, each) for each in others]
            kept = plan.has_room(now, uids) and self._fits(
                trial, limit, plan, plans, both, uids, now
            )
            trial.rollback(start)
            if not kept and not (
                moving and not limit.is_spent and self._moves(trial, limit, plan, uids, now)
            ):
                limit.moved.clear()
                return False
        return True

    def _have_claims(self, uids: Iterable[str]) -> bool:
        found = (self._cluster.holdings.get(uid) for uid in uids)
        return any(held.pod.request.claims for held in found if held is not None)

    def _fits(
        self,
        trial: Trial,
        limit: Limit,
        plan: Plan,
        others: Sequence[Plan],
        nodes: AbstractSet[str],
        uids: frozenset[str],
        now: float,
    ) -> bool:
        """Whether the planned unit fits its nodes, with the GPUs of its plan or others."""
        start = trial.checkpoint()
        if self._futures.state(trial, plan, others, nodes, now, uids):
            return True
        trial.rollback(start)
        made = self._futures.with_other_gpus(trial, plan, others, nodes, now, uids)
        if made is not None:
            limit.moved[plan] = made
        return made is not None

    def _moves(
        self, trial: Trial, limit: Limit, plan: Plan, uids: frozenset[str], now: float
    ) -> bool:
        others = [limit.moved.get(each, each) for each in self._all_plans() if each is not plan]
        made = self._planner.moved(trial, plan, others, now, uids)
        if made is not None:
            limit.moved[plan] = made
        return made is not None
