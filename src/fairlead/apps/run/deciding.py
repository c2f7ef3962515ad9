"""The engine decides while there is work, in short turns between which the network is served."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import structlog

from fairlead.apps.decision_log.recording import DecisionLog, RecordedEngine
from fairlead.apps.run.containment import Containment
from fairlead.apps.run.measures import Measures
from fairlead.engine import instructions
from fairlead.engine.engine import Engine

log = structlog.get_logger(__name__)

# How long to decide before looking at the network again.
_SLICE_S = 0.005
# The loop shows a sign of life at least this often.
_IDLE_S = 1.0
_WRITTEN_AT_ONCE = (instructions.Bind, instructions.Prepare)


class Deciding:
    """`awake` is set by everything that could give it work.

    `may_decide`: whether this process leads, and knows the cluster. `room`: how many more pods may
    be decided on, as what is decided is written at once. `show_again` shows an engine that knows
    nothing what the watches hold.
    """

    def __init__(
        self,
        engine: Engine,
        containment: Containment,
        measures: Measures,
        awake: asyncio.Event,
        *,
        perform: Callable[[instructions.Instruction], None],
        may_decide: Callable[[], bool],
        room: Callable[[], int],
        show_again: Callable[[], AsyncIterator[None]],
        decisions: DecisionLog | None,
    ) -> None:
        self._engine, self._containment, self._measures = engine, containment, measures
        self._awake, self._perform, self._may_decide = awake, perform, may_decide
        self._room, self._shown_again, self._decisions = room, show_again, decisions
        #: When it last showed that it is not stuck.
        self.alive_at_s = time.monotonic()

    async def run(self) -> None:
        while True:
            self._awake.clear()
            if self._containment.rebuild_is_due(time.monotonic()):
                await self._rebuild()
            if self._decisions:
                await self._tend_log(self._decisions)
            if self._may_decide():
                await self._decide_while_there_is_work()
            self.alive_at_s = time.monotonic()
            await self._sleep()

    async def _rebuild(self) -> None:
        """Builds the engine again from what the watches hold. Nothing is decided meanwhile."""
        self._containment.rebuild_begins(time.monotonic())
        await self._show_again()
        self._containment.rebuild_ends(time.monotonic())

    async def _show_again(self) -> None:
        async for _ in self._shown_again():
            self.alive_at_s = time.monotonic()

    async def _tend_log(self, decisions: DecisionLog) -> None:
        """A new run of the decision log begins with all that the engine was shown."""
        decisions.flush_after(time.monotonic())
        engine = self._engine
        if decisions.begins_again and isinstance(engine, RecordedEngine) and engine.is_settled:
            engine.begin_again()
            await self._show_again()
            log.info("decision log begins a new run")

    async def _decide_while_there_is_work(self) -> None:
        self._engine.wall_offset_s = time.time() - time.monotonic()
        for instruction in self._engine.tend(now=time.monotonic()):
            self._perform(instruction)
        while self._room() > 0:
            if not self._decide_for(_SLICE_S):
                return
            self.alive_at_s = time.monotonic()
            await asyncio.sleep(0)

    def _decide_for(self, seconds: float) -> bool:
        """Decides for a while; True if there may be more to do."""
        until, room = time.monotonic() + seconds, self._room()
        while room > 0:
            started = time.monotonic()
            attempt = self._containment.decide(started)
            if attempt is None:
                return False
            self._measures.attempt(attempt, time.monotonic() - started)
            for instruction in attempt.instructions:
                self._perform(instruction)
                room -= isinstance(instruction, _WRITTEN_AT_ONCE)
            if self._containment.rebuild_is_due(started):
                return False
            if started > until:
                return True
        return False  # a finished write wakes us

    async def _sleep(self) -> None:
        due = self._engine.wake_at_s()
        wait_s = _IDLE_S
        if self._containment.rebuild_is_due(time.monotonic()):
            return
        if due is not None and self._may_decide() and self._room() > 0:
            wait_s = min(_IDLE_S, max(0.0, due - time.monotonic()))
        if self._awake.is_set():
            return
        timer = asyncio.get_running_loop().call_later(wait_s, self._awake.set)
        try:
            await self._awake.wait()
        finally:
            timer.cancel()
