"""The report of goals as text, JSON and CSV."""

import csv
import json
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from fairlead.apps.goals.goals_view import column_lines
from fairlead.apps.goals.report_book import ReportBook
from fairlead.model.start_times import words

_COLUMNS = {
    "units": "units", "waitSeconds": "wait_s", "inTime": "in_time", "late": "late",
    "deadlinesMet": "deadlines_met", "deadlinesMissed": "deadlines_missed",
    "gpuSeconds": "gpu_s", "wastedGpuSeconds": "wasted_gpu_s", "money": "money", "kWh": "kwh",
    "gramsCO2": "grams",
}  # fmt: skip


def report_rows(book: ReportBook, month: str = "") -> list[dict[str, Any]]:
    return [
        {"month": each, "kind": kind.value, "name": name}
        | {title: round(getattr(row, field), 3) for title, field in _COLUMNS.items()}
        for each, kind, name, row in book.rows()
        if not month or each == month
    ]


def show_report(told: dict[str, Any], output: str, out: TextIO) -> None:
    if output == "json":
        out.write(json.dumps(told, indent=2) + "\n")
    elif output == "csv":
        writer = csv.DictWriter(out, ["month", "kind", "name", *_COLUMNS], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**each, "name": _plain(each["name"])} for each in told["rows"])
    else:
        out.writelines(line + "\n" for line in _lines(told))


def _plain(name: str) -> str:
    """A name that a spreadsheet does not take for a formula."""
    return f"'{name}" if name[:1] in "=+-@" and name != "-" else name


def _lines(told: dict[str, Any]) -> Iterator[str]:
    if told["problem"]:
        yield f"problem: {told['problem']}"
    places = dict.fromkeys((each["month"], each["kind"]) for each in told["rows"])
    for month, kind in places:
        rows = [each for each in told["rows"] if (each["month"], each["kind"]) == (month, kind)]
        yield from column_lines(_table(month, kind, rows, told["currency"]))
        yield ""
    if not places:
        yield "nothing was recorded"


def _table(
    month: str, kind: str, rows: Sequence[dict[str, Any]], currency: str
) -> Iterator[tuple[str, ...]]:
    yield (
        f"{month} {kind.upper()}", "UNITS", "MEAN WAIT", "IN TIME", "DEADLINES MET", "GPU-HOURS",
        "WASTED", currency, "KWH", "KG CO2",
    )  # fmt: skip
    for each in rows:
        yield (
            each["name"], f"{each['units']:.0f}",
            words(each["waitSeconds"] / each["units"]) if each["units"] else "-",
            _share(each["inTime"], each["late"]),
            _share(each["deadlinesMet"], each["deadlinesMissed"]),
            f"{each['gpuSeconds'] / 3600:.1f}",
            _percent(each["wastedGpuSeconds"], each["gpuSeconds"]),
            f"{each['money']:.2f}", f"{each['kWh']:.1f}", f"{each['gramsCO2'] / 1000:.1f}",
        )  # fmt: skip


def _share(good: float, bad: float) -> str:
    return f"{good:.0f} of {good + bad:.0f}" if good + bad else "-"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"
