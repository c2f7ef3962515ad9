"""Python's garbage collector in short passes between turns.

Pods, nodes and devices live long, and are freed by their reference counts. To look through all of
them for cycles takes up to a second in a large cluster, and would come in the middle of a turn.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

log = structlog.get_logger(__name__)

#: Objects that come until the new ones are looked through, and how often until those that stay are
#: looked through once more: both are short passes, since neither is about more than 100,000.
_NEW = 20_000
_PASSES = 4
#: In place of a number of passes: there is no other one unless it is asked for.
_NEVER = 1 << 30

#: How often it is looked at whether there is enough to look through.
_LOOK_S = 0.1
#: Of CPU time, without which there are not many new objects: to count them takes milliseconds.
_COUNT_S = 0.1
#: How often all objects are looked through, if there is a moment at which nothing is under way, and
#: how many looks in a row must have found that.
_ALL_S = 6 * 3600.0
_QUIET_LOOKS = 20


def spare_the_collector() -> None:
    """What exists now stays; passes over all that comes are left to a `GarbageCollection`."""
    gc.freeze()
    gc.set_threshold(_NEW, _PASSES, _NEVER)


class GarbageCollection:
    """Objects in use that a pass has looked through are left alone for the next hours."""

    def __init__(
        self, is_ready: Callable[[], bool], is_quiet: Callable[[], bool] = lambda: True
    ) -> None:
        """`is_ready`: everything was listed. `is_quiet`: nothing is under way."""
        self._is_ready = is_ready
        self._is_quiet = is_quiet
        self._quiet_looks = 0
        self._all_s = time.monotonic()
        self._counted_cpu_s = time.process_time()

    async def during(self, work: Coroutine[Any, Any, None]) -> None:
        """Collects while the work is done."""
        collecting = asyncio.create_task(self.run(), name="collection")
        try:
            await work
        finally:
            collecting.cancel()

    async def run(self) -> None:
        while not self._is_ready():
            await asyncio.sleep(_LOOK_S)
        gc.freeze()
        while True:
            await asyncio.sleep(_LOOK_S)
            self.look(time.monotonic(), time.process_time())

    def look(self, now: float, cpu_s: float) -> None:
        """Call it between turns. `cpu_s`: what the process has used."""
        self._quiet_looks = self._quiet_looks + 1 if self._is_quiet() else 0
        if now - self._all_s >= _ALL_S and self._quiet_looks >= _QUIET_LOOKS:
            self._all_s = now
            gc.unfreeze()
            started_s = time.monotonic()
            _collect()
            log.debug("looked for garbage", seconds=round(time.monotonic() - started_s, 3))
        elif self._have_many_come(cpu_s):
            _collect()

    def _have_many_come(self, cpu_s: float) -> bool:
        """Half as many as are looked through in the middle of a turn, or that has happened.

        Python's own count is of objects that came less those that went. It stays at zero while old
        objects are replaced by new ones, as when drivers publish all slices again. So they are
        counted themselves, now and then.
        """
        most = _PASSES // 2 * _NEW
        youngest, passes, older = gc.get_count()
        if older > 0 or youngest + passes * _NEW >= most:
            self._counted_cpu_s = cpu_s
            return True
        if cpu_s - self._counted_cpu_s < _COUNT_S:
            return False
        self._counted_cpu_s = cpu_s
        return sum(len(gc.get_objects(age)) for age in (0, 1)) >= most


def _collect() -> None:
    gc.collect()
    gc.freeze()
