"""Pods that are gone or have ended, and whether their processes have ended, too.

The scheduler keeps the GPUs of such a pod until its uid is in the list `released`.
"""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice

from fairlead.base.node_inventory import MOST_RELEASED
from fairlead.model.pods import Pod

#: Between two reads of the processes, while a pod waits for its GPUs.
_PAUSE_S = 0.5


class ReleasedPods:
    """`run` it in a task, which sleeps while no pod has ended.

    It asks which processes there are, and not what the driver thinks of them: it must be quick, and
    a driver may hang. A program may also begin to use its GPU later.
    """

    def __init__(self, running: Callable[[], Iterable[str]], changed: Callable[[], None]) -> None:
        """`running` are the uids of all pods that have a process; `changed`: there is news."""
        self._running = running
        self._changed = changed
        self._waiting: set[str] = set()
        self._woken = asyncio.Event()
        #: Uids, the last first.
        self.released: tuple[str, ...] = ()

    def gone(self, pod: Pod) -> None:
        """It is gone, or has ended: the scheduler may wait for the end of its processes."""
        if pod.started and pod.grant is not None and pod.uid not in self.released:
            self._waiting.add(pod.uid)
            self._woken.set()

    async def run(self) -> None:
        while True:
            await self._woken.wait()
            self.look()
            await asyncio.sleep(_PAUSE_S if self._waiting else 0)

    def look(self) -> None:
        ended = self._waiting.difference(self._running())
        self._waiting -= ended
        if not self._waiting:
            self._woken.clear()
        if ended:
            self.released = tuple(islice((*sorted(ended), *self.released), MOST_RELEASED))
            self._changed()
