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


def figures_table(runs: Sequence[SimRun]) -> str:
    """One line for each run, below a line of names. Times in seconds."""
    rows = [["TRACE", "POLICY", *(name for name, _ in COLUMNS)]]
    rows += ([run.trace, run.policy, *(show(run.figures) for _, show in COLUMNS)] for run in runs)
    return aligned(rows, 2)


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
