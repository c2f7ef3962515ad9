"""When a pod starts that says so itself, or chooses cheap or low-carbon hours."""

from typing import Any

from fairlead.engine.engine import Engine
from fairlead.engine.reasons import WAITING_FOR_WINDOW
from fairlead.engine.start_plans import StartPlan
from fairlead.model.pods import Pod
from fairlead.model.start_times import missed, utc

Answer = dict[str, Any]


def in_window(told: Answer, engine: Engine, pod: Pod, wall_s: float) -> Answer:
    """The answer about a pending pod with what it says about its start. `wall_s`: since 1970."""
    entry = engine.queue.get(pod.uid)
    if pod.start is None or entry is None:
        return told
    plan = engine.start_windows.of(entry.unit, wall_s)
    late = missed(plan.times, plan.run_s, wall_s)
    waits = plan.start_s > wall_s and pod.condition[0] in ("", WAITING_FOR_WINDOW)
    if waits:
        told |= {"state": "held back", "message": plan.sentence}
    message = "; ".join(each for each in (plan.problem, late, _saving(plan)) if each)
    return told | {"window": _data(plan, late) | {"message": f"window: {message or 'none'}"}}


def _data(plan: StartPlan, late: str) -> Answer:
    chosen = plan.chosen
    return {
        "start": utc(plan.start_s),
        "latest": None if plan.latest_s is None else utc(plan.latest_s),
        "mean": chosen.mean if chosen else None,
        "meanAtOnce": chosen.first_mean if chosen else None,
        "unit": plan.unit,
        "source": plan.source,
        "problem": plan.problem,
        "deadlineProblem": late,
    }


def _saving(plan: StartPlan) -> str:
    chosen = plan.chosen
    if chosen is None:
        return "" if plan.problem else f"start {utc(plan.start_s)}"
    part = ""
    if chosen.first_mean > 0:
        part = f" ({100 * (1 - chosen.mean / chosen.first_mean):.0f} % less)"
    return (
        f"start {utc(plan.start_s)} with {chosen.mean:.4g} {plan.unit}{part}; "
        f"{chosen.first_mean:.4g} for a start at once"
    )
