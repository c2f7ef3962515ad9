"""What the webhook knows of queues: it watches them as long as they are served."""

import asyncio
from functools import partial

import structlog

from fairlead.apps.run.served_kinds import EVERY_S, KindWatch, ServedKinds, WatchedKind
from fairlead.apps.supervising import supervise
from fairlead.kube.admission.queue_reviews import QueueReviews
from fairlead.kube.errors import ApiError
from fairlead.kube.failures import Failures
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.changes import Change, Deleted, Synced, Undecodable, Upserted
from fairlead.kube.mirror.wire import StatusError
from fairlead.kube.queues.api import QueueObject
from fairlead.kube.queues.fairlead import FairleadQueues
from fairlead.kube.queues.registry import decode_queue

log = structlog.get_logger(__name__)

#: How long a review waits for queues that were created just before it.
_CATCH_UP_S = 1.5


class QueueWatch:
    """Keeps what reviews know of queues equal to what the API server has."""

    def __init__(self, client: Client, reviews: QueueReviews, *, every_s: float = EVERY_S) -> None:
        self._reviews = reviews
        self._dialect = FairleadQueues()
        kind = self._dialect.kind
        assert kind is not None
        watch = KindWatch(
            self._dialect.name,
            kind,
            partial(decode_queue, self._dialect),
            self._on_change,
            lambda name: reviews.gone(self._dialect.key("", name)),
        )
        self._kinds = ServedKinds(
            client, [watch], partial(supervise, Failures()), looked=self._on_look, every_s=every_s
        )

    async def run(self) -> None:
        await self._kinds.run()

    async def catch_up(self) -> None:
        """Returns when all queues that exist are known, or after a while."""
        watched = self._kinds.get(self._dialect.name)
        if watched is None:
            return
        try:
            async with asyncio.timeout(_CATCH_UP_S):
                await watched.reflector.catch_up()
        except (ApiError, StatusError, TimeoutError) as error:
            log.info("cannot read the newest queues", error=str(error))

    async def _on_look(self, _: KindWatch, served: WatchedKind | None) -> None:
        """Where queues are not served, or no more, the scheduler says so."""
        self._reviews.is_complete = served is not None and served.reflector.synced

    def _on_change(self, change: Change[QueueObject]) -> None:
        match change:
            case Upserted(obj):
                self._reviews.seen(obj.spec)
            case Deleted(obj):
                self._reviews.gone(obj.spec.key)
            case Synced():
                self._reviews.is_complete = True
            case Undecodable():
                log.error("queue cannot be read", queue=change.key, error=change.error)
