"""The picture of `fairlead top`: a head with sums, and one table."""

from collections.abc import Sequence

from rich.text import Text

from fairlead.apps.top.selection import Chosen
from fairlead.apps.top.table import Column, lines
from fairlead.telemetry.report import HOUR_S, GpuRow, PodRow, SumRow, UsageReport, total
from fairlead.telemetry.rightsizing import span

_GIB = 1024
_UNKNOWN = "-"
_BAR = 8
#: Wide enough for advice beside the figures; else it has a line of its own.
WIDE = 150
_ADVISORY = "advisory"
_ADVICE = ("idle", "fewer-gpus", "smaller")


def render_usage(
    report: UsageReport, chosen: Chosen, width: int | None, height: int | None
) -> list[Text]:
    """Lines of at most that width, at most so many; None: whatever it takes."""
    top = [*_head(report), Text()]
    room = None if height is None else height - len(top)
    body = _table(chosen, width)
    if room is not None and len(body) > room:
        left = len(body) - room + 1
        body = [*body[: room - 1], Text(f"… {left} more lines; make the window taller", "dim")]
    for line in top:
        if width is not None:
            line.truncate(width, overflow="ellipsis")
    return [*top, *body]


def _head(report: UsageReport) -> list[Text]:
    held = total(report.pods, report.held)
    gpus = len(report.gpus)
    measured = sum(gpu.utilisation is not None for gpu in report.gpus)
    there = f"GPUs {gpus}   " if gpus else "GPUs "
    now = f"{there}allocated {held.held:.1f}"
    if held.measured:
        now += f"   in use {held.used:.1f} ({percent(held.utilisation)})"
    over = (
        f"in {span(report.since_s)}: GPU time allocated {_time(held.held_hours)}, "
        f"used {_time(held.used_hours)}, wasted {_time(held.wasted_hours)} "
        f"(fully idle {_time(held.idle_hours)})"
    )
    notes = [Text(note, "yellow") for note in report.notes]
    return [Text(now, "bold"), Text(over), *_missing(gpus, measured), *notes]


def _missing(gpus: int, measured: int) -> list[Text]:
    """What cannot be said, and what to do about it."""
    if measured == gpus:
        return []
    if not measured:
        return [
            Text(
                "no GPU readings: use a scheduler with telemetry (--scheduler), "
                "a Prometheus server (--prometheus), or a configuration with sources (--config)",
                "yellow",
            )
        ]
    return [Text(f"no readings of {gpus - measured} of the GPUs", "yellow")]


def _table(chosen: Chosen, width: int | None) -> list[Text]:
    if not chosen.rows:
        return [Text("nothing to show: no pod has a GPU, or the filters exclude all")]
    if chosen.by == "gpus":
        return lines(_gpu_columns(chosen.gpus), width)
    if chosen.by != "pods":
        return lines(_sum_columns(chosen.by, chosen.sums), width)
    if width is None or width >= WIDE:
        return lines(_pod_columns(chosen.pods, advice=True), width)
    return _with_advice(lines(_pod_columns(chosen.pods, advice=False), width), chosen.pods, width)


def _with_advice(found: list[Text], pods: Sequence[PodRow], width: int) -> list[Text]:
    """Below each pod that has any."""
    woven = found[:1]
    for line, pod in zip(found[1:], pods, strict=True):
        woven.append(line)
        if pod.advice.kind in _ADVICE:
            woven.append(Text(f"  ↳ {pod.advice.text}", "cyan"))
            woven[-1].truncate(width, overflow="ellipsis")
    return woven


# -- columns ---------------------------------------------------------------------------------------


def _gpu_columns(gpus: Sequence[GpuRow]) -> list[Column]:
    return [
        Column("GPU", [f"{gpu.node}/{gpu.index}" for gpu in gpus]),
        Column("MODEL", [_model(gpu.model) for gpu in gpus], leaves=5),
        Column("STATE", [_state(gpu.state) for gpu in gpus], leaves=7),
        *_isolation_column([gpu.isolation for gpu in gpus], _ADVISORY),
        Column("BOOKED", [_booked(gpu) for gpu in gpus], right=True),
        Column("USED", [_used(gpu) for gpu in gpus]),
        Column("MEMORY", [_memory(gpu.memory_used_mib, gpu.memory_mib) for gpu in gpus]),
        Column("BOOKED", [_gib(gpu.memory_booked_mib) for gpu in gpus], right=True, leaves=6),
        Column("POWER", [_watts(gpu.power_w) for gpu in gpus], right=True, leaves=4),
        Column("PODS", [_holders(gpu) for gpu in gpus]),
    ]


def _pod_columns(pods: Sequence[PodRow], *, advice: bool) -> list[Column]:
    columns = [
        Column("POD", [f"{pod.namespace}/{pod.name}" for pod in pods]),
        Column("NODE", [pod.node for pod in pods], leaves=4),
        Column("REQUEST", [pod.asked for pod in pods], right=True),
        *_isolation_column([pod.isolation for pod in pods]),
        Column("NOW", [_guess(pod, pod.utilisation) for pod in pods], right=True, leaves=3),
        Column("MEAN", [_guess(pod, pod.mean) for pod in pods], right=True),
        Column("P95", [_high(pod.high) for pod in pods], right=True, leaves=2),
        Column("MEMORY", [_memory(pod.memory_peak_mib, pod.memory_mib) for pod in pods], leaves=1),
        Column("IDLE FOR", [_span(pod.idle_for_s) for pod in pods], right=True),
        Column("IDLE", [_time(pod.idle_hours) for pod in pods], right=True, leaves=5),
        Column("WASTED", [_time(pod.wasted_hours) for pod in pods], right=True),
    ]
    if advice:
        columns.append(Column("ADVICE", [_advice(pod) for pod in pods]))
    return columns


def _isolation_column(kinds: Sequence[str], *usual: str) -> list[Column]:
    """What keeps shares apart; left out where there are no shares, or all is as usual."""
    return [Column("ISOLATION", kinds, leaves=8)] if {*kinds} - {"", *usual} else []


def _sum_columns(by: str, sums: Sequence[SumRow]) -> list[Column]:
    columns = [
        Column(by[:-1].upper(), [row.name for row in sums]),
        Column("PODS", [str(row.pods) for row in sums], right=True),
        Column("ALLOCATED", [f"{row.held:.1f}" for row in sums], right=True),
        Column("UTIL", [_level(row.utilisation) for row in sums]),
        Column("HELD", [_time(row.held_hours) for row in sums], right=True, leaves=1),
        Column("USED", [_time(row.used_hours) for row in sums], right=True, leaves=2),
        Column("IDLE", [_time(row.idle_hours) for row in sums], right=True, leaves=3),
        Column("WASTED", [_time(row.wasted_hours) for row in sums], right=True),
    ]
    if by == "nodes":
        columns.insert(2, Column("GPUS", [str(row.gpus or 0) for row in sums], right=True))
    return columns


# -- cells -----------------------------------------------------------------------------------------


def percent(share: float | None) -> str:
    return _UNKNOWN if share is None else f"{share:.0%}"


def _high(share: float | None) -> str:
    return _UNKNOWN if share is None else f"≤{share:.0%}"


def _time(hours: float) -> str:
    """GPU time, in the unit that reads well."""
    return f"{hours:.1f} h" if 1 <= hours < 10 else span(HOUR_S * hours)


def _guess(pod: PodRow, share: float | None) -> str:
    return ("~" if pod.guessed and share is not None else "") + percent(share)


def _level(share: float | None) -> Text:
    """A bar with its figure; the colour says whether that is much."""
    if share is None:
        return Text(_UNKNOWN, "dim")
    full = round(min(1.0, share) * _BAR)
    colour = "green3" if share >= 0.5 else "gold1" if share >= 0.05 else "grey50"
    return Text.assemble(("█" * full, colour), ("░" * (_BAR - full), "grey50"), f" {share:4.0%}")


def _used(gpu: GpuRow) -> Text:
    return Text("lost", "red") if gpu.state == "lost" else _level(gpu.utilisation)


def _booked(gpu: GpuRow) -> str:
    return _UNKNOWN if gpu.state == "counted" else percent(gpu.booked)


def _state(state: str) -> Text:
    return Text(state, "red" if state == "lost" else "")


def _memory(used_mib: float | None, of_mib: int) -> str:
    used = _UNKNOWN if used_mib is None else f"{used_mib / _GIB:.0f}"
    return f"{used}/{of_mib / _GIB:.0f} GiB" if of_mib else f"{used} GiB"


def _gib(mib: float) -> str:
    return f"{mib / _GIB:.0f} GiB" if mib else _UNKNOWN


def _watts(power_w: float | None) -> str:
    return _UNKNOWN if power_w is None else f"{power_w:.0f} W"


def _span(seconds: float | None) -> str:
    return "" if seconds is None else span(seconds)


def _holders(gpu: GpuRow) -> str:
    """Pods by name, and how much of it each has unless that is all."""
    return ", ".join(
        holder.pod if holder.part == "whole" else f"{holder.pod} ({holder.part})"
        for holder in gpu.holders
    )


def _advice(pod: PodRow) -> Text:
    return Text(pod.advice.text, "cyan" if pod.advice.kind in _ADVICE else "dim")


def _model(product: str) -> str:
    """The part that people say: H100, A100, L40S."""
    words = product.replace("NVIDIA", "").replace("-", " ").split()
    return next((word for word in words if any(c.isdigit() for c in word)), product)
