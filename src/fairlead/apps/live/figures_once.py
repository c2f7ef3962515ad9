"""What nodes cost, draw and emit, taken once, for commands that look."""

import time
from collections.abc import Sequence

from fairlead.apps.run.node_figures import FigureFeed
from fairlead.engine.engine import Engine
from fairlead.engine.events import Event
from fairlead.telemetry.figures.figure_sources import FigurePlan


async def put_figures_once(engine: Engine, plans: Sequence[FigurePlan]) -> list[str]:
    """Puts figures into the engine's cluster; returns what sources could not say, and why."""

    def put(event: Event) -> None:
        engine.handle(event, now=0.0)

    feed = FigureFeed(plans, put)
    await feed.take(time.monotonic())
    return [
        f"{source.plan.name}: {source.status.problem}"
        for source in feed.sources
        if source.status.problem
    ]
