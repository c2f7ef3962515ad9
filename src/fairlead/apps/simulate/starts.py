"""When units of a live cluster would start, under each policy, as plain text."""

from collections.abc import Sequence

from fairlead.apps.simulate.runs import SimRun
from fairlead.apps.simulate.table import aligned

_MOST = 100
_NEVER = "-"


def starts_table(runs: Sequence[SimRun]) -> str:
    """One line for each unit that waits; times from now on. The first hundred."""
    units = runs[0].result.jobs
    rows = [["UNIT", *(f"STARTS ({run.policy})" for run in runs), "GPUS"]]
    for unit in units[:_MOST]:
        starts = [_start(run, unit.name) for run in runs]
        rows.append([unit.name, *starts, f"{unit.gpus:g}"])
    left = [f"{len(units) - _MOST} more units wait"] if len(units) > _MOST else []
    return "\n".join([aligned(rows, 1), *left])


def _start(run: SimRun, name: str) -> str:
    record = run.result.records.get(name)
    return _NEVER if record is None or record.wait_s is None else span(record.wait_s)


def span(seconds: float) -> str:
    """The two largest units: 2d3h, 1h5m, 40s."""
    left, found = round(seconds), list[str]()
    for size, letter in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        whole, left = divmod(left, size)
        if whole or found:
            found.append(f"{whole}{letter}")
    return "".join(found[:2]) or "now"
