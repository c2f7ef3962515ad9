"""A refusal is held back for a moment if kube-scheduler may have seen more than we have.

kube-scheduler tries a refused pod again as soon as its watch shows a change, such as a deleted pod.
If our watch shows the deletion later, the pod is refused again and then waits for the next change,
up to five minutes. So if we have seen no change since we refused the pod, we wait for one.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from fairlead.engine import events

#: How long to wait for a change, and after the first one for those that belong to it.
_WAIT_S = 1.0
_SETTLE_S = 0.1
#: After a wait in which nothing changed there is none for so long: kube-scheduler asks one by one.
_REST_S = 10.0
#: Refused pods that are remembered: the newest.
_REMEMBERED = 20_000

_CHANGES = events.PodSeen | events.PodGone | events.NodeSeen | events.NodeGone


class RepeatableQuery(Protocol):
    """A filter request, which can be answered again after a change."""

    @property
    def uid(self) -> str: ...

    def answer(self) -> tuple[bool, bytes]:
        """Whether any node fits, and the answer."""


class RefusalDelay:
    """Remembers how many changes were seen when a pod was refused."""

    def __init__(self, wait_s: float = _WAIT_S) -> None:
        self._wait_s = wait_s
        self._seen = 0
        self._changed = asyncio.Event()
        self._refused: dict[str, int] = {}
        self._rests_until_s = 0.0

    def note(self, event: events.Event) -> None:
        """The engine has taken in this event. A pod that is being deleted frees nothing yet."""
        if isinstance(event, events.PodSeen) and event.pod.deleting:
            return
        if isinstance(event, _CHANGES):
            self._seen += 1
            self._changed.set()

    async def answer(self, question: RepeatableQuery) -> bytes:
        fits, body = question.answer()
        if not fits and self._refused.pop(question.uid, None) == self._seen:
            fits, body = await self._wait(question)
        if not fits:
            self._remember(question.uid)
        return body

    async def _wait(self, question: RepeatableQuery) -> tuple[bool, bytes]:
        now, seen = asyncio.get_running_loop().time, self._seen
        if now() < self._rests_until_s:
            return question.answer()
        try:
            async with asyncio.timeout(self._wait_s) as limit:
                await self._until(lambda: self._seen > seen)
                limit.reschedule(now() + _SETTLE_S)
                await self._until(lambda: question.answer()[0])
        except TimeoutError:
            if self._seen == seen:
                self._rests_until_s = now() + _REST_S
        return question.answer()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    def _remember(self, uid: str) -> None:
        self._refused[uid] = self._seen
        if len(self._refused) > _REMEMBERED:
            del self._refused[next(iter(self._refused))]
