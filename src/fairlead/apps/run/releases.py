"""GPUs of pods that are gone are not kept for ever: an agent may be away."""

import asyncio
import time
from collections.abc import Callable

from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.telemetry.metrics import Metrics

#: Longer than a kubelet takes to end the containers of a pod that was deleted by force, and an
#: agent to see that.
OVERDUE_S = 30.0
_LOOK_EVERY_S = 5.0


class Releases:
    """Runs beside the scheduler, in a standby as well."""

    def __init__(
        self,
        engine: Engine,
        feed: Callable[[events.Event], None],
        metrics: Metrics,
        overdue_s: float = OVERDUE_S,
    ) -> None:
        self._releasing = engine.cluster.releasing
        self._feed = feed
        self._overdue_s = overdue_s
        metrics.watch_gauge(
            "fairlead_pods_held_back",
            "Pods that are gone and whose GPUs are kept until their processes have ended.",
            (),
            lambda: {(): len(self._releasing)},
        )

    async def run(self) -> None:
        while True:
            await asyncio.sleep(min(_LOOK_EVERY_S, self._overdue_s))
            self.look(time.monotonic())

    def look(self, now_s: float) -> None:
        """Gives up on those that were kept for too long."""
        for kept in self._releasing.since(now_s - self._overdue_s):
            self._feed(events.ReleaseOverdue(kept.pod.uid))
