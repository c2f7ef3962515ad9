"""The engine run forward from the state of a cluster, with and without changes."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from fairlead.apps.config.run_plan import RunPlan
from fairlead.apps.live.engine_ahead import engine_ahead
from fairlead.cluster.claim_charges import held_milli
from fairlead.engine.engine import Engine
from fairlead.engine.events import Event
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.placement.disruption_units import gpus_of_pod, lost_s
from fairlead.sim.virtual.jobs import JobRecord
from fairlead.sim.virtual.live_state import AssumedRunTimes, RunLength, begin_with

_RUNNING = " (running)"


@dataclass(frozen=True, slots=True)
class Horizon:
    """How far it looks, and what is taken for unknown run times; None: for ever."""

    until_s: float = 86_400.0
    unknown_s: float | None = None
    #: Seconds of this machine that one look may take.
    most_s: float = 5.0
    #: Which of the possible run times are taken where some are known.
    lengths: RunLength = RunLength.EXPECTED


@dataclass(frozen=True, slots=True)
class UnitOutlook:
    """What becomes of one unit. Times are seconds from now."""

    name: str
    gpus: float
    queue: str
    #: It runs now.
    runs: bool
    start_s: float | None
    nodes: tuple[str, ...]
    evictions: int
    #: GPU-seconds of work that an eviction now would lose.
    at_stake_s: float = 0.0
    #: When it starts again after its last eviction.
    again_s: float | None = None


@dataclass(slots=True)
class ClusterOutlook:
    units: dict[str, UnitOutlook] = field(default_factory=dict)
    #: GPU-seconds that pods hold until the horizon.
    held_gpu_s: float = 0.0
    #: GPUs of all nodes.
    gpus: int = 0
    #: How far it was computed.
    until_s: float = 0.0

    @property
    def waiting(self) -> list[UnitOutlook]:
        return [unit for unit in self.units.values() if not unit.runs]


def look_ahead(
    events: Iterable[Event], planned: RunPlan, horizon: Horizon, wall_s: float
) -> ClusterOutlook:
    """What happens if nothing else does. The events are those that show the cluster now."""
    engine = engine_ahead(events, planned, wall_s)
    pods = {pod.key: pod for pod in _known_pods(engine)}
    queues = _queues(engine, pods.values())
    stakes = _stakes(engine, wall_s)
    assumed = AssumedRunTimes(horizon.unknown_s, horizon.unknown_s, horizon.lengths)
    cluster = begin_with(engine, now_s=0.0, assumed=assumed)
    cluster.decide_now()
    deadline = time.monotonic() + horizon.most_s
    while time.monotonic() < deadline:
        if not cluster.step(horizon.until_s):
            cluster.run_until(horizon.until_s)
            break
    meter = cluster.result.meter
    found = ClusterOutlook(
        until_s=cluster.now_s, held_gpu_s=meter.used_gpu_s, gpus=meter.total_gpus
    )
    for record in cluster.result.records.values():
        unit = _unit(record, queues, stakes)
        found.units[record.name] = unit
    return found


def _known_pods(engine: Engine) -> Iterable[Pod]:
    yield from (held.pod for held in engine.cluster.holdings.values())
    for entry in engine.queue.entries():
        yield from entry.unit.pods


def _queues(engine: Engine, pods: Iterable[Pod]) -> dict[str, str]:
    """The queue of each unit, by name of the unit."""
    if not engine.queues.is_active:
        return {}
    return {unit_name(pod): engine.queues.names.of(pod).partition("/")[2] for pod in pods}


def _stakes(engine: Engine, wall_s: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for held in engine.cluster.holdings.values():
        name = unit_name(held.pod)
        found[name] = found.get(name, 0.0) + _gpus(engine, held.pod) * lost_s(held.pod, wall_s)
    return found


def _gpus(engine: Engine, pod: Pod) -> float:
    """With those of its claims."""
    uses = pod.request.claims
    claimed = held_milli(pod.uid, uses, engine.cluster.claims) / WHOLE if uses else 0.0
    return gpus_of_pod(pod) + claimed


def unit_name(pod: Pod) -> str:
    return pod.gang.gang if pod.gang else pod.key


def _unit(record: JobRecord, queues: Mapping[str, str], stakes: Mapping[str, float]) -> UnitOutlook:
    runs = record.name.endswith(_RUNNING)
    name = record.name.removesuffix(_RUNNING)
    return UnitOutlook(
        name,
        record.gpus,
        queues.get(name, ""),
        runs,
        record.start_s,
        tuple(record.nodes) if record.start_s is not None else (),
        record.evictions,
        stakes.get(name, 0.0),
        record.end_s - record.run_s if record.evictions and record.end_s is not None else None,
    )


@dataclass(frozen=True, slots=True)
class UnitChange:
    """One unit, before and after the changes; None: it is not there."""

    name: str
    before: UnitOutlook | None
    after: UnitOutlook | None

    @property
    def any(self) -> UnitOutlook:
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def later_s(self) -> float | None:
        """How much later it starts; None where that cannot be said."""
        if self.before is None or self.after is None:
            return None
        if self.before.start_s is None or self.after.start_s is None:
            return None
        return self.after.start_s - self.before.start_s

    @property
    def effect(self) -> str:
        before, after = self.before, self.after
        if before is None:
            return "new" if after and after.start_s is not None else "new, does not start"
        if after is None:
            return "gone"
        if after.evictions > before.evictions or (before.runs and not after.runs):
            return "evicted"
        if before.start_s is None or after.start_s is None:
            return "" if before.start_s == after.start_s else _lost_or_won(after)
        if abs(after.start_s - before.start_s) >= 1.0:
            return "later" if after.start_s > before.start_s else "earlier"
        return "elsewhere" if sorted(after.nodes) != sorted(before.nodes) else ""


def _lost_or_won(after: UnitOutlook) -> str:
    return "starts" if after.start_s is not None else "does not start"


def compared(before: ClusterOutlook, after: ClusterOutlook) -> list[UnitChange]:
    """Every unit, in the order of the state without changes; new ones first."""
    names = dict.fromkeys((*after.units, *before.units))
    found = [_change(name, before.units, after.units) for name in names]
    return sorted(filter(None, found), key=lambda change: change.before is not None)


def _change(
    name: str, before: Mapping[str, UnitOutlook], after: Mapping[str, UnitOutlook]
) -> UnitChange | None:
    """A unit that runs before and waits after is one unit."""
    plain, running = name.removesuffix(_RUNNING), f"{name.removesuffix(_RUNNING)}{_RUNNING}"
    displaced = running in before and running not in after and plain in after
    if displaced and plain not in before:
        return None if name == running else UnitChange(plain, before[running], after[plain])
    return UnitChange(plain, before.get(name), after.get(name))


def mean_wait_s(outlook: ClusterOutlook, names: Sequence[str]) -> float | None:
    """Of these units, those that do not start counted until the horizon."""
    waits = [outlook.until_s if unit.start_s is None else unit.start_s
             for unit in outlook.waiting if unit.name in names]  # fmt: skip
    return sum(waits) / len(waits) if waits else None
