"""Queues of KAI (queues.scheduling.run.ai).

What is not said is 0 there: a queue without a limit runs nothing. -1 means no limit. GPUs may be
fractions, cpu is in thousandths of a core, memory in millions of bytes. Their status is written by
KAI's own controller.
"""

import math
from collections.abc import Iterator
from typing import ClassVar

import msgspec

from fairlead.base.durations import seconds
from fairlead.kube.queues.api import QueueDefaults, QueueKind, QueueWire
from fairlead.kube.queues.limits import LONGEST_RUN_S, name_of_queue, weight_of
from fairlead.model.errors import FairleadError
from fairlead.model.pods import Amounts
from fairlead.model.quantities import CPU, LARGEST, MEMORY
from fairlead.model.queues import GPUS, QueueSpec, Sharing, Weights

#: Of a queue that says none.
PRIORITY = 100
_UNLIMITED = -1.0
#: How many of ours one of theirs is.
_UNITS = {GPUS: 1000.0, CPU: 1.0, MEMORY: 1e6}


class _Resource(msgspec.Struct, rename="camel", gc=False):
    quota: float = 0.0
    over_quota_weight: float = 0.0
    limit: float = 0.0


class _Resources(msgspec.Struct, gc=False):
    gpu: _Resource = msgspec.field(default_factory=_Resource)
    cpu: _Resource = msgspec.field(default_factory=_Resource)
    memory: _Resource = msgspec.field(default_factory=_Resource)


class _Spec(msgspec.Struct, rename="camel", gc=False):
    parent_queue: str = ""
    resources: _Resources | None = None
    priority: int | None = None
    preempt_min_runtime: str | None = None
    reclaim_min_runtime: str | None = None


_specs = msgspec.json.Decoder(_Spec)


class KaiQueues(QueueDefaults):
    def __init__(self, saturation_multiplier: float = 1.0) -> None:
        self._saturation_multiplier = saturation_multiplier

    name: ClassVar[str] = "kai"
    label_keys: ClassVar[tuple[str, ...]] = ("kai.scheduler/queue",)
    kind: ClassVar[QueueKind | None] = QueueKind("scheduling.run.ai", ("v2",), "queues", "Queue")
    #: Of jobs that name none. KAI's chart creates it; without it, no limit applies to them.
    implied: ClassVar[tuple[str, ...]] = ("default-queue",)

    def spec(self, key: str, wire: QueueWire) -> QueueSpec:
        said = _specs.decode(wire.spec)
        found = said.resources or _Resources()
        each = {GPUS: found.gpu, CPU: found.cpu, MEMORY: found.memory}
        weights = {name: _weight(name, one) for name, one in each.items()}
        parent = said.parent_queue
        return QueueSpec(
            key,
            parent=f"{self.name}/{name_of_queue('spec.parentQueue', parent)}" if parent else "",
            guaranteed=tuple(sorted(_amounts("quota", {n: r.quota for n, r in each.items()}))),
            limit=_limits({name: one.limit for name, one in each.items()}),
            weight=weights[GPUS],
            weights=_differing(weights),
            priority=PRIORITY if said.priority is None else said.priority,
            sharing=Sharing.KAI,
            min_run_s=_run_s("spec.preemptMinRuntime", said.preempt_min_runtime),
            min_run_reclaim_s=_run_s("spec.reclaimMinRuntime", said.reclaim_min_runtime),
            saturation_multiplier=self._saturation_multiplier,
            leaves_only=True,
        )


def _weight(name: str, resource: _Resource) -> float:
    return weight_of(f"overQuotaWeight of {name}", resource.over_quota_weight)


def _differing(weights: dict[str, float]) -> Weights:
    return tuple(sorted((n, weight) for n, weight in weights.items() if weight != weights[GPUS]))


def _limits(found: dict[str, float]) -> Amounts:
    limited = {name: value for name, value in found.items() if value != _UNLIMITED}
    return tuple(sorted(_amounts("limit", limited)))


def _amounts(field: str, found: dict[str, float]) -> Iterator[tuple[str, int]]:
    for name, value in found.items():
        if value == _UNLIMITED:
            yield name, LARGEST
        elif not (math.isfinite(value) and value >= 0):
            raise FairleadError(f"{field} of {name} is {value:g}; write -1, 0 or more")
        else:
            yield name, min(LARGEST, math.ceil(value * _UNITS[name]))


def _run_s(field: str, text: str | None) -> float:
    if not text:
        return 0.0
    found = seconds(text[:32])
    if found is None or found < 0:
        raise FairleadError(f"{field} is {text[:32]!r}; write a duration such as 10m")
    return min(found, LONGEST_RUN_S)
