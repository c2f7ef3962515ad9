"""Has the engine forecast starts while it has nothing else to do, so that forecasts are judged.

How many units are looked at in one turn follows from how long the last turn took, and a turn takes
a small part of the time.
"""

import asyncio
import time
from collections.abc import Callable

from fairlead.engine import events
from fairlead.engine.engine import Engine

_EVERY_S = 60.0
#: The most units of one turn, and how long a turn may take before it is made smaller.
_MOST_UNITS = 32
_LONG_S, _SHORT_S = 0.1, 0.03
#: Pause after a turn, in lengths of the turn.
_PAUSE = 200.0


class StartForecasting:
    """Runs beside the scheduler."""

    def __init__(
        self,
        engine: Engine,
        feed: Callable[[events.Event], None],
        leads: Callable[[], bool],
        *,
        every_s: float = _EVERY_S,
    ) -> None:
        self._engine, self._feed, self._leads, self._every_s = engine, feed, leads, every_s
        self._depth = 1

    async def run(self) -> None:
        pause_s = self._every_s
        while True:
            await asyncio.sleep(pause_s)
            took_s = self._forecast() if self._leads() else 0.0
            pause_s = max(self._every_s, _PAUSE * took_s)

    def _forecast(self) -> float:
        """How long it took."""
        queue, record = self._engine.queue, self._engine.start_record
        if queue.has_active() or not (queue.has_waiting() or record):
            return 0.0
        began_s = time.monotonic()
        self._feed(events.ForecastDue(self._depth))
        took_s = time.monotonic() - began_s
        if took_s > _LONG_S:
            self._depth = max(1, self._depth // 2)
        elif took_s < _SHORT_S:
            self._depth = min(2 * self._depth, _MOST_UNITS)
        return took_s
