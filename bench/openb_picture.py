"""Draws how many GPUs each policy allocates while pods come, for the docs."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

WIDTH, HEIGHT, LEFT, TOP, RIGHT = 760, 220, 50, 34, 240
COLOURS = {
    "Random": "#b8bcc4", "DotProduct": "#8a8f98", "GpuClustering": "#c9913d",
    "GpuPacking": "#7a5c2e", "BestFit": "#4b9b6e", "FragmentationGradient": "#b0413e",
    "GapPrice": "#2f6fde",
}  # fmt: skip


def draw(runs: Sequence[dict[str, Any]], first: int = 80, lowest: float = 75.0) -> str:
    """One panel for each trace: percent allocated over percent arrived, the mean of the seeds."""
    traces = list(dict.fromkeys(run["trace"] for run in runs))
    panels = [_panel(trace, runs, number, first, lowest) for number, trace in enumerate(traces)]
    height = HEIGHT * len(traces)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="#fff"/>'
        + "".join(panels)
        + "</svg>"
    )


def _panel(
    trace: str, runs: Sequence[dict[str, Any]], number: int, first: int, lowest: float
) -> str:  # fmt: skip
    curves = defaultdict(list)
    for run in runs:
        if run["trace"] == trace:
            curves[run["policy"]].append(run["curve"])
    last = max(len(curve) for found in curves.values() for curve in found) - 1
    first = min(first, max(last - 1, 0))
    top = number * HEIGHT
    parts = [_text(10, top + 20, f"{trace}: % of GPUs allocated, by % asked for", "600")]
    for percent in (lowest, 100.0):
        y = _y(percent, top, lowest)
        parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#ddd"/>')
        parts.append(_text(12, y + 4, f"{percent:g}", "400"))
    parts += [
        _text(_x(percent, first, last) - 8, top + HEIGHT - 8, str(percent), "400")
        for percent in range(first, last + 1, 10)
    ]
    for place, (policy, found) in enumerate(curves.items()):
        points = [
            f"{_x(at, first, last)},{_y(_mean(found, at), top, lowest)}"
            for at in range(first, last + 1)
        ]
        colour = COLOURS.get(policy, "#222")
        line = " ".join(points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = top + TOP + 16 + place * 20
        parts.append(
            f'<rect x="{WIDTH - RIGHT + 10}" y="{y - 9}" width="14" height="4" fill="{colour}"/>'
        )
        ends = f"{policy} {_mean(found, last):.1f}"
        parts.append(_text(WIDTH - RIGHT + 30, y, ends, "400"))
    return "".join(parts)


def _mean(curves: list[Sequence[float]], at: int) -> float:
    values = [curve[at] for curve in curves if at < len(curve)]
    return sum(values) / len(values)


def _x(percent: int, first: int, last: int) -> int:
    return LEFT + round((WIDTH - RIGHT - LEFT) * (percent - first) / max(last - first, 1))


def _y(percent: float, top: int, lowest: float) -> int:
    room = HEIGHT - TOP - 30
    return top + TOP + round(room * (100 - max(percent, lowest)) / (100 - lowest))


def _text(x: int, y: int, text: str, weight: str) -> str:
    return f'<text x="{x}" y="{y}" font-weight="{weight}" fill="#222">{text}</text>'
