"""What the cluster's GPUs are given to, and how much of that is at work, looked up when asked.

By model and by namespace. The agent exports single GPUs, and `fairlead top` shows pods.
"""

from collections.abc import Callable, Mapping

from fairlead.apps.run.usage import HeldTotals, Usage
from fairlead.telemetry import allocation
from fairlead.telemetry.allocation import STATES, ModelSums
from fairlead.telemetry.metrics import Metrics, Reading

#: All that one scrape asks for is counted once.
_SAME_SCRAPE_S = 1.0


def expose(metrics: Metrics, usage: Usage) -> None:
    """Adds them to what is served."""
    gpus = _Gpus(usage)
    gauge, counter = metrics.watch_gauge, metrics.watch_counter
    gauge(
        "fairlead_gpus",
        "GPUs by allocation state.",
        ("model", "state"),
        gpus.gpus,
    )
    gauge(
        "fairlead_gpus_allocated",
        "GPUs allocated to pods; half a GPU counts 0.5.",
        ("model",),
        gpus.by_model(lambda sums: sums.allocated),
    )
    gauge(
        "fairlead_gpus_measured",
        "Allocated GPUs that have readings.",
        ("model",),
        gpus.by_model(lambda sums: sums.measured),
    )
    gauge(
        "fairlead_gpus_used",
        "Allocated GPUs in use, as measured.",
        ("model",),
        gpus.by_model(lambda sums: sums.used),
    )
    gauge(
        "fairlead_gpus_wasted",
        "GPUs allocated to pods and not used.",
        ("model",),
        gpus.by_model(lambda sums: sums.wasted),
    )
    gauge(
        "fairlead_gpu_readings",
        "GPUs by age of their readings.",
        ("state",),
        gpus.readings,
    )
    gauge(
        "fairlead_gpu_readings_age_seconds",
        "Seconds since the latest reading of any GPU.",
        (),
        gpus.age,
    )
    _expose_holders(gauge, counter, gpus)


_Watch = Callable[[str, str, tuple[str, ...], Callable[[], Reading]], None]


def _expose_holders(gauge: _Watch, counter: _Watch, gpus: "_Gpus") -> None:
    labels = ("pod_namespace", "scheduler")
    gauge(
        "fairlead_gpus_held",
        "GPUs allocated to pods, by namespace and scheduler.",
        labels,
        gpus.by_holder(lambda held: held.held),
    )
    gauge(
        "fairlead_gpus_held_measured",
        "Allocated GPUs that have readings, by namespace and scheduler.",
        labels,
        gpus.by_holder(lambda held: held.measured),
    )
    gauge(
        "fairlead_gpus_held_used",
        "Allocated GPUs in use, as measured, by namespace and scheduler.",
        labels,
        gpus.by_holder(lambda held: held.used),
    )
    counter(
        "fairlead_gpu_held_seconds",
        "GPU seconds allocated to pods.",
        labels,
        gpus.by_holder(lambda held: held.held_s),
    )
    counter(
        "fairlead_gpu_wasted_seconds",
        "GPU seconds allocated to pods and not used.",
        labels,
        gpus.by_holder(lambda held: held.wasted_s),
    )
    counter(
        "fairlead_gpu_idle_seconds",
        "GPU seconds allocated to pods that used none of their GPUs.",
        labels,
        gpus.by_holder(lambda held: held.idle_s),
    )


class _Gpus:
    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._counted: tuple[float, Mapping[str, ModelSums]] | None = None

    def gpus(self) -> Reading:
        return {
            (model, state): count
            for model, sums in self._models().items()
            for state, count in zip(STATES, sums.gpus, strict=True)
        }

    def by_model(self, amount: Callable[[ModelSums], float]) -> Callable[[], Reading]:
        return lambda: {(model,): amount(sums) for model, sums in self._models().items()}

    def by_holder(self, amount: Callable[[HeldTotals], float]) -> Callable[[], Reading]:
        """As of the last look at all pods."""
        return lambda: {name: amount(held) for name, held in self._usage.sums.items()}

    def readings(self) -> Reading:
        counts, _ = allocation.freshness(self._usage.cluster, self._usage.clock())
        return {(state,): count for state, count in counts.items()}

    def age(self) -> Reading:
        _, age_s = allocation.freshness(self._usage.cluster, self._usage.clock())
        return {} if age_s is None else {(): age_s}

    def _models(self) -> Mapping[str, ModelSums]:
        now_s = self._usage.clock()
        if self._counted is None or now_s - self._counted[0] > _SAME_SCRAPE_S:
            self._counted = now_s, allocation.by_model(self._usage.cluster, now_s)
        return self._counted[1]
