"""What bench/shapes.py found: both sides of each shape, kept as JSON and printed as Markdown."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

SIDES = ("kube-scheduler", "fairlead")
RATIOS = ("pods_per_s", "cpu_ms_per_pod", "peak_rss_mib", "busy_share", "api_cpu_ms_per_pod")


@dataclass(frozen=True, slots=True)
class Run:
    bound: int
    pods_per_s: float
    cpu_ms_per_pod: float
    peak_rss_mib: float
    busy_share: float
    api_cpu_ms_per_pod: float
    #: None: they were all there before.
    created_per_s: float | None = None


def beside(runs: dict[str, Run], pods: int) -> dict:
    """Both sides of a shape with this many measured pods."""
    return {
        "pods": pods,
        "sides": {side: asdict(runs[side]) for side in SIDES},
        "ratio": {field: _ratio(runs, field) for field in RATIOS},
    }


def _ratio(runs: dict[str, Run], field: str) -> float | None:
    """Fairlead's figure over kube-scheduler's, if they bound as many pods."""
    kube, ours = (runs[side] for side in SIDES)
    if not kube.bound or kube.bound != ours.bound:
        return None
    return round(getattr(ours, field) / getattr(kube, field), 3)


def keep_report(report: dict, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n")


def print_report(report: dict) -> None:
    """As Markdown, for docs/benchmarks.md."""
    print(f"\n{report['nodes']} nodes; Fairlead's profile {report['fairlead_profile']}")
    print("kube-scheduler → Fairlead (ratio); + means that it waited for pods to be created\n")
    print("| shape | pods | pods a second | CPU ms a pod | peak memory, MiB | busy | API CPU ms |")
    print("|---|---|---|---|---|---|---|")
    for name, shape in report["shapes"].items():
        cells = [name, _bound(shape), *(_cell(shape, field) for field in RATIOS)]
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
