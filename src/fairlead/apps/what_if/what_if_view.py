"""What `fairlead what-if` prints, in forms that users of squeue and sbatch know."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TextIO

from fairlead.apps.top.table import Column, plain_lines
from fairlead.apps.what_if.costs import TeamCost, team_costs
from fairlead.apps.what_if.outlook import ClusterOutlook, UnitChange, UnitOutlook, mean_wait_s
from fairlead.apps.what_if.what_if import WhatIfAnswer
from fairlead.model.gpus import number_of_gpus
from fairlead.telemetry.rightsizing import span

_NOW_S = 1.0
_MOST_NODES = 4
_MOST_ROWS = 50
_MOST_TEAMS = 10


def show(answer: WhatIfAnswer, output: str, stream: TextIO, *, everything: bool = False) -> None:
    if output == "json":
        json.dump(as_json(answer), stream, indent=2)
        stream.write("\n")
        return
    stream.writelines(f"{line}\n" for line in _lines(answer, everything))


def as_json(answer: WhatIfAnswer) -> dict[str, Any]:
    return {
        "time": _utc(0.0, answer),
        "starts": answer.starts,
        "units": [_unit_json(change, answer) for change in answer.units if _matters(change)],
        "summary": _summary(answer),
        "teams": [_team_json(team, cost) for team, cost in _costs(answer).items()],
        "notLearned": answer.not_learned,
        "extendersNotAsked": list(answer.not_asked),
        "leftOut": list(answer.left_out),
        "nodes": answer.nodes,
        "seconds": round(answer.took_s, 3),
    }


def _unit_json(change: UnitChange, answer: WhatIfAnswer) -> dict[str, Any]:
    return {
        "unit": shown_name(change.name),
        "queue": change.any.queue,
        "gpus": change.any.gpus,
        "effect": change.effect,
        "laterSeconds": change.later_s,
        "before": _side(change.before, answer),
        "after": _side(change.after, answer),
    }


def _costs(answer: WhatIfAnswer) -> dict[str, TeamCost]:
    return team_costs(answer.units, min(answer.before.until_s, answer.after.until_s))


def _team_json(team: str, cost: TeamCost) -> dict[str, Any]:
    return {
        "team": team,
        "earlier": cost.earlier,
        "later": cost.later,
        "evicted": cost.evicted,
        "delayGpuHours": _hours(cost.delay_gpu_s),
        "lostGpuHours": _hours(cost.lost_gpu_s),
    }


def _hours(seconds: float) -> float:
    return round(seconds / 3600.0, 3)


def _side(unit: UnitOutlook | None, answer: WhatIfAnswer) -> dict[str, Any] | None:
    if unit is None:
        return None
    return {
        "running": unit.runs,
        "start": None if unit.runs else _utc(unit.start_s, answer),
        "nodes": list(unit.nodes),
        "evictions": unit.evictions,
    }


def _utc(start_s: float | None, answer: WhatIfAnswer) -> str | None:
    if start_s is None:
        return None
    return datetime.fromtimestamp(answer.now_s + start_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _matters(change: UnitChange) -> bool:
    """It waits, or something becomes of it."""
    return bool(change.effect) or not change.any.runs


def _summary(answer: WhatIfAnswer) -> dict[str, Any]:
    effects = [change.effect for change in answer.units]
    waiting = [unit.name for unit in answer.before.waiting]
    lost_s = sum(
        change.before.at_stake_s
        for change in answer.units
        if change.effect == "evicted" and change.before
    )
    return {
        "earlier": sum(effect in ("earlier", "starts") for effect in effects),
        "later": sum(effect in ("later", "does not start") for effect in effects),
        "evicted": effects.count("evicted"),
        "meanWaitSecondsBefore": mean_wait_s(answer.before, waiting),
        "meanWaitSecondsAfter": mean_wait_s(answer.after, waiting),
        "lostGpuHours": _hours(lost_s),
        "heldGpuHoursBefore": _hours(answer.before.held_gpu_s),
        "heldGpuHoursAfter": _hours(answer.after.held_gpu_s),
        "gpusBefore": answer.before.gpus,
        "gpusAfter": answer.after.gpus,
        "horizonSeconds": min(answer.before.until_s, answer.after.until_s),
    }


# -- text --------------------------------------------------------------------------------------


def _lines(answer: WhatIfAnswer, everything: bool) -> Iterator[str]:
    yield from (_asked_line(name, answer) for name in answer.asked[:20])
    if len(answer.asked) > 20:
        yield f"and {len(answer.asked) - 20} more"
    yield from (f"left out, it has no pods: {name}" for name in answer.left_out)
    shown = [change for change in answer.units if _is_shown(change, answer, everything)]
    if shown:
        columns = _columns(shown[:_MOST_ROWS], answer)
        yield from plain_lines(columns)
    if len(shown) > _MOST_ROWS:
        yield f"and {len(shown) - _MOST_ROWS} more; -o json has all of them"
    if len(costs := _costs(answer)) > 1:
        yield from plain_lines(_cost_columns(costs))
    yield from _summary_lines(answer)
    for name in answer.not_asked:
        yield f"the extender {name} was not asked: pods that it refuses start later, or elsewhere"
    if answer.not_learned:
        yield f"run times that the scheduler has learned are not known: {answer.not_learned}"


def _cost_columns(costs: Mapping[str, TeamCost]) -> list[Column]:
    shown = dict(islice(costs.items(), _MOST_TEAMS))
    return [
        Column("TEAM", list(shown)),
        Column("EARLIER", [str(cost.earlier) for cost in shown.values()], right=True),
        Column("LATER", [str(cost.later) for cost in shown.values()], right=True),
        Column("EVICTED", [str(cost.evicted) for cost in shown.values()], right=True),
        Column("DELAY_GPU_H", [f"{_hours(c.delay_gpu_s):g}" for c in shown.values()], right=True),
        Column("LOST_GPU_H", [f"{_hours(c.lost_gpu_s):g}" for c in shown.values()], right=True),
    ]


def _is_shown(change: UnitChange, answer: WhatIfAnswer, everything: bool) -> bool:
    if change.name in answer.asked:
        return False
    return _matters(change) if everything else bool(change.effect)


def _asked_line(name: str, answer: WhatIfAnswer) -> str:
    unit = answer.after.units.get(name)
    if unit is None or unit.start_s is None:
        return f"{shown_name(name)} does not start {_within(answer)}"
    where = _nodes(unit.nodes)
    gpus = f"{number_of_gpus(unit.gpus)} on " if unit.gpus else ""
    return f"{shown_name(name)} to start {_at(unit.start_s, answer)} using {gpus}{where}"


def _at(start_s: float, answer: WhatIfAnswer) -> str:
    if start_s < _NOW_S:
        return "now"
    return f"at {_local(start_s, answer)} (in {span(start_s)})"


def _local(start_s: float, answer: WhatIfAnswer) -> str:
    moment = datetime.fromtimestamp(answer.now_s + start_s, UTC).astimezone()
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def _within(answer: WhatIfAnswer) -> str:
    return f"within {span(answer.after.until_s)}"


def _columns(changes: Sequence[UnitChange], answer: WhatIfAnswer) -> list[Column]:
    return [
        Column("UNIT", [shown_name(change.name) for change in changes]),
        Column("QUEUE", [change.any.queue or "-" for change in changes]),
        Column("GPUS", [f"{change.any.gpus:g}" for change in changes], right=True),
        Column("START_NOW", [_start(change.before, answer) for change in changes]),
        Column("START_THEN", [_start(change.after, answer) for change in changes]),
        Column("EFFECT", [change.effect or "-" for change in changes]),
        Column("NODES", [_nodes(change.after.nodes if change.after else ()) for change in changes]),
    ]


def _start(unit: UnitOutlook | None, answer: WhatIfAnswer) -> str:
    if unit is None:
        return "-"
    if unit.runs and not unit.evictions:
        return "runs"
    start_s = unit.again_s if unit.evictions else unit.start_s
    if start_s is None:
        return "N/A"
    return "now" if start_s < _NOW_S else _local(start_s, answer)


def _nodes(nodes: Sequence[str]) -> str:
    names = list(dict.fromkeys(nodes))
    more = f" and {len(names) - _MOST_NODES} more" if len(names) > _MOST_NODES else ""
    return ", ".join(names[:_MOST_NODES]) + more or "-"


def _summary_lines(answer: WhatIfAnswer) -> Iterator[str]:
    found = _summary(answer)
    yield (
        f"{found['earlier']} earlier, {found['later']} later, {found['evicted']} evicted "
        f"({found['lostGpuHours']:g} GPU-hours of work lost)"
    )
    before, after = found["meanWaitSecondsBefore"], found["meanWaitSecondsAfter"]
    if before is not None and after is not None:
        yield f"mean wait of what waits now: {span(before)}, then {span(after)}"
    hours = found["heldGpuHoursBefore"], found["heldGpuHoursAfter"]
    time = span(found["horizonSeconds"])
    parts = _part_held(answer.before), _part_held(answer.after)
    yield (f"GPU-hours held within {time}: {hours[0]:g}{parts[0]}, then {hours[1]:g}{parts[1]}")


def _part_held(outlook: ClusterOutlook) -> str:
    whole_s = outlook.gpus * outlook.until_s
    return f" ({100 * outlook.held_gpu_s / whole_s:.0f} %)" if whole_s else ""


def shown_name(name: str) -> str:
    """A gang without the dialect of its key."""
    return f"gang {name.partition('/')[2]}" if name.count("/") > 1 else name
