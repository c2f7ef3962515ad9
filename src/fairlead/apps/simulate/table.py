"""Figures of runs side by side, as plain text."""

from collections.abc import Callable, Sequence

from fairlead.apps.simulate.runs import SimRun
from fairlead.sim.virtual.figures import SimFigures

COLUMNS: tuple[tuple[str, Callable[[SimFigures], str]], ...] = (
    ("JCT", lambda each: f"{each.jct_s:,.0f}"),
    ("WAIT", lambda each: f"{each.wait_avg_s:,.0f}"),
    ("P50", lambda each: f"{each.wait_p50_s:,.0f}"),
    ("P99", lambda each: f"{each.wait_p99_s:,.0f}"),
    ("MAKESPAN", lambda each: f"{each.makespan_s:,.0f}"),
    ("USED", lambda each: f"{each.utilisation:.1%}"),
    ("FRAG", lambda each: f"{each.fragmentation:.1%}"),
    ("FAIR", lambda each: f"{each.fairness:.3f}"),
    ("EVICTED", lambda each: f"{each.evictions:,}"),
    ("NEVER", lambda each: f"{each.never_started:,}"),
)


#: Shown if a run has any of them.
GOALS: tuple[tuple[str, Callable[[SimRun], str]], ...] = (
    ("KWH", lambda run: _shown(run.goals.energy_kwh, 0)),
    ("MONEY", lambda run: _shown(run.goals.money, 2)),
    ("KG CO2", lambda run: _shown(run.goals.co2_kg, 1)),
    ("MET", lambda run: _met(run.goals.deadlines_met, run.goals.deadlines)),
)


def figures_table(runs: Sequence[SimRun]) -> str:
    """One line for each run, below a line of names. Times in seconds."""
    told = any(run.forecast for run in runs)
    goals = [each for each in GOALS if any(each[1](run) for run in runs)]
    names = ["TRACE", "POLICY", *["FORECAST"] * told]
    rows = [[*names, *(name for name, _ in COLUMNS), *(name for name, _ in goals)]]
    for run in runs:
        said = [run.trace, run.policy, *[run.forecast] * told]
        shown = [show(run.figures) for _, show in COLUMNS]
        rows.append([*said, *shown, *(show(run) for _, show in goals)])
    return aligned(rows, len(names))


def _shown(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _met(met: int, of: int) -> str:
    return f"{met:,}/{of:,}" if of else ""


def aligned(rows: Sequence[Sequence[str]], names: int) -> str:
    """Columns two spaces apart: so many of names, then figures to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths, names) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int], names: int) -> str:
    cells = [
        word.ljust(width) if at < names else word.rjust(width)
        for at, (word, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip()
