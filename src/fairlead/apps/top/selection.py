"""Which rows, and in which order."""

from collections.abc import Callable, Sequence
from typing import Any

from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.report import (
    GpuRow,
    PodRow,
    SumRow,
    UsageReport,
    by_namespace,
    by_node,
    by_owner,
)

Key = Callable[[Any], Any]

_GPU_KEYS: dict[str, Key] = {
    "name": lambda gpu: (gpu.node, gpu.index),
    "used": lambda gpu: _down(gpu.utilisation),
    "booked": lambda gpu: _down(gpu.booked),
    "wasted": lambda gpu: _down(None if gpu.utilisation is None else _waste(gpu)),
    "memory": lambda gpu: _down(gpu.memory_used_mib),
    "power": lambda gpu: _down(gpu.power_w),
}
_POD_KEYS: dict[str, Key] = {
    "name": lambda pod: (pod.namespace, pod.name),
    "used": lambda pod: _down(pod.mean),
    "booked": lambda pod: _down(pod.held),
    "wasted": lambda pod: _down(pod.wasted_hours),
    "idle": lambda pod: _down(pod.idle_hours),
    "memory": lambda pod: _down(pod.memory_peak_mib),
}
_SUM_KEYS: dict[str, Key] = {
    "name": lambda row: row.name,
    "used": lambda row: _down(row.utilisation),
    "booked": lambda row: _down(row.held),
    "wasted": lambda row: _down(row.wasted_hours),
    "idle": lambda row: _down(row.idle_hours),
}
#: What each view can be sorted by; the first is the default.
SORTS: dict[str, tuple[str, dict[str, Key]]] = {
    "pods": ("wasted", _POD_KEYS),
    "gpus": ("name", _GPU_KEYS),
    "nodes": ("name", _SUM_KEYS),
    "namespaces": ("wasted", _SUM_KEYS),
    "owners": ("wasted", _SUM_KEYS),
    # Sorted where they are listed.
    "claims": ("name", {"name": str, "booked": len}),
}


@dataclass(frozen=True, slots=True)
class Selection:
    """What the user selected."""

    by: str = "pods"
    sort: str = ""
    node: str = ""
    namespace: str = ""

    def __post_init__(self) -> None:
        if self.by not in SORTS:
            raise ConfigError(f"--by {self.by}: choose one of {', '.join(SORTS)}")
        keys = SORTS[self.by][1]
        if self.sort and self.sort not in keys:
            raise ConfigError(f"--sort {self.sort}: sort {self.by} by {', '.join(keys)}")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows of one kind; the other kinds are empty."""

    by: str
    gpus: Sequence[GpuRow] = ()
    pods: Sequence[PodRow] = ()
    sums: Sequence[SumRow] = ()

    @property
    def rows(self) -> Sequence[GpuRow | PodRow | SumRow]:
        return self.gpus or self.pods or self.sums


def narrowed(report: UsageReport, selection: Selection) -> UsageReport:
    """Only what the filters let through."""
    pods = [
        pod
        for pod in report.pods
        if selection.node in ("", pod.node) and selection.namespace in ("", pod.namespace)
    ]
    gpus = [
        gpu
        for gpu in report.gpus
        if selection.node in ("", gpu.node)
        and (
            not selection.namespace or any(_is_in(h.pod, selection.namespace) for h in gpu.holders)
        )
    ]
    held = [row for row in report.held if selection.namespace in ("", row.namespace)]
    # Where pods that have ended were is not known.
    return UsageReport(report.since_s, gpus, pods, report.notes, [] if selection.node else held)


def select_rows(report: UsageReport, selection: Selection) -> Chosen:
    """Sorted, of a report that is narrowed already; equal ones by name."""
    usual, keys = SORTS[selection.by]
    order, named = keys[selection.sort or usual], keys["name"]

    def ordered(rows: Sequence[Any]) -> list[Any]:
        return sorted(rows, key=lambda row: (order(row), named(row)))

    match selection.by:
        case "gpus":
            return Chosen("gpus", gpus=ordered(report.gpus))
        case "pods":
            return Chosen("pods", pods=ordered(report.pods))
        case "nodes":
            return Chosen("nodes", sums=ordered(by_node(report.pods, report.gpus)))
        case "namespaces":
            return Chosen("namespaces", sums=ordered(by_namespace(report.pods, report.held)))
        case _:
            return Chosen("owners", sums=ordered(by_owner(report.pods)))


def _down(value: float | None) -> tuple[bool, float]:
    """The largest first, the unknown last."""
    return value is None, -(value or 0.0)


def _waste(gpu: GpuRow) -> float:
    return max(0.0, gpu.booked - (gpu.utilisation or 0.0))


def _is_in(pod: str, namespace: str) -> bool:
    return pod.startswith(f"{namespace}/")
