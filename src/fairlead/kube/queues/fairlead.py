"""Queues of our own: queues.fairlead.dev, named by a label or an annotation of the pod."""

import math
from typing import ClassVar, Literal

import msgspec

from fairlead.kube.dialects.fairlead import PREFIX
from fairlead.kube.gangs.conditions import Condition, with_condition
from fairlead.kube.queues.api import (
    Json,
    QueueDefaults,
    QueueKind,
    QueueStanding,
    QueueWire,
    replacing,
)
from fairlead.kube.queues.limits import (
    MOST_NAMESPACES,
    check_limit,
    name_of_queue,
    queue_amounts,
    run_time_of,
    weight_of,
    written_amounts,
)
from fairlead.kube.queues.times import seconds_of, text_of_time
from fairlead.model.backfill import BackfillMode
from fairlead.model.errors import FairleadError
from fairlead.model.queues import (
    GpuBudget,
    PastUse,
    Period,
    QueueSpec,
    QueueStatus,
    UnitOrder,
    Victims,
)

QUEUE = PREFIX + "queue"
#: The key of the queue that a pod is counted for; written with its bind.
CHARGED = PREFIX + "charged-queue"
READY = "Ready"
#: More GPU-hours than any cluster has in a month.
_MOST_HOURS = 1e12
_MOST_BUDGETS = 4


class _Budget(msgspec.Struct, rename={"gpu_hours": "gpuHours"}, gc=False):
    period: Period
    gpu_hours: float


class _Preemption(msgspec.Struct, rename="camel", gc=False):
    within_queue: Victims = Victims.LOWER_PRIORITY
    reclaim: Victims = Victims.ANY
    reclaimable: bool = True


_MODES = {
    "None": BackfillMode.NONE,
    "Easy": BackfillMode.EASY,
    "Conservative": BackfillMode.CONSERVATIVE,
    "ShortFirst": BackfillMode.SHORT_FIRST,
}


class _Spec(msgspec.Struct, rename="camel", gc=False):
    parent: str = ""
    guaranteed: dict[str, str | int] | None = None
    limit: dict[str, str | int] | None = None
    weight: float = 1.0
    priority: int = 0
    budgets: list[_Budget] | None = None
    namespaces: list[str] | None = None
    order: UnitOrder = UnitOrder.PRIORITY
    backfill: Literal["None", "Easy", "Conservative", "ShortFirst"] | None = None
    preemption: _Preemption | None = None
    min_run_time: str | None = None


class _PastUse(
    msgspec.Struct,
    rename={
        "gpu_seconds": "gpuSeconds",
        "day_hours": "dayGPUHours",
        "month_hours": "monthGPUHours",
    },
    gc=False,
):
    at: str = ""
    gpu_seconds: float = 0.0
    day_hours: float = 0.0
    month_hours: float = 0.0


class _Status(msgspec.Struct, rename="camel", gc=False):
    past_use: _PastUse | None = None


_specs = msgspec.json.Decoder(_Spec)
_statuses = msgspec.json.Decoder(_Status | None)


class FairleadQueues(QueueDefaults):
    name: ClassVar[str] = "fairlead"
    label_keys: ClassVar[tuple[str, ...]] = (QUEUE,)
    annotation_keys: ClassVar[tuple[str, ...]] = (QUEUE,)
    kind: ClassVar[QueueKind | None] = QueueKind(
        "fairlead.dev",
        ("v1alpha1",),
        "queues",
        "Queue",
        "the API server does not serve queues.fairlead.dev; apply deploy/crds.yaml",
    )
    written_by: ClassVar[str | None] = ""

    def spec(self, key: str, wire: QueueWire) -> QueueSpec:
        said = _specs.decode(wire.spec)
        guaranteed = queue_amounts("spec.guaranteed", said.guaranteed or {})
        limit = queue_amounts("spec.limit", said.limit or {})
        check_limit(guaranteed, limit, above="spec.guaranteed", below="spec.limit")
        preemption = said.preemption or _Preemption()
        shortest = run_time_of("spec.minRunTime", said.min_run_time) if said.min_run_time else 0.0
        return QueueSpec(
            key,
            parent=self._parent(said.parent),
            guaranteed=guaranteed,
            limit=limit,
            weight=weight_of("spec.weight", said.weight),
            priority=_priority(said.priority),
            budgets=_budgets(said.budgets or []),
            namespaces=_namespaces(said.namespaces),
            order=_order(said),
            backfill=_MODES[said.backfill] if said.backfill else None,
            within=_within(preemption.within_queue),
            reclaims=preemption.reclaim,
            reclaimable=preemption.reclaimable,
            min_run_s=shortest,
            min_run_reclaim_s=shortest,
            recorded=_recorded(wire.status),
        )

    def status(self, standing: QueueStanding, status: QueueStatus, now: str) -> Json | None:
        wanted = _written(status)
        before = standing.status
        changed = {name: value for name, value in wanted.items() if before.get(name) != value}
        for name in ("used", "fairShare"):
            if name in changed:
                changed[name] = replacing(before.get(name), wanted[name])
        found = with_condition(before, _ready(status, standing.generation), now)
        changed |= found["status"] if found else {}
        return changed or None

    def _parent(self, name: str) -> str:
        return f"{self.name}/{name_of_queue('spec.parent', name)}" if name else ""


def _order(said: _Spec) -> UnitOrder:
    """Short first is an order as well, by priority first."""
    if said.backfill == "ShortFirst" and said.order is UnitOrder.PRIORITY:
        return UnitOrder.SMALLEST_FIRST
    return said.order


def _priority(value: int) -> int:
    if not -(2**31) <= value < 2**31:
        raise FairleadError(f"spec.priority is {value}; write a number that has 32 bits")
    return value


def _budgets(found: list[_Budget]) -> tuple[GpuBudget, ...]:
    if len(found) > _MOST_BUDGETS:
        raise FairleadError(f"spec.budgets has {len(found)} entries; the limit is {_MOST_BUDGETS}")
    for each in found:
        if not 0 <= each.gpu_hours <= _MOST_HOURS:
            raise FairleadError(f"spec.budgets.gpuHours is {each.gpu_hours:g}; write 0 or more")
    return tuple(GpuBudget(each.period, each.gpu_hours) for each in found)


def _namespaces(found: list[str] | None) -> frozenset[str] | None:
    if found is not None and len(found) > MOST_NAMESPACES:
        raise FairleadError(
            f"spec.namespaces has {len(found)} entries; the limit is {MOST_NAMESPACES}"
        )
    return None if found is None else frozenset(found)


def _within(victims: Victims) -> Victims:
    if victims is Victims.ANY:
        raise FairleadError(
            "spec.preemption.withinQueue is Any, which would let units of one queue evict each "
            "other in turn; write Never or LowerPriority"
        )
    return victims


def _recorded(status: msgspec.Raw) -> PastUse | None:
    """What an earlier leader wrote; None if others wrote there what makes no sense."""
    try:
        found = _statuses.decode(status) if status else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    past = found.past_use if found else None
    at_s = seconds_of(past.at) if past else 0.0
    if past is None or at_s <= 0:
        return None
    numbers = (past.gpu_seconds, past.day_hours, past.month_hours)
    if not all(math.isfinite(number) and 0 <= number <= _MOST_HOURS * 3600 for number in numbers):
        return None
    return PastUse(at_s, *numbers)


def _written(status: QueueStatus) -> Json:
    past = status.past
    return {
        "used": written_amounts(status.used),
        "fairShare": written_amounts(status.fair_share),
        "pendingUnits": status.pending_units,
        "pendingPods": status.pending_pods,
        "runningPods": status.running_pods,
        **({"pastUse": _written_past(past)} if past else {}),
    }


def _written_past(past: PastUse) -> Json:
    return {
        "at": text_of_time(past.at_s),
        "gpuSeconds": round(past.gpu_seconds, 3),
        "dayGPUHours": round(past.day_hours, 6),
        "monthGPUHours": round(past.month_hours, 6),
    }


def _ready(status: QueueStatus, generation: int) -> Condition:
    if status.problem:
        return Condition(READY, "False", "Invalid", status.problem, generation)
    return Condition(READY, "True", "Accepted", "", generation)
