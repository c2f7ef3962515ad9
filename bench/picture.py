"""Draws what bench/drain.py measured, for the docs.

python bench/picture.py bench/results/drain-*.json > docs/benchmarks.svg
"""

import json
import sys
from pathlib import Path

WIDTH, ROW, LEFT, BAR = 760, 26, 250, 360
COLOURS = {"kube-scheduler": "#8a8f98", "fairlead": "#2f6fde"}
SHOWN = {"cpu_ms_per_pod": "CPU, ms a pod (less is better)", "pods_per_s": "pods a second"}


def main() -> None:
    reports = [json.loads(Path(name).read_text()) for name in sys.argv[1:]]
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
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" '
        f'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="#fff"/>'
        + "".join(parts)
        + "</svg>"
    )


def _bars(median: dict[str, dict[str, float]], field: str, label: str, top: int) -> list[str]:
    longest = max(side[field] for side in median.values())
    parts = [_text(10, top + 16, label, "400")]
    for number, (side, figures) in enumerate(median.items()):
        y = top + number * ROW
        length = max(2, round(BAR * figures[field] / longest))
        parts.append(
            f'<rect x="{LEFT}" y="{y}" width="{length}" height="{ROW - 6}" rx="3" '
            f'fill="{COLOURS[side]}"/>'
        )
        parts.append(_text(LEFT + length + 8, y + 15, f"{figures[field]:g}  {side}", "400"))
    return parts


def _text(x: int, y: int, text: str, weight: str) -> str:
    return f'<text x="{x}" y="{y}" font-weight="{weight}" fill="#222">{text}</text>'


if __name__ == "__main__":
    main()
