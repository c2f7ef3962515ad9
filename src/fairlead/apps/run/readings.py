"""Feeds readings of GPUs to the engine: starts the reader, and passes news on in small parts."""

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import structlog

from fairlead.apps.run.reader import Orders, frame, framed
from fairlead.apps.run.survey import Survey
from fairlead.engine.engine import Engine
from fairlead.engine.events import Event, ReadingsTaken
from fairlead.telemetry.sources.api import SourcePlan
from fairlead.telemetry.sources.running import News, ReadingBatch, SourceStatus

log = structlog.get_logger(__name__)

#: How often old readings fade a little, and the reader gets the new nodes.
_EVERY_S = 5.0
_RESTART_S = 5.0


class Readings:
    """Runs beside the scheduler. Whatever becomes of the sources, it goes on."""

    def __init__(
        self, plans: Sequence[SourcePlan], engine: Engine, feed: Callable[[Event], None]
    ) -> None:
        self._plans = tuple(replace(plan, brief=True, keeps=True) for plan in plans)
        self._engine = engine
        self._feed = feed
        self._notes = any(plan.kind == "alnair" and not plan.url for plan in plans)
        #: By source: how its last take ended, and counts since the start.
        self.last: dict[str, SourceStatus] = {}
        self.gpus: Counter[str] = Counter()
        self.rejected: Counter[tuple[str, str]] = Counter()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._fade())
            group.create_task(self._read())

    def age_s(self, source: str) -> float | None:
        """Since the last take that was worth it; None before the first."""
        last = self.last.get(source)
        return time.monotonic() - last.succeeded_s if last and last.succeeded_s else None

    async def _fade(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            self._feed(ReadingsTaken())

    # -- the reader --------------------------------------------------------------------------

    async def _read(self) -> None:
        """A reader that ends is started again: what was read fades meanwhile."""
        while True:
            try:
                why = f"status {await self._read_once()}"
            except (OSError, msgspec.MsgspecError) as error:
                why = str(error)
            log.warning("telemetry reader ended", error=why)
            await asyncio.sleep(_RESTART_S)

    async def _read_once(self) -> int:
        """The status of a reader that ended of its own."""
        command = (sys.executable, "-m", "fairlead.apps.run.reader")
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        ordering = asyncio.create_task(self._order(process))
        try:
            await self._listen(process)
        finally:
            ordering.cancel()
            if process.returncode is None:
                process.kill()
            await process.wait()
        assert process.returncode is not None
        return process.returncode

    async def _order(self, process: Process) -> None:
        assert process.stdin is not None
        survey = Survey(self._engine.cluster, notes=self._notes)
        while True:
            found = await survey.look()
            if found is not None:
                process.stdin.write(framed(Orders(self._plans, *found)))
            await asyncio.sleep(_EVERY_S if found or survey.nodes else _FIRST_LOOK_S)

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        decoder = msgspec.msgpack.Decoder(ReadingBatch | SourceStatus)
        while (message := await frame(process.stdout)) is not None:
            self._hear(decoder.decode(message))
            await asyncio.sleep(0)  # decisions between any two

    def _hear(self, news: News) -> None:
        match news:
            case ReadingBatch(readings):
                self._feed(ReadingsTaken(readings))
            case SourceStatus():
                self._note(news)

    def _note(self, status: SourceStatus) -> None:
        before = self.last.get(status.source)
        was_cut_off = before is not None and before.cut_off
        self.last[status.source] = status
        self.gpus[status.source] += status.gpus
        for why, count in status.rejected.items():
            self.rejected[status.source, why] += count
        if status.cut_off and not was_cut_off:
            log.warning("telemetry source cut off", source=status.source, error=status.problem)
        elif was_cut_off and not status.cut_off:
            log.info("telemetry source restored", source=status.source, gpus=status.gpus)


_FIRST_LOOK_S = 0.2
