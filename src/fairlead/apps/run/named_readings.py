"""Feeds readings that the configuration names to the engine. No decision waits for it."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence

import structlog

from fairlead.base.run_together import run_together
from fairlead.engine.events import Event, ReadingSeen
from fairlead.model.named_readings import SeenReading
from fairlead.telemetry.figures.reading_sources import ReadingPlan, ReadingSource

log = structlog.get_logger(__name__)

_EVERY_S = 1.0
#: Values of one event, so that none takes long.
_AT_ONCE = 10_000


class NamedReadingFeed:
    """Runs beside the scheduler, on standbys, too. One source that hangs delays no other."""

    def __init__(self, plans: Sequence[ReadingPlan], feed: Callable[[Event], None]) -> None:
        self.sources = [ReadingSource(plan) for plan in plans]
        self._feed = feed
        self._problems: dict[str, str] = {}

    async def run(self) -> None:
        await run_together(*(self._follow(source) for source in self.sources))

    async def _follow(self, source: ReadingSource) -> None:
        while True:
            await self._take(source, time.monotonic())
            await asyncio.sleep(_EVERY_S)

    async def take(self, now_s: float) -> None:
        """Asks the sources that are due, and sends what has changed."""
        await run_together(*(self._take(source, now_s) for source in self.sources))

    async def _take(self, source: ReadingSource, now_s: float) -> None:
        seen = await source.take(now_s)
        for part in _parts(seen) if seen else ():
            self._feed(ReadingSeen(part))
            await asyncio.sleep(0)  # a turn for each part
        self._note(source)

    def _note(self, source: ReadingSource) -> None:
        """Says once that a reading has a problem, and once that it has none any more."""
        name, problem = source.plan.terms.name, source.status.problem
        if bool(problem) != bool(self._problems.get(name, "")):
            level = log.warning if problem else log.info
            said = "reading not used" if problem else "reading used again"
            level(said, reading=name, error=problem)
        self._problems[name] = problem


def _parts(seen: SeenReading) -> Iterator[SeenReading]:
    values, gone = list(seen.values.items()), seen.gone
    for start in range(0, max(len(values), len(gone)), _AT_ONCE):
        end = start + _AT_ONCE
        yield SeenReading(seen.terms, dict(values[start:end]), gone[start:end])
