"""What a Prometheus server reads from a node's agent."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.nvml.facts import GpuFacts, GpuSample

_GPU = ("node", "uuid", "gpu", "model")
#: A uid names no pod to users who may not list pods; names are opt-in.
_POD = ("node", "uuid", "gpu", "pod_uid")
_NAMES = ("namespace", "pod")
_UNASSIGNED = ("node", "uuid", "gpu", "pid")
Family = GaugeMetricFamily | CounterMetricFamily
#: Values by labels, after the node.
Rows = Sequence[tuple[tuple[str, ...], float | None]]


@dataclass(frozen=True, slots=True)
class PodUse:
    """What one pod does on one GPU, or on one slice of it."""

    uuid: str
    gpu: str
    pod_uid: str
    namespace: str
    pod: str
    #: None where NVML does not report it.
    utilization: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class UnassignedUse:
    """A process on a GPU that was not assigned to its pod."""

    uuid: str
    gpu: str
    pid: int
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The last complete look at a machine."""

    taken_s: float
    gpus: tuple[GpuFacts, ...] = ()
    #: GPUs that no pod may get now.
    sick: frozenset[str] = frozenset()
    samples: tuple[GpuSample, ...] = ()
    pods: tuple[PodUse, ...] = ()
    unassigned: tuple[UnassignedUse, ...] = ()


@dataclass(slots=True)
class AgentMetrics:
    """Shows the report that it was last given. What NVML does not report is left out, never 0."""

    node: str
    clock: Callable[[], float]
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    report: AgentReport | None = None
    #: Whether pods are shown by name, and not by uid alone.
    names_pods: bool = False
    #: How often a new process for NVML had to be started.
    restarts: Callable[[], int] = int
    #: Unexpected errors, by what was being done.
    errors: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.registry.register(_Shown(self))


class _Shown(Collector):
    def __init__(self, metrics: AgentMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        metrics = self._metrics
        report = metrics.report or AgentReport(0.0)
        for family, rows in (
            *_gpus(report),
            *_pods(report, names=metrics.names_pods),
            *_unassigned(report),
        ):
            for labels, value in rows:
                if value is not None:
                    family.add_metric((metrics.node, *labels), value)
            yield family
        age = GaugeMetricFamily(
            "fairlead_agent_reading_age_seconds", "Age of the readings.", labels=("node",)
        )
        if metrics.report is not None:
            age.add_metric((metrics.node,), max(0.0, metrics.clock() - report.taken_s))
        yield age
        restarts = CounterMetricFamily(
            "fairlead_agent_nvml_starts",
            "Processes started to read NVML; each after the first because one failed.",
            labels=("node",),
        )
        restarts.add_metric((metrics.node,), metrics.restarts())
        yield restarts
        errors = CounterMetricFamily(
            "fairlead_agent_internal_errors",
            "Unexpected errors, each limited to one object.",
            labels=("node", "doing"),
        )
        for doing, count in metrics.errors.items():
            errors.add_metric((metrics.node, doing), count)
        yield errors


def _gpus(report: AgentReport) -> Iterator[tuple[Family, Rows]]:
    names = {gpu.uuid: (gpu.uuid, str(gpu.index), gpu.model) for gpu in report.gpus}
    shown = [(names[each.uuid], each) for each in report.samples if each.uuid in names]
    parts = [
        ((part.uuid, name[1], part.name), part) for name, each in shown for part in each.slices
    ]
    yield (
        _gauge(
            "fairlead_gpu_utilization_ratio", "Fraction of the time that the GPU was busy.", _GPU
        ),
        [(name, each.utilization) for name, each in shown],
    )
    yield (
        _gauge(
            "fairlead_gpu_memory_busy_ratio",
            "Fraction of the time that its memory was read or written.",
            _GPU,
        ),
        [(name, each.memory_busy) for name, each in shown],
    )
    held = [(name, part.memory_used_bytes, part.memory_total_bytes) for name, part in parts]
    held += [(name, each.memory_used_bytes, each.memory_total_bytes) for name, each in shown]
    yield (
        _gauge("fairlead_gpu_memory_used_bytes", "Memory in use, of a GPU or MIG slice.", _GPU),
        [(name, used) for name, used, _ in held],
    )
    yield (
        _gauge("fairlead_gpu_memory_total_bytes", "Total memory of a GPU or MIG slice.", _GPU),
        [(name, total) for name, _, total in held],
    )
    yield (
        _gauge("fairlead_gpu_power_watts", "Power draw of the GPU.", _GPU),
        [(name, each.power_w) for name, each in shown],
    )
    yield (
        _gauge("fairlead_gpu_temperature_celsius", "Temperature of the GPU.", _GPU),
        [(name, each.temperature_c) for name, each in shown],
    )
    yield (
        _gauge("fairlead_gpu_healthy", "1 for a healthy GPU, otherwise 0.", _GPU),
        [(name, float(uuid not in report.sick)) for uuid, name in names.items()],
    )
    yield (
        CounterMetricFamily(
            "fairlead_gpu_nvlink_bytes", "Bytes over NVLink.", labels=(*_GPU, "direction")
        ),
        [
            ((*name, way), float(amount))
            for name, each in shown
            for way, amount in each.nvlink_bytes.items()
        ],
    )


def _pods(report: AgentReport, *, names: bool) -> Iterator[tuple[Family, Rows]]:
    labels = (*_POD, *_NAMES) if names else _POD
    named = [
        ((use.uuid, use.gpu, use.pod_uid, *((use.namespace, use.pod) if names else ())), use)
        for use in report.pods
    ]
    yield (
        _gauge(
            "fairlead_gpu_pod_utilization_ratio",
            "Fraction of the time that a pod's processes kept the GPU busy.",
            labels,
        ),
        [(name, use.utilization) for name, use in named],
    )
    yield (
        _gauge(
            "fairlead_gpu_pod_memory_used_bytes", "GPU memory that a pod's processes use.", labels
        ),
        [(name, use.memory_bytes) for name, use in named],
    )


def _unassigned(report: AgentReport) -> Iterator[tuple[Family, Rows]]:
    yield (
        _gauge(
            "fairlead_gpu_unassigned_memory_used_bytes",
            "GPU memory of a process whose pod was not assigned the GPU.",
            _UNASSIGNED,
        ),
        [((use.uuid, use.gpu, str(use.pid)), use.memory_bytes) for use in report.unassigned],
    )


def _gauge(name: str, text: str, labels: tuple[str, ...]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)
