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
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    named = [word.ljust(width) for word, width in zip(row[:2], widths, strict=False)]
    figures = [word.rjust(width) for word, width in zip(row[2:], widths[2:], strict=True)]
    return "  ".join([*named, *figures]).rstrip()
