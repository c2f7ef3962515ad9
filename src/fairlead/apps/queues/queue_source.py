"""Where `fairlead queue` gets what it shows: from a scheduler at work, or by listing itself."""

from typing import Protocol, TypeVar

import msgspec

from fairlead.apps.live.running_scheduler import NotAnswered, RunningScheduler
from fairlead.apps.queues.rows import QueueDetail, QueueListing

T = TypeVar("T")


class QueueSource(Protocol):
    async def listing(self) -> QueueListing: ...

    async def detail(self, name: str) -> QueueDetail: ...


class QueuesOfScheduler:
    """What a running scheduler counts, as far as the user may see it."""

    def __init__(self, scheduler: RunningScheduler) -> None:
        self._scheduler = scheduler

    async def listing(self) -> QueueListing:
        return self._decode(await self._scheduler.get("/queues"), QueueListing)

    async def detail(self, name: str) -> QueueDetail:
        return self._decode(await self._scheduler.get("/queues", {"name": name}), QueueDetail)

    def _decode(self, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError as error:
            where = self._scheduler.url
            raise NotAnswered(f"{where} is not a Fairlead report of queues: {error}") from error
