"""What the scheduler counts and times about itself."""

import time
from functools import lru_cache
from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram

from fairlead.apps.decision_log.recording import DecisionLog
from fairlead.apps.run.containment import Containment
from fairlead.engine import events, instructions
from fairlead.engine.attempts import Attempt, Outcome
from fairlead.engine.engine import Engine
from fairlead.engine.held_gpus import HeldKind
from fairlead.kube.gangs.status_writer import GangStatusWriter
from fairlead.kube.leadership.elector import Elector
from fairlead.kube.writes.binder import Binder
from fairlead.kube.writes.recorder import Recorder
from fairlead.model.gpus import WHOLE
from fairlead.model.pods import Pod
from fairlead.placement.disruption_units import gpus_of_pod, lost_s
from fairlead.queue.entries import Pool
from fairlead.telemetry.metrics import Metrics, Reading

if TYPE_CHECKING:
    from fairlead.apps.run.readings import Readings

_QUEUES = {
    Pool.ACTIVE: "active",
    Pool.BACKOFF: "backoff",
    Pool.WAITING: "unschedulable",
    Pool.GATED: "gated",
}


#: Where a newer kube-scheduler names what happened otherwise (`Behaviour.tells_target_pods`).
_RENAMED = {
    "UnschedulablePodAdd": "UnscheduledPodAdd",
    "UnschedulablePodUpdate": "TargetPodUpdate",
}


#: Levels of topologies with a series of their own.
_MOST_LEVELS = 32


class Measures:
    """Fills the metrics: times as things happen, sizes on each scrape."""

    def __init__(
        self,
        metrics: Metrics,
        engine: Engine,
        binder: Binder,
        recorder: Recorder,
        gangs: GangStatusWriter,
    ) -> None:
        self._gangs = gangs
        #: Levels that have a series of their own.
        self._levels: set[str] = set()
        self._metrics = metrics
        self._engine = engine
        self._binder = binder
        self._recorder = recorder
        self._binds: dict[str, tuple[float, str]] = {}
        self._expose()

    def attempt(self, attempt: Attempt, seconds: float) -> None:
        if attempt.outcome is Outcome.UNFINISHED:
            return
        result, scheduler = attempt.outcome.value, attempt.unit.pod.scheduler
        _counter(self._metrics.attempts, result, scheduler).inc()
        _histogram(self._metrics.attempt_seconds, result, scheduler).observe(seconds)
        if attempt.outcome is Outcome.UNSCHEDULABLE:
            self._metrics.preemption_attempts.inc()
        for level, count in attempt.spans.items():
            _histogram(self._metrics.gang_domains, self._level(level)).observe(count)

    def _level(self, label: str) -> str:
        """The label of the level, or one word for all beyond the first: users may name any."""
        if len(self._levels) < _MOST_LEVELS:
            self._levels.add(label)
        return label if label in self._levels else "other"

    def warned(self, reason: str) -> None:
        self._metrics.warnings.labels(reason).inc()

    def victims(self, count: int) -> None:
        self._metrics.preemption_victims.observe(count)

    def made_room(self, evict: instructions.Evict) -> None:
        """Whole units are evicted for a gang, or for a pod of a queue."""
        kind = "gang" if evict.pod.gang else "queue"
        now_s = time.time()
        lost = sum(gpus_of_pod(pod) * lost_s(pod, now_s) for pod in evict.victims)
        self._metrics.evicted_units_pods.labels(kind).inc(len(evict.victims))
        self._metrics.lost_gpu_seconds.labels(kind).inc(lost)

    def bind_started(self, pod: Pod) -> None:
        self._binds[pod.uid] = time.monotonic(), pod.scheduler

    def bind_ended(self, outcome: events.BindDone | events.BindFailed) -> None:
        started = self._binds.pop(outcome.uid, None)
        if started is not None:
            status = "Success" if isinstance(outcome, events.BindDone) else "Error"
            seconds = time.monotonic() - started[0]
            point_seconds = self._metrics.point_seconds
            _histogram(point_seconds, "Bind", status, started[1]).observe(seconds)

    def pod_scheduled(self, bound: instructions.AnnounceScheduled) -> None:
        attempts = str(bound.attempts) if bound.attempts < 15 else "15+"
        seconds = time.monotonic() - bound.first_queued_s
        self._metrics.pod_attempts.observe(bound.attempts)
        _histogram(self._metrics.pod_seconds, attempts).observe(seconds)

    def watch_leader(self, elector: Elector) -> None:
        self._metrics.watch_gauge(
            "leader_election_master_status",
            "1 if this process is the leader, by name of the Lease.",
            ("name",),
            lambda: {(elector.terms.name,): float(elector.leads())},
        )

    def watch_containment(self, containment: Containment) -> None:
        """What broke, by what was being done, and what was done about it."""
        gauge, counter = self._metrics.watch_gauge, self._metrics.watch_counter
        counter(
            "fairlead_internal_errors",
            "Unexpected errors, each limited to one object, by operation.",
            ("doing",),
            lambda: {(doing,): float(n) for doing, n in containment.failures.counts.items()},
        )
        counter(
            "fairlead_engine_rebuilds",
            "Rebuilds of the engine from the cache after an internal error.",
            (),
            lambda: {(): float(containment.rebuilds)},
        )
        gauge(
            "fairlead_objects_left_out",
            "Objects left out because they caused an internal error twice.",
            (),
            lambda: {(): float(containment.left_out())},
        )

    def watch_decision_log(self, decisions: DecisionLog) -> None:
        counter = self._metrics.watch_counter
        counter(
            "fairlead_decision_log_bytes",
            "Bytes of the decision log that were written.",
            (),
            lambda: {(): float(decisions.written_bytes)},
        )
        counter(
            "fairlead_decision_log_gaps",
            "Times that the decision log broke off, until a new run begins.",
            (),
            lambda: {(): float(decisions.gaps)},
        )

    def watch_readings(self, readings: "Readings") -> None:
        """By source: its readings, those that are not believed, and whether it is in use."""
        gauge, counter = self._metrics.watch_gauge, self._metrics.watch_counter
        gauge(
            "fairlead_telemetry_age_seconds",
            "Seconds since the last successful read of the source.",
            ("source",),
            lambda: {(name,): age for name in readings.last if (age := readings.age_s(name))},
        )
        gauge(
            "fairlead_telemetry_cut_off",
            "1 while the source is ignored because it fails or its values are impossible.",
            ("source",),
            lambda: {(name,): float(last.cut_off) for name, last in readings.last.items()},
        )
        counter(
            "fairlead_telemetry_readings",
            "GPU readings accepted.",
            ("source",),
            lambda: {(name,): count for name, count in readings.gpus.items()},
        )
        counter(
            "fairlead_telemetry_rejected",
            "Values of a source that were rejected, by reason.",
            ("source", "why"),
            lambda: {labels: float(count) for labels, count in readings.rejected.items()},
        )

    def _expose(self) -> None:
        gauge, counter = self._metrics.watch_gauge, self._metrics.watch_counter
        gauge("scheduler_pending_pods", "Pending pods, by queue.", ("queue",), self._pending)
        counter(
            "scheduler_queue_incoming_pods",
            "Pods added to a queue, by event.",
            ("queue", "event"),
            self._incoming,
        )
        gauge("scheduler_cache_size", "Objects in the cache.", ("type",), self._cache_size)
        gauge(
            "fairlead_nodes_crowded",
            "Nodes that are not used because they came with too many pods.",
            (),
            lambda: {(): float(len(self._engine.cluster.crowded))},
        )
        gauge(
            "fairlead_gpus_fragmented",
            "Free GPUs that a typical pod cannot use.",
            ("node",),
            self._fragments,
        )
        gauge(
            "fairlead_gpu_fragmentation_ratio",
            "Fraction of all free GPUs that a typical pod cannot use.",
            (),
            self._fragment_ratio,
        )
        counter("fairlead_writes", "Writes to the API server.", ("kind", "result"), self._writes)
        counter(
            "fairlead_consolidation_moves",
            "Pods moved so that waiting ones could start.",
            (),
            lambda: {(): float(self._engine.moved.moves)},
        )
        counter(
            "fairlead_consolidation_lost_gpu_seconds",
            "Work lost by these moves: GPU-seconds since the last checkpoint or start.",
            (),
            lambda: {(): self._engine.moved.gpu_seconds},
        )

        self._expose_starts()
        self._expose_held()

    def _expose_starts(self) -> None:
        counter, engine = self._metrics.watch_counter, self._engine
        counter(
            "fairlead_start_forecasts",
            "Forecasts of starts that were judged, by how long ahead they were made.",
            ("ahead", "result"),
            lambda: {labels: float(n) for labels, n in engine.start_record.counts.items()},
        )
        counter(
            "fairlead_start_forecast_error_seconds",
            "Sum of the differences between forecast and actual starts.",
            ("ahead",),
            lambda: {(ahead,): float(s) for ahead, s in engine.start_record.errors_s.items()},
        )

    def _expose_held(self) -> None:
        engine = self._engine
        self._metrics.watch_gauge(
            "fairlead_kept_free_gpus",
            "Free GPUs that are kept for a unit or a reservation.",
            ("kept_for",),
            self._held,
        )
        self._metrics.watch_counter(
            "fairlead_kept_free_gpu_seconds",
            "GPU-seconds that were kept free for a unit or a reservation.",
            ("kept_for",),
            lambda: {(kind.value,): engine.held_gpus.totals.get(kind, 0.0) for kind in HeldKind},
        )

    def _held(self) -> Reading:
        held = [*self._engine.held_gpus]
        return {
            (kind.value,): sum(each.gpus for each in held if each.kind is kind) for kind in HeldKind
        }

    def _pending(self) -> Reading:
        counts = self._engine.queue.counts()
        return {(name,): counts[pool] for pool, name in _QUEUES.items()}

    def _incoming(self) -> Reading:
        entered = self._engine.queue.entered
        renamed = _RENAMED if self._engine.cluster.behaviour.tells_target_pods else {}
        return {
            (_QUEUES[pool], renamed.get(cause, cause)): count
            for (pool, cause), count in entered.items()
        }

    def _cache_size(self) -> Reading:
        cluster = self._engine.cluster
        return {
            ("nodes",): len(cluster),
            ("pods",): len(cluster.holdings),
            ("assumed_pods",): len(self._binds),
        }

    def _fragments(self) -> Reading:
        """Nothing before enough pods were seen to know what is typical."""
        cluster = self._engine.cluster
        found = cluster.nodes.fragments_milli()
        if found is None:
            return {}
        rows = cluster.row_of.items()
        return {(name,): round(found[row]) / WHOLE for name, row in rows if found[row] >= 1}

    def _fragment_ratio(self) -> Reading:
        nodes = self._engine.cluster.nodes
        found, free = nodes.fragments_milli(), int(nodes.gpu_room().sum())
        return {} if found is None or not free else {(): float(found.sum()) / free}

    def _writes(self) -> Reading:
        binds, told, gangs = self._binder.stats, self._recorder.stats, self._gangs.tally
        return {
            ("bind", "bound"): binds.bound,
            ("bind", "denied"): binds.denied,
            ("bind", "conflict"): binds.conflicts,
            ("bind", "lost_reply"): binds.lost_replies,
            ("bind", "retried"): binds.retries,
            ("event", "written"): told.events.written,
            ("event", "dropped"): told.events.dropped,
            ("condition", "written"): told.conditions.written,
            ("condition", "dropped"): told.conditions.dropped,
            ("gang", "written"): gangs.written,
            ("gang", "dropped"): gangs.dropped,
        }


# Finding a child by its labels takes longer than counting with it, and both are done for each pod.
@lru_cache(maxsize=1024)
def _counter(metric: Counter, *labels: str) -> Counter:
    return metric.labels(*labels)


@lru_cache(maxsize=1024)
def _histogram(metric: Histogram, *labels: str) -> Histogram:
    return metric.labels(*labels)
