"""What a Prometheus server reads here, under kube-scheduler's names: its boards keep working."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

Reading = Mapping[tuple[str, ...], float]


def _powers(first: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(first * factor**power for power in range(count))


class Metrics:
    """Counters that the driver feeds as it works, on a registry of their own."""

    def __init__(self) -> None:
        # kube-scheduler has no _created series.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.attempts = Counter(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods, by result and profile.",
            ("result", "profile"),
            registry=self.registry,
        )
        self.attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Seconds to decide one attempt.",
            ("result", "profile"),
            buckets=_powers(0.001, 2, 15),
            registry=self.registry,
        )
        self.pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts until a pod was scheduled.",
            buckets=_powers(1, 2, 5),
            registry=self.registry,
        )
        self.pod_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Seconds from when a pod can be scheduled until it is bound.",
            ("attempts",),
            buckets=_powers(0.01, 2, 20),
            registry=self.registry,
        )
        self.point_seconds = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Seconds of a stage; for Bind, of the write to the API server.",
            ("extension_point", "status", "profile"),
            buckets=_powers(0.0001, 2, 12),
            registry=self.registry,
        )
        self.gang_domains = Histogram(
            "fairlead_gang_domains",
            "Domains that a gang with topology rules was placed in, by level.",
            ("level",),
            buckets=_powers(1, 2, 8),
            registry=self.registry,
        )
        self.preemption_attempts = Counter(
            "scheduler_preemption_attempts",
            "Failed attempts that searched for pods to evict.",
            registry=self.registry,
        )
        self.mismatches = Counter(
            "fairlead_cache_mismatches",
            "Errors that the continuous check found and repaired.",
            ("what",),
            registry=self.registry,
        )
        self.warnings = Counter(
            "fairlead_pod_warnings",
            "Warning events about pods that are otherwise not affected, by reason.",
            ("reason",),
            registry=self.registry,
        )
        self.preemption_victims = Histogram(
            "scheduler_preemption_victims",
            "Pods evicted together for one pod.",
            buckets=_powers(1, 2, 7),
            registry=self.registry,
        )
        self.evicted_units_pods = Counter(
            "fairlead_making_room_victims",
            "Pods evicted as whole units to make room, by kind: gang or queue.",
            ["kind"],
            registry=self.registry,
        )
        self.lost_gpu_seconds = Counter(
            "fairlead_making_room_lost_gpu_seconds",
            "Work lost by these evictions: GPU-seconds since the last checkpoint or start.",
            ["kind"],
            registry=self.registry,
        )

    def watch_gauge(
        self, name: str, text: str, labels: tuple[str, ...], read: Callable[[], Reading]
    ) -> None:
        """A number that is looked up when it is asked for."""
        self.registry.register(_LookedUp(GaugeMetricFamily, name, text, labels, read))

    def watch_counter(
        self, name: str, text: str, labels: tuple[str, ...], read: Callable[[], Reading]
    ) -> None:
        """The same for a number that only grows."""
        self.registry.register(_LookedUp(CounterMetricFamily, name, text, labels, read))


class _LookedUp(Collector):
    def __init__(
        self,
        family: type[GaugeMetricFamily] | type[CounterMetricFamily],
        name: str,
        text: str,
        labels: tuple[str, ...],
        read: Callable[[], Reading],
    ) -> None:
        self._family, self._name, self._text = family, name, text
        self._labels, self._read = labels, read

    def collect(self) -> Iterable[Metric]:
        family = self._family(self._name, self._text, labels=self._labels)
        for labels, value in self._read().items():
            family.add_metric(labels, value)
        yield family
