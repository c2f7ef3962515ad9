"""Tells users what was decided: events, and the condition on pods that must wait."""

import asyncio
import socket
import time
from collections.abc import Callable

from fairlead.engine.instructions import (
    AnnounceFailure,
    AnnounceNotice,
    AnnounceScheduled,
    AnnounceWarning,
    Evict,
)
from fairlead.kube.http.transport import Transport
from fairlead.kube.writes.condition_writer import ConditionWriter
from fairlead.kube.writes.event_writer import EventWriter
from fairlead.kube.writes.outbox import WriteCounts
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod

__all__ = ["Recorder", "RecorderStats"]


@dataclass(frozen=True, slots=True)
class RecorderStats:
    """Live counters of both kinds of writes."""

    events: WriteCounts
    conditions: WriteCounts


class Recorder:
    """Writes what kube-scheduler would write, in its words, whenever there is time.

    `scheduled` and `failed` return at once and never raise. Few workers write, so that binds keep
    the API server and the CPU to themselves: while `pods_wait` to be bound, the events of those
    that are lag behind by seconds, and when more than `limit` wait the oldest are dropped. Why pods
    wait is told by workers of its own, and so are conditions, so that nothing delays them. Nothing
    waits for any of this, but evictions for `recorded`.
    """

    def __init__(
        self,
        client: Transport,
        *,
        hostname: str | None = None,
        now_ns: Callable[[], int] = time.time_ns,
        limit: int = 10_000,
        event_workers: int = 4,
        notice_workers: int = 16,
        condition_workers: int = 4,
        pods_wait: Callable[[], bool] = lambda: False,
    ) -> None:
        self._events = EventWriter(
            client,
            hostname=hostname or socket.gethostname(),
            now_ns=now_ns,
            limit=limit,
            workers=event_workers,
            notice_workers=notice_workers,
            pods_wait=pods_wait,
        )
        self._conditions = ConditionWriter(
            client, now_ns=now_ns, limit=limit, workers=condition_workers
        )
        self.stats = RecorderStats(self._events.tally, self._conditions.tally)

    def scheduled(self, announce: AnnounceScheduled) -> None:
        """Records that the pod was bound, and drops pending messages about its waiting."""
        self._conditions.scheduled(announce.pod.uid)
        self._events.scheduled(announce)

    def failed(self, announce: AnnounceFailure) -> None:
        """Records why the pod waits: an event each time, the condition when it changed."""
        self._conditions.failed(announce)
        if announce.with_event:
            self._events.failed(announce)

    def preempted(self, victim: Pod, node: str, evict: Evict) -> None:
        """Records on the victim for whom it had to leave."""
        self._events.preempted(victim, node, evict)

    def warned(self, announce: AnnounceWarning | AnnounceNotice) -> None:
        """Records something that the pod's author should know."""
        self._events.warned(announce)

    def unnominated(self, pod: Pod) -> None:
        """Takes the nomination off the pod's status; its condition stays."""
        self._conditions.unnominated(pod)

    async def recorded(self, pod: Pod) -> None:
        """Waits for a while until it is written which devices are kept for the pod or its gang."""
        await self._conditions.recorded(pod)

    async def run(self) -> None:
        """Writes until `stop` is called or this is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run())
            tasks.create_task(self._conditions.run())

    async def stop(self, grace_s: float) -> None:
        """Writes what it can within the grace; the rest is dropped and counted."""
        await asyncio.gather(self._events.stop(grace_s), self._conditions.stop(grace_s))
