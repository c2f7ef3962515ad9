"""Draws what bench/drain.py or bench/shapes.py measured, for the docs.

python bench/picture.py bench/results/drain-*.json > docs/benchmarks.svg
python bench/picture.py bench/results/shapes.json > docs/shapes.svg
"""

import json
import sys
from pathlib import Path

WIDTH, ROW, LEFT, BAR = 760, 26, 250, 360
LEFT_OF_SHAPES, SHORT_BAR = 180, 180
COLOURS = {"kube-scheduler": "#8a8f98", "fairlead": "#2f6fde"}
SHOWN = {"cpu_ms_per_pod": "CPU, ms a pod (less is better)", "pods_per_s": "pods a second"}


def main() -> None:
    reports = [json.loads(Path(name).read_text()) for name in sys.argv[1:]]
    parts, height = _shapes(reports[0]) if "shapes" in reports[0] else _drains(reports)
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="#fff"/>'
        + "".join(parts)
        + "</svg>"
    )


def _drains(reports: list[dict]) -> tuple[list[str], int]:
    reports.sort(key=lambda report: report["nodes"])
    parts: list[str] = []
    top = 10
    for report in reports:
        title = f"{report['pods']:,} pods on {report['nodes']:,} nodes × 8 GPUs"
        parts.append(_text(10, top + 16, title, "600"))
        top += 24
        for field, label in SHOWN.items():
            parts += _bars(report["median"], field, label, top)
            top += 2 * ROW + 12
        top += 10
    return parts, top


def _shapes(report: dict) -> tuple[list[str], int]:
    """A row a shape, a column a figure; bars of one shape and figure are to scale."""
    top = 62
    columns = (LEFT_OF_SHAPES, (WIDTH + LEFT_OF_SHAPES) // 2)
    title = f"scheduler_perf's shapes on {report['nodes']:,} nodes"
    parts = [_text(10, 26, title, "600"), *_legend(columns[1])]
    for x, label in zip(columns, SHOWN.values(), strict=True):
        parts.append(_text(x, 50, label, "600"))
    for name, shape in report["shapes"].items():
        parts.append(_text(10, top + 18, name, "400"))
        for x, field in zip(columns, SHOWN, strict=True):
            parts += _pair(shape, field, x, top)
        top += 38
    return parts, top + 6


def _pair(shape: dict, field: str, x: int, top: int) -> list[str]:
    longest = max(side[field] for side in shape["sides"].values())
    parts = []
    for number, (side, figures) in enumerate(shape["sides"].items()):
        y = top + number * 15
        length = max(2, round(SHORT_BAR * figures[field] / longest))
        parts.append(_bar(x, y, length, 12, side))
        missing = shape["pods"] - figures["bound"]
        shown = f"bound {figures['bound']} of {shape['pods']}" if missing else f"{figures[field]:g}"
        parts.append(_text(x + length + 6, y + 11, shown, "400"))
    return parts


def _legend(x: int) -> list[str]:
    parts = []
    for number, side in enumerate(COLOURS):
        left = x + number * 125
        parts += [_bar(left, 16, 12, 12, side), _text(left + 17, 26, side, "400")]
    return parts


def _bars(median: dict[str, dict[str, float]], field: str, label: str, top: int) -> list[str]:
    longest = max(side[field] for side in median.values())
    parts = [_text(10, top + 16, label, "400")]
    for number, (side, figures) in enumerate(median.items()):
        y = top + number * ROW
        length = max(2, round(BAR * figures[field] / longest))
        parts.append(_bar(LEFT, y, length, ROW - 6, side))
        parts.append(_text(LEFT + length + 8, y + 15, f"{figures[field]:g}  {side}", "400"))
    return parts


def _bar(x: int, y: int, width: int, height: int, side: str) -> str:
    size = f'width="{width}" height="{height}" rx="3"'
    return f'<rect x="{x}" y="{y}" {size} fill="{COLOURS[side]}"/>'


def _text(x: int, y: int, text: str, weight: str) -> str:
    return f'<text x="{x}" y="{y}" font-weight="{weight}" fill="#222">{text}</text>'


if __name__ == "__main__":
    main()
