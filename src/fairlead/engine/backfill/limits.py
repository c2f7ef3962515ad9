"""The rows that a unit may use without delaying units whose start is planned."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from fairlead.cluster.arrays import NodeMask, Rows
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine.backfill.futures import Futures, Plan
from fairlead.engine.reasons import WAITING_FOR_PLANNED_START, WAITING_FOR_RESERVATION
from fairlead.model.pods import Pod
from fairlead.queue.quota import QuotaRefusal

#: In place of a queue: units that a planned start holds back wait for a change of the plans.
PLANNED = "planned start"

_ROOM = (
    Aspect.PRESENCE | Aspect.ALLOCATABLE | Aspect.USAGE | Aspect.TAINTS | Aspect.LABELS
    | Aspect.DEVICES
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limit:
    """What a unit that may run past a planned start must leave free."""

    #: Rows where each of its pods alone delays nothing.
    rows: NodeMask
    #: Rows that no planned unit needs.
    strict: NodeMask
    #: The plans that it could delay, each with those before it.
    plans: Sequence[tuple[Plan, Sequence[Plan]]]
    refusal: QuotaRefusal


def delay_refusal(start_s: float) -> QuotaRefusal:
    """`start_s`: in seconds since 1970."""
    at = _written(start_s)
    message = f"it would delay a unit before it, whose start is planned for {at}"
    return QuotaRefusal(WAITING_FOR_PLANNED_START, message, _ROOM, PLANNED)


def reserved_refusal(start_s: float) -> QuotaRefusal:
    """`start_s`: in seconds since 1970."""
    message = f"it could still run when the nodes that fit it are reserved, at {_written(start_s)}"
    return QuotaRefusal(WAITING_FOR_RESERVATION, message, _ROOM, PLANNED)


def _written(at_s: float) -> str:
    return datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Limits:
    def __init__(self, cluster: Cluster, futures: Futures) -> None:
        self._cluster = cluster
        self._futures = futures

    def rows(
        self,
        plans: Iterable[tuple[Plan, Sequence[Plan]]],
        pods: Sequence[Pod],
        fits: NodeMask,
        now: float,
    ) -> tuple[NodeMask, NodeMask]:
        """Rows where each of the pods alone delays none of the plans; and rows of no plan.

        `fits`: rows that fit one of the pods now; others are not looked at.
        """
        found, strict = self._cluster.nodes.all(), self._cluster.nodes.all()
        for plan, others in plans:
            planned = self._futures.rows_of(plan)
            strict[planned] = False
            rows: Rows = planned[fits[planned] & found[planned]]
            if len(rows):
                opened = self._futures.open_beside(plan, others, pods, rows, now)
                found[rows[~opened]] = False
        return found, strict

    def keeps(
        self, trial: Trial, limit: Limit, nodes: Iterable[str], uids: frozenset[str], now: float
    ) -> bool:
        """Whether all planned units still fit, with pods on these nodes in the trial."""
        used, start = set(nodes), trial.checkpoint()
        for plan, others in limit.plans:
            both = used & plan.on.keys()
            kept = not both or self._futures.state(trial, plan, others, both, now, uids)
            trial.rollback(start)
            if not kept:
                return False
        return True
