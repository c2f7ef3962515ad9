"""Draws completion times beside a baseline, for the docs."""

from collections.abc import Sequence
from typing import Any

WIDTH, LEFT, BAR, GAP = 760, 170, 18, 10
COLOURS = ("#2f6fde", "#c9913d", "#4b9b6e", "#b0413e")


def draw(lines: Sequence[dict[str, Any]], baseline: str) -> str:
    """One bar for each run: average completion time (Philly: wait) as a part of the baseline's."""
    exact = [line for line in lines if "sigma" not in line["knows"]]
    base = {line["trace"]: _value(line) for line in exact if line["policy"] == baseline}
    shown = [line for line in exact if line["policy"] != baseline and line["trace"] in base]
    shown.sort(key=lambda line: (line["trace"], line["policy"]))
    height = 50 + (BAR + GAP) * len(shown)
    title = f"average completion time (Philly: wait), as a part of that of {baseline}"
    parts = [_text(10, 22, title, "600")]
    parts += [_bar(line, base, number) for number, line in enumerate(shown)]
    x = LEFT + _length(1.0)
    parts.append(f'<line x1="{x}" y1="34" x2="{x}" y2="{height - 8}" stroke="#888"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="#fff"/>'
        + "".join(parts)
        + "</svg>\n"
    )


def _value(line: dict[str, Any]) -> float:
    return float(line["wait_avg_s"] if line["trace"] == "philly" else line["jct_s"])


def _bar(line: dict[str, Any], base: dict[str, float], number: int) -> str:
    part = _value(line) / base[line["trace"]]
    y, length = 40 + number * (BAR + GAP), _length(part)
    policies = sorted({line["policy"]})
    colour = COLOURS[len(policies) - 1]
    return (
        _text(10, y + 14, f"{line['trace']} {line['policy']}"[:26], "400")
        + f'<rect x="{LEFT}" y="{y}" width="{length}" height="{BAR}" fill="{colour}"/>'
        + _text(LEFT + length + 8, y + 14, f"{part:.3f}", "400")
    )


def _length(part: float) -> int:
    return round(min(part, 1.5) / 1.5 * (WIDTH - LEFT - 70))


def _text(x: float, y: float, text: str, weight: str) -> str:
    return f'<text x="{x}" y="{y}" font-weight="{weight}">{text}</text>'
