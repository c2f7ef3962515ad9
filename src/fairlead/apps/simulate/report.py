"""The figures of runs as one HTML file that needs nothing else."""

from collections.abc import Sequence
from html import escape
from itertools import groupby, pairwise

from fairlead.apps.simulate.charts import ChartLine, bar_chart, colour_of, dash_of, line_chart
from fairlead.apps.simulate.runs import SimRun
from fairlead.apps.simulate.table import COLUMNS

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
svg { width: 100%; height: auto; margin: 1rem 0; font: 12px system-ui, sans-serif; fill: currentColor; }
svg .title { font-weight: 600; font-size: 14px; }
svg .grid { stroke: currentColor; stroke-opacity: .15; fill: none; }
.legend span { display: inline-block; margin-right: 1.2rem; white-space: nowrap; }
"""  # noqa: E501
_POINTS = 400


def html_report(runs: Sequence[SimRun]) -> str:
    traces = [(name, list(each)) for name, each in groupby(runs, lambda run: run.trace)]
    body = "\n".join(_section(name, each) for name, each in traces)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Fairlead simulation</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>Fairlead simulation</h1>\n{body}\n{_NOTES}</body></html>\n"
    )


_NOTES = (
    "<p>Times are in seconds. JCT: from submission to completion, on average. WAIT, P50, P99: from "
    "submission to the first start. USED: GPU time held, of all GPU time over the makespan. FRAG: "
    "nodes that are used in part, over time. FAIR: Jain&#x27;s index of the average slowdowns of "
    "users. A policy that knows run times is not to be compared with one that does not.</p>\n"
)


def _section(trace: str, runs: Sequence[SimRun]) -> str:
    return "\n".join(
        [
            f"<h2>{escape(trace)}</h2>",
            _table(runs),
            _legend(runs),
            bar_chart("Average completion time, s", [(r.policy, r.figures.jct_s) for r in runs]),
            line_chart(
                "Jobs that waited at most so long",
                [ChartLine(run.policy, _waits(run)) for run in runs],
                "wait, s",
                "% of jobs",
                log_x=True,
            ),
            _over_time("GPUs in use", "GPUs", runs, "used_gpus"),
            _over_time("Waiting jobs", "jobs", runs, "waiting_jobs"),
        ]
    )


def _table(runs: Sequence[SimRun]) -> str:
    names = ["POLICY", "KNOWS", *(name for name, _ in COLUMNS)]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = []
    for run in runs:
        cells = [run.policy, run.knows, *(show(run.figures) for _, show in COLUMNS)]
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _legend(runs: Sequence[SimRun]) -> str:
    shown = (
        f'<span><svg style="width:2rem;margin:0;vertical-align:middle" viewBox="0 0 32 8">'
        f'<path d="M0 4H32" stroke="{colour_of(at)}" stroke-width="3" '
        f'stroke-dasharray="{dash_of(at)}"/></svg> {escape(run.policy)}</span>'
        for at, run in enumerate(runs)
    )
    return f'<p class="legend">{"".join(shown)}</p>'


def _waits(run: SimRun) -> list[tuple[float, float]]:
    waits = sorted(max(1.0, each.wait_s or 0.0) for each in run.result.ended)
    step = max(1, len(waits) // _POINTS)
    shown = [*range(0, len(waits), step), *([len(waits) - 1] if waits else [])]
    return [(waits[at], 100.0 * (at + 1) / len(waits)) for at in shown]


def _over_time(title: str, unit: str, runs: Sequence[SimRun], field: str) -> str:
    lines = []
    for run in runs:
        points = run.result.series.points
        first = points[0].at_s if points else 0.0
        days = [((each.at_s - first) / 86400.0, float(getattr(each, field))) for each in points]
        lines.append(ChartLine(run.policy, _steps(days)))
    return line_chart(title, lines, "days", unit)


def _steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Each value lasts until the next one."""
    found = list(points[:1])
    for (_, before), (at, after) in pairwise(points):
        found += [(at, before), (at, after)]
    return found
