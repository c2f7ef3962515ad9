"""Reservation pods while the scheduler runs: idle ones are deleted, failures cause a pause."""

import asyncio
import time
from collections.abc import Callable

from fairlead.cluster.reserving import sharing
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.telemetry.metrics import Metrics

FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 300.0
_LOOK_EVERY_S = 1.0


class ReservationCare:
    """Runs beside the scheduler. Only the leader deletes."""

    def __init__(
        self,
        engine: Engine,
        feed: Callable[[events.Event], None],
        leads: Callable[[], bool],
        metrics: Metrics,
        *,
        grace_s: float,
    ) -> None:
        self._engine = engine
        self._feed = feed
        self._leads = leads
        self._grace_s = grace_s
        #: Since when reservations have had no shares, by the uid of their pod.
        self._idle: dict[str, float] = {}
        #: By node: failures in a row, and when the next reservation may be tried.
        self._failures: dict[str, tuple[int, float]] = {}
        metrics.watch_gauge(
            "fairlead_gpu_reservations",
            "GPUs of device plugins that reservation pods have, by whether pods have shares.",
            ("state",),
            self._counts,
        )

    async def run(self) -> None:
        while True:
            await asyncio.sleep(min(_LOOK_EVERY_S, self._grace_s / 2))
            self.look(time.monotonic())

    def look(self, now_s: float) -> None:
        """Ends pauses that are over, and reports reservations that have been idle for long."""
        for node, (_, until_s) in list(self._failures.items()):
            if until_s <= now_s and node in self._engine.cluster.reservations.paused:
                self._feed(events.ReservationsPaused(node))
        if self._leads():
            self._look_at_idle(now_s)

    def failed(self, node: str, why: str) -> None:
        """A GPU of the node could not be reserved."""
        now_s = time.monotonic()
        count, until_s = self._failures.get(node, (0, 0.0))
        count = 1 if now_s - until_s > LONGEST_PAUSE_S else count + 1
        pause_s = min(FIRST_PAUSE_S * 2.0 ** min(count - 1, 10), LONGEST_PAUSE_S)
        self._failures[node] = count, now_s + pause_s
        self._feed(events.ReservationsPaused(node, why))

    def _look_at_idle(self, now_s: float) -> None:
        cluster = self._engine.cluster
        idle = {}
        for node, found in list(cluster.reservations):
            if found.pod is None or found.waiting or sharing(cluster, node, found):
                continue
            since_s = idle[found.pod.uid] = self._idle.get(found.pod.uid, now_s)
            if now_s - since_s >= self._grace_s or cluster.nominations.on(node):
                idle[found.pod.uid] = now_s  # if it is not deleted, once more after the same time
                self._feed(events.ReservationIdle(node, found.number))
        self._idle = idle

    def _counts(self) -> dict[tuple[str, ...], float]:
        cluster = self._engine.cluster
        counts: dict[tuple[str, ...], float] = {("shared",): 0.0, ("idle",): 0.0, ("pending",): 0.0}
        for node, found in cluster.reservations:
            if not found.uuid:
                counts["pending",] += 1
            else:
                counts["shared" if sharing(cluster, node, found) else "idle",] += 1
        return counts
