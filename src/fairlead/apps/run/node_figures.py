"""Feeds what nodes cost, draw and emit to the engine. No decision waits for it."""

import asyncio
import time
from collections.abc import Callable, Sequence

import structlog

from fairlead.base.run_together import run_together
from fairlead.engine.events import Event, FiguresSeen
from fairlead.model.node_figures import Figure, SeenFigures
from fairlead.telemetry.figures.figure_sources import FigurePlan, FigureSource

log = structlog.get_logger(__name__)

_EVERY_S = 5.0


class FigureFeed:
    """Runs beside the scheduler, on standbys, too."""

    def __init__(self, plans: Sequence[FigurePlan], feed: Callable[[Event], None]) -> None:
        self.sources = [FigureSource(plan) for plan in plans]
        self._feed = feed
        self._sent: dict[Figure, SeenFigures] = {}
        self._problems: dict[tuple[Figure, str], str] = {}

    async def run(self) -> None:
        while True:
            await self.take(time.monotonic())
            await asyncio.sleep(_EVERY_S)

    async def take(self, now_s: float) -> None:
        """Asks the sources that are due, and sends what has changed."""
        await run_together(*(source.take(now_s) for source in self.sources))
        for figure in dict.fromkeys(source.plan.figure for source in self.sources):
            self._send(figure, now_s)
        for source in self.sources:
            self._note(source)

    def _send(self, figure: Figure, now_s: float) -> None:
        found = seen_figures(figure, self.sources, now_s)
        if found != self._sent.get(figure, SeenFigures(figure)):
            self._sent[figure] = found
            self._feed(FiguresSeen(found))

    def _note(self, source: FigureSource) -> None:
        """Says once that a source has a problem, and once that it has none any more."""
        key, problem = (source.plan.figure, source.plan.name), source.status.problem
        before = self._problems.get(key, "")
        if bool(problem) != bool(before):
            level = log.warning if problem else log.info
            level(
                "figures of nodes not used" if problem else "figures of nodes used again",
                figure=source.plan.figure.value,
                source=source.plan.name,
                error=problem,
            )
        self._problems[key] = problem


def seen_figures(figure: Figure, sources: Sequence[FigureSource], now_s: float) -> SeenFigures:
    lists = (source.list(now_s) for source in sources if source.plan.figure is figure)
    return SeenFigures(figure, tuple(each for each in lists if each is not None))
