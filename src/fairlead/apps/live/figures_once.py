"""Figures of nodes and named readings, taken once, for commands that look."""

import time

from fairlead.apps.config.run_plan import RunPlan
from fairlead.apps.run.named_readings import NamedReadingFeed
from fairlead.apps.run.node_figures import FigureFeed
from fairlead.engine.engine import Engine
from fairlead.engine.events import Event


async def put_figures_once(engine: Engine, planned: RunPlan) -> list[str]:
    """Puts what the plan names into the engine's cluster; returns what is missing, and why."""

    def put(event: Event) -> None:
        engine.handle(event, now=0.0)

    feed, named = FigureFeed(planned.figures, put), NamedReadingFeed(planned.readings, put)
    now_s = time.monotonic()
    await feed.take(now_s)
    await named.take(now_s)
    problems = [(source.plan.name, source.status.problem) for source in feed.sources]
    problems += [(f"reading {s.plan.terms.name}", s.status.problem) for s in named.sources]
    return [f"{name}: {problem}" for name, problem in problems if problem]
