"""When waiting units will start, in words: a range, its basis, and how often such ranges held."""

from datetime import UTC, datetime
from typing import Any

from fairlead.engine.engine import Engine
from fairlead.engine.start_forecasts import StartForecast
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.telemetry.rightsizing import span

#: Units that are planned for one answer.
MOST_PLANNED = 50
_MOST_NODES = 3
_GIVEN_UP = "start: not planned; it takes too long to look for devices that will be free"


@dataclass(frozen=True, slots=True)
class StartScope:
    """What is shown: names of nodes and of other pods; and whether starts are planned for it."""

    nodes: bool = True
    pods: bool = True
    plans: bool = True


EVERYTHING = StartScope()


def start_answer(
    engine: Engine, pod: Pod, *, now: float, scope: StartScope = EVERYTHING
) -> dict[str, Any]:
    """For `explain`: the forecast as plain data with a sentence; empty if there is none.

    A unit of which the start is not planned for a limit has the sentence alone.
    """
    entry = engine.queue.get(pod.uid)
    planning = MOST_PLANNED if scope.plans else 0
    find = engine.start_forecasts.of_unit
    found = find(entry.unit.key, now=now, planning=planning) if entry else None
    if found is None:
        given_up = entry is not None and engine.plans.has_given_up(entry)
        return {"start": {"message": _GIVEN_UP}} if given_up else {}
    wall_s = engine.wall_offset_s
    waits_for = [each.key for each in found.basis] if scope.pods else []
    return {
        "start": {
            "earliest": _utc(found.earliest_s + wall_s),
            "expected": _utc(found.expected_s + wall_s),
            "latest": None if found.latest_s is None else _utc(found.latest_s + wall_s),
            "nodes": list(found.nodes) if scope.nodes else [],
            "waitsFor": waits_for,
            "bounded": found.bounded,
            "judged": round(found.judged, 1),
            "held": round(found.held, 3),
            "record": _record(found),
            "message": _sentence(found, waits_for, wall_s),
        }
    }


def _sentence(found: StartForecast, waits_for: list[str], wall_s: float) -> str:
    first = f"start: {_range(found, wall_s)}"
    if waits_for:
        more = f" and {len(waits_for) - 1} more" if len(waits_for) > 1 else ""
        first += f", when {waits_for[0]}{more} end{'' if more else 's'}"
    first += "; their time is limited" if found.bounded else ""
    if found.judged_by_starts:
        return f"{first}; {100 * found.held:.0f} % of such forecasts held"
    if found.bounded:
        return first
    if found.judged >= 1:
        part = f"{100 * found.held:.0f} % of {found.judged:.0f}"
        return f"{first}; {part} forecasts of such run times held"
    return f"{first}; no such forecast has been judged yet"


def _record(found: StartForecast) -> str:
    """What was judged: starts, or run times; empty: nothing."""
    if found.judged_by_starts:
        return "starts"
    return "run times" if found.judged >= 1 else ""


def _range(found: StartForecast, wall_s: float) -> str:
    first, last = _local(found.earliest_s + wall_s), found.latest_s
    if last is None:
        return f"from {first} on"
    if last - found.earliest_s < 60.0:
        return f"at {first}"
    return f"between {first} and {_local(last + wall_s)}"


def _utc(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _local(at_s: float) -> str:
    """With the day if it is not within a day."""
    moment, now = datetime.fromtimestamp(at_s, UTC).astimezone(), datetime.now(UTC).astimezone()
    return moment.strftime("%H:%M" if moment.date() == now.date() else "%Y-%m-%dT%H:%M")


def run_time_answer(engine: Engine, pod: Pod) -> dict[str, Any]:
    """For `explain`: how long the unit of a waiting pod runs, as far as is known."""
    if pod.run_time is not None and pod.run_time.problem:
        return {"runTime": {"message": f"run time: unknown; {pod.run_time.problem}"}}
    entry = engine.queue.get(pod.uid)
    found = engine.run_times.expectation(entry.unit) if entry else None
    if found is None:
        return {}
    known = found.known
    said = f"run time: {span(found.expected_s)}"
    if found.most_s - found.least_s >= 1.0:
        said += f", between {span(found.least_s)} and {span(found.most_s)}"
    return {
        "runTime": {
            "expectedSeconds": round(found.expected_s),
            "leastSeconds": round(found.least_s),
            "mostSeconds": round(found.most_s),
            "boundSeconds": known.bound_s,
            "basis": known.source,
            "message": f"{said}, basis {known.source}",
        }
    }


def held_answer(engine: Engine, pod: Pod, *, scope: StartScope = EVERYTHING) -> dict[str, Any]:
    """For `explain`: free GPUs that are kept for the unit of a waiting pod; empty if none are."""
    entry = engine.queue.get(pod.uid)
    held = engine.held_gpus.of(entry.unit.key) if entry else None
    if held is None:
        return {}
    since_s = held.since_s + engine.wall_offset_s
    hours = held.gpu_s / 3600.0
    where = _on(tuple(held.nodes)) if scope.nodes else ""
    kept = f"kept free for it: {held.gpus:g} GPUs{where} since {_local(since_s)}"
    return {
        "keptFree": {
            "gpus": held.gpus,
            "nodes": list(held.nodes) if scope.nodes else [],
            "since": _utc(since_s),
            "gpuHours": round(hours, 3),
            "keptAs": held.kind.value,
            "message": f"{kept} ({hours:.1f} GPU-hours)",
        }
    }


def _on(nodes: tuple[str, ...]) -> str:
    more = f" and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else ""
    return f" on {', '.join(nodes[:_MOST_NODES])}{more}"
