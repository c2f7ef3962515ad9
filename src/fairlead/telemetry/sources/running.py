"""One source at work: asked again and again, guarded, and its news passed on in small parts."""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from fairlead.model.readings import NodeReadings
from fairlead.telemetry.periodicity import PeriodicityDetector
from fairlead.telemetry.sources.api import (
    NodeAddresses,
    ReadCounts,
    Source,
    SourceFault,
    SourcePlan,
)
from fairlead.telemetry.sources.guard import SourceGuard, implausible

#: The engine takes so many GPUs in a millisecond.
MOST_GPUS = 128
_JITTER = 0.1


class ReadingBatch(msgspec.Struct, tag="batch", array_like=True, frozen=True):
    """Some of what a take gave."""

    readings: tuple[NodeReadings, ...]


class SourceStatus(msgspec.Struct, tag="status", array_like=True, frozen=True):
    """How a take ended. Counts are of that take alone."""

    source: str
    #: By the engine's clock, when the last take that was worth it ended; 0 before the first.
    succeeded_s: float
    gpus: int
    rejected: Mapping[str, int]
    problem: str
    cut_off: bool


News: TypeAlias = ReadingBatch | SourceStatus


class SourceRunner:
    def __init__(
        self,
        source: Source,
        plan: SourcePlan,
        nodes: Callable[[], NodeAddresses],
        tell: Callable[[News], None],
        clock: Callable[[], float],
    ) -> None:
        self._source = source
        self._plan = plan
        self._nodes = nodes
        self._tell = tell
        self._clock = clock
        self._guard = SourceGuard(plan.every_s)
        self._periodicity = PeriodicityDetector()
        self._succeeded_s = 0.0

    async def run(self) -> None:
        """Asks until cancelled, the first time soon."""
        while True:
            if self._nodes():
                await self.once()
                await asyncio.sleep(self._guard.wait_s() * random.uniform(1 - _JITTER, 1 + _JITTER))
            else:
                await asyncio.sleep(_NOBODY_YET_S)

    async def once(self) -> None:
        counts, gpus, fault = ReadCounts(), 0, ""
        try:
            # Whatever the source does about its own limits: no take outlasts two turns.
            async with asyncio.timeout(2 * self._plan.every_s + self._plan.timeout_s):
                gpus = await self._pass_on(counts)
        except SourceFault as error:
            fault = str(error)
        except TimeoutError:
            fault = f"it took longer than {2 * self._plan.every_s + self._plan.timeout_s:g} s"
        self._guard.taken(counts, fault)
        if not self._guard.problem:
            self._succeeded_s = self._clock()
            self._periodicity.look()
        self._tell(
            SourceStatus(
                self._plan.name,
                self._succeeded_s,
                gpus,
                dict(counts.rejected),
                self._guard.problem,
                self._guard.cut_off,
            )
        )

    async def _pass_on(self, counts: ReadCounts) -> int:
        """How many GPUs were read. Impossible values are not passed on from there."""
        gpus, waiting, size = 0, [], 0
        async for told in self._source.take(self._nodes(), counts):
            waiting.append(told)
            size += len(told.gpus)
            if size < MOST_GPUS:
                continue
            self._pass(waiting, counts)
            gpus, waiting, size = gpus + size, [], 0
            await asyncio.sleep(0)
        self._pass(waiting, counts)
        return gpus + size

    def _pass(self, waiting: list[NodeReadings], counts: ReadCounts) -> None:
        if problem := implausible(counts):
            raise SourceFault(problem)
        if waiting:
            self._tell(ReadingBatch(tuple(self._periodicity.put(waiting))))


_NOBODY_YET_S = 0.2
