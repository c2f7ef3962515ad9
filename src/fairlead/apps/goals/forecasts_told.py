"""Which forecasts starts are chosen by, how old they are, and how many units wait for a start."""

from collections.abc import Iterator, Sequence
from typing import Any

from fairlead.apps.run.forecast_feed import ForecastFeed
from fairlead.engine.engine import Engine
from fairlead.model.start_times import utc, words
from fairlead.queue.entries import Pool


def forecasts_told(feed: ForecastFeed, engine: Engine, now_s: float) -> list[dict[str, Any]]:
    told = []
    for source in feed.sources:
        plan, status = source.plan, source.status
        issued_s = status.issued_s
        told.append({
            "window": plan.window.value,
            "source": plan.name,
            "unit": plan.unit,
            "used": feed.source_in_use(plan.window) == plan.name,
            "values": status.values,
            "ageSeconds": None if issued_s is None else round(now_s - issued_s),
            "until": utc(source.end_s) if source.end_s else None,
            "problem": status.problem,
            "units": _units(engine, plan.window.value),
        })  # fmt: skip
    return told


def _units(engine: Engine, window: str) -> int:
    """Pending units that choose their start by a forecast of this kind."""
    entries = {id(entry): entry for entry in engine.queue.entries()}.values()
    return sum(
        entry.pool is not Pool.NONE
        and any(pod.start is not None and pod.start.window == window for pod in entry.unit.pods)
        for entry in entries
    )


def forecast_lines(told: Sequence[dict[str, Any]]) -> Iterator[str]:
    for each in told:
        state = "used" if each["used"] else "not used"
        age_s = each["ageSeconds"]
        age = "never read" if age_s is None else f"{words(max(0, age_s))} old"
        until = f", values until {each['until']}" if each["until"] else ""
        problem = f": {each['problem']}" if each["problem"] else ""
        yield (
            f"forecast {each['window']} from {each['source']} ({each['unit']}): {state}, {age}"
            f"{until}; {each['units']} unit(s) choose their start by it{problem}"
        )
