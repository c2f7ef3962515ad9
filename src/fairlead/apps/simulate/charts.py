"""Line and bar charts as SVG, without a library."""

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, floor, log10

from fairlead.model.lazy_dataclass import dataclass

#: Okabe and Ito's colours, which colour-blind readers can tell apart; then again with dashes.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666")
_DASHES = ("", "6 3", "2 3")
_WIDTH, _HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 16, 34, 46
_BAR = 26

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class ChartLine:
    name: str
    points: Points


def colour_of(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def dash_of(number: int) -> str:
    return _DASHES[number // len(_COLOURS) % len(_DASHES)]


class _Axis:
    """From values to pixels; `logarithmic` from 1 on."""

    def __init__(self, low: float, high: float, pixels: tuple[int, int], *, log: bool) -> None:
        self._of: Callable[[float], float] = _log if log else float
        self._log = log
        self._low, self._high = self._of(low), self._of(high)
        if self._high <= self._low:
            self._high = self._low + 1.0
        self._from, self._to = pixels

    def at(self, value: float) -> float:
        part = (self._of(value) - self._low) / (self._high - self._low)
        return round(self._from + part * (self._to - self._from), 1)

    def ticks(self) -> list[float]:
        if self._log:
            return [10.0**power for power in range(ceil(self._low), floor(self._high) + 1)]
        step = _step((self._high - self._low) / 5)
        first = ceil(self._low / step)
        return [step * number for number in range(first, floor(self._high / step) + 1)]


def _log(value: float) -> float:
    return log10(max(value, 1.0))


def _step(about: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** floor(log10(about)) if about > 0 else 1.0
    return next(power * part for part in (1, 2, 5, 10) if power * part >= about)


def line_chart(
    title: str, lines: Sequence[ChartLine], x_name: str, y_name: str, *, log_x: bool = False
) -> str:
    xs = [x for line in lines for x, _ in line.points] or [0.0]
    ys = [y for line in lines for _, y in line.points] or [0.0]
    x_axis = _Axis(min(xs), max(xs), (_LEFT, _WIDTH - _RIGHT), log=log_x)
    y_axis = _Axis(0.0, max(ys), (_HEIGHT - _BOTTOM, _TOP), log=False)
    drawn = [_line(line, number, x_axis, y_axis) for number, line in enumerate(lines)]
    return _svg(title, _HEIGHT, [*_grid(x_axis, y_axis, x_name, y_name), *drawn])


def bar_chart(title: str, bars: Sequence[tuple[str, float]]) -> str:
    """One bar below the other, with its value."""
    most = max((value for _, value in bars), default=1.0) or 1.0
    drawn = []
    for number, (name, value) in enumerate(bars):
        top = _TOP + number * _BAR
        width = round((_WIDTH - 280) * value / most, 1)
        drawn += [
            f'<text x="{_LEFT + 54}" y="{top + 15}" text-anchor="end">{escape(name)}</text>',
            (
                f'<rect x="{_LEFT + 62}" y="{top}" width="{width}" height="20" '
                f'fill="{colour_of(number)}"/>'
            ),
            f'<text x="{_LEFT + 68 + width}" y="{top + 15}">{value:,.0f}</text>',
        ]
    return _svg(title, _TOP + len(bars) * _BAR + 8, drawn)


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    shown = escape(title)
    head = (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{shown}">'
        f'<text x="{_LEFT}" y="18" class="title">{shown}</text>'
    )
    return head + "".join(parts) + "</svg>"


def _grid(x_axis: _Axis, y_axis: _Axis, x_name: str, y_name: str) -> list[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    found = []
    for tick in y_axis.ticks():
        y = y_axis.at(tick)
        found.append(f'<path class="grid" d="M{_LEFT} {y}H{right}"/>')
        found.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{_short(tick)}</text>')
    for tick in x_axis.ticks():
        x = x_axis.at(tick)
        found.append(f'<path class="grid" d="M{x} {_TOP}V{bottom}"/>')
        found.append(f'<text x="{x}" y="{bottom + 16}" text-anchor="middle">{_short(tick)}</text>')
    found.append(f'<text x="{right}" y="{_HEIGHT - 8}" text-anchor="end">{escape(x_name)}</text>')
    middle = (_TOP + bottom) // 2
    turned = f'transform="rotate(-90 16 {middle})" text-anchor="middle"'
    found.append(f'<text x="16" y="{middle}" {turned}>{escape(y_name)}</text>')
    return found


def _line(line: ChartLine, number: int, x_axis: _Axis, y_axis: _Axis) -> str:
    drawn = " ".join(f"{x_axis.at(x)},{y_axis.at(y)}" for x, y in line.points)
    dashes = f' stroke-dasharray="{dash_of(number)}"' if dash_of(number) else ""
    return (
        f'<polyline fill="none" stroke="{colour_of(number)}" stroke-width="1.6"{dashes} '
        f'points="{drawn}"><title>{escape(line.name)}</title></polyline>'
    )


def _short(value: float) -> str:
    """1,500,000 as 1.5M."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:g}"
