"""When waiting units will start: a range, what it is based on, and how often such ranges held.

A start is planned from the expected ends of running pods. The range is that of their ends: no
earlier than they can end, no later than they are expected to in 8 of 10 cases.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fairlead.engine.engine import Engine
from fairlead.model.backfill import PlannedStart
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunEnd

#: Units that are planned for one answer.
MOST_PLANNED = 50


@dataclass(frozen=True, slots=True)
class StartForecast:
    """Times are on the clock of the engine."""

    earliest_s: float
    expected_s: float
    #: None: it may be any time later.
    latest_s: float | None
    nodes: tuple[str, ...]
    #: The pods whose end it waits for.
    basis: tuple[Pod, ...]
    #: These are ended by then at the latest.
    bounded: bool
    #: Earlier forecasts of such run times, and the part of them that held.
    judged: float
    held: float


def start_forecast(
    engine: Engine, pod: Pod, *, now: float, plans: bool = True
) -> StartForecast | None:
    """That of the unit of a waiting pod; None if it has no start within the window.

    Without `plans` only starts that are planned already count, which takes no time.
    """
    entry = engine.queue.get(pod.uid)
    if entry is None:
        return None
    key = entry.unit.key
    planned = engine.plans.start_of(key)
    if planned is None and plans:
        every = engine.plans.plan_all(MOST_PLANNED, now=now)
        planned = next((each for each in every if each.unit_key == key), None)
    return _forecast(engine, planned, now) if planned else None


def _forecast(engine: Engine, planned: PlannedStart, now: float) -> StartForecast:
    basis = tuple(_held(engine, planned.basis))
    ends = [engine.run_times.end_s(pod.uid, now=now) for pod in basis]
    known = [end for end in ends if end is not None]
    judged, held = _record(engine, basis)
    earliest_s = max((end.earliest_s for end in known), default=planned.start_s)
    return StartForecast(
        max(now, min(planned.start_s, earliest_s)),
        planned.start_s,
        planned.start_s if not basis else _latest_s(known, planned.start_s, len(basis)),
        tuple(dict.fromkeys(node for _, node in planned.nodes)),
        basis,
        planned.bounded,
        judged,
        held,
    )


def _held(engine: Engine, uids: Iterable[str]) -> Iterable[Pod]:
    for uid in uids:
        held = engine.cluster.holdings.get(uid)
        if held is not None:
            yield held.pod


def _latest_s(ends: list[RunEnd], start_s: float, count: int) -> float | None:
    latest = [end.latest_s for end in ends]
    if len(ends) < count or any(each is None for each in latest):
        return None
    return max(start_s, *(each for each in latest if each is not None))


def _record(engine: Engine, basis: Iterable[Pod]) -> tuple[float, float]:
    """How many forecasts of such runs were judged, and the part that held."""
    kinds = {engine.run_times.kind_of(pod): pod for pod in basis}
    found = [engine.run_times.forecast(pod) for kind, pod in kinds.items() if kind is not None]
    judged = sum(each.judged for each in found if each)
    held = sum(each.judged * each.held for each in found if each)
    return judged, held / judged if judged else 0.0


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
    """For `explain`: the forecast as plain data with a sentence; empty if there is none."""
    found = start_forecast(engine, pod, now=now, plans=scope.plans)
    if found is None:
        return {}
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
            "message": _sentence(found, waits_for, wall_s),
        }
    }


def _sentence(found: StartForecast, waits_for: list[str], wall_s: float) -> str:
    first = f"start: {_range(found, wall_s)}"
    if waits_for:
        more = f" and {len(waits_for) - 1} more" if len(waits_for) > 1 else ""
        first += f", when {waits_for[0]}{more} end{'' if more else 's'}"
    if found.bounded:
        return f"{first}; their time is limited"
    if found.judged >= 1:
        return f"{first}; {found.held:.0%} of {found.judged:.0f} such forecasts held"
    return f"{first}; no such forecast has been judged yet"


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
