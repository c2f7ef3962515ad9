"""What bench/shapes.py found: both sides of each shape, kept as JSON and printed as Markdown."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median

SIDES = ("kube-scheduler", "fairlead")
#: What no scheduler can beat: it writes, and decides nothing.
FLOOR = "bare client"
RATIOS = (
    "pods_per_s",
    "told_per_s",
    "cpu_ms_per_pod",
    "peak_rss_mib",
    "busy_share",
    "api_cpu_ms_per_pod",
    "etcd_cpu_ms_per_pod",
)


@dataclass(frozen=True, slots=True)
class Run:
    bound: int
    pods_per_s: float
    #: Until the last event is written.
    told_per_s: float
    cpu_ms_per_pod: float
    peak_rss_mib: float
    busy_share: float
    api_cpu_ms_per_pod: float
    etcd_cpu_ms_per_pod: float
    #: None: they were all there before.
    created_per_s: float | None = None


def beside(runs: dict[str, list[Run]], pods: int) -> dict:
    """All sides of a shape with this many measured pods: medians, and Fairlead's over the other."""
    medians = {side: _median(rounds) for side, rounds in runs.items()}
    sides = {side: medians[side] for side in SIDES}
    return {
        "pods": pods,
        "sides": sides,
        "floor": medians.get(FLOOR),
        "ratio": {field: _ratio(sides, field) for field in RATIOS},
        "rounds": {side: [asdict(run) for run in rounds] for side, rounds in runs.items()},
    }


def _median(rounds: list[Run]) -> dict:
    columns = {field.name: [getattr(run, field.name) for run in rounds] for field in fields(Run)}
    return {
        name: None if None in column else round(median(column), 3)
        for name, column in columns.items()
    }


def _ratio(sides: dict[str, dict], field: str) -> float | None:
    """Fairlead's figure over kube-scheduler's, if they bound as many pods."""
    kube, ours = (sides[side] for side in SIDES)
    if not kube["bound"] or kube["bound"] != ours["bound"] or not kube[field]:
        return None
    return round(ours[field] / kube[field], 3)


def keep_report(report: dict, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n")


def print_report(report: dict) -> None:
    """As Markdown, for docs/benchmarks.md."""
    print(f"\n{report['nodes']} nodes; Fairlead's profile {report['fairlead_profile']}")
    print("kube-scheduler → Fairlead (ratio); + means that it waited for pods to be created\n")
    figures = "pods a second | until told | CPU ms a pod | memory, MiB | busy | API ms | etcd ms"
    print(f"| shape | pods | {figures} |\n{9 * '|---'}|")
    for name, shape in report["shapes"].items():
        cells = [name, _bound(shape), *(_cell(shape, field) for field in RATIOS)]
        print(f"| {' | '.join(cells)} |")
        if floor := shape["floor"]:
            cells = [FLOOR, str(floor["bound"]), *(_figure(floor, field) for field in RATIOS)]
            print(f"| {' | '.join(cells)} |")
    print(f"\nagain: {report['command']}")


def _bound(shape: dict) -> str:
    bound = {side: run["bound"] for side, run in shape["sides"].items()}
    short = [f"{side} bound {count}" for side, count in bound.items() if count < shape["pods"]]
    return f"{shape['pods']}" + (f" ({', '.join(short)})" if short else "")


def _cell(shape: dict, field: str) -> str:
    kube, ours = (_figure(shape["sides"][side], field) for side in SIDES)
    ratio = shape["ratio"][field]
    return f"{kube} → {ours}" + (f" ({ratio:g})" if ratio is not None else "")


def _figure(run: dict, field: str) -> str:
    came = run["created_per_s"]
    waited = field == "pods_per_s" and came is not None and run[field] > 0.8 * came
    return f"{run[field]:g}" + ("+" if waited else "")
