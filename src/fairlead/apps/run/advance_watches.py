"""Advance reservations: watched as long as their kind is served, their statuses written."""

from collections.abc import AsyncIterator, Callable

import structlog

from fairlead.apps.run.object_watches import ObjectWatches
from fairlead.apps.run.served_kinds import EVERY_S, KindWatch, ServedKinds, Supervise
from fairlead.engine import events
from fairlead.kube.advance import (
    ADVANCE,
    AdvanceObject,
    AdvanceStatusWriter,
    ServedAdvance,
    decode_advance,
)
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.changes import Change, Deleted, Undecodable, Upserted, Vanished
from fairlead.model.advance import AdvanceReservation, AdvanceStatus

log = structlog.get_logger(__name__)

_NAME = "reservations"


class AdvanceWatches(ObjectWatches):
    def __init__(
        self,
        client: Client,
        feed: Callable[[events.Event], None],
        supervise: Supervise,
        writer: AdvanceStatusWriter,
        *,
        is_on: bool = True,
        every_s: float = EVERY_S,
    ) -> None:
        self._feed = feed
        self.writer = writer
        watch = KindWatch(_NAME, ADVANCE, decode_advance, self._on_change, self._gone)
        watches = [watch] if is_on else []
        self._kinds = ServedKinds(client, watches, supervise, every_s=every_s)

    async def retell(self) -> AsyncIterator[None]:
        """Everything that is known is fed once more; yields now and then."""
        async for _ in self._retell_objects():
            yield

    def write(self, name: str, status: AdvanceStatus) -> None:
        served = self._kinds.get(_NAME)
        seen = served.reflector.objects.get(name) if served else None
        if served and seen:
            self.writer.submit(name, ServedAdvance(served.version), seen, status)

    def _gone(self, name: str) -> None:
        self._feed(events.AdvanceGone(name))

    def _on_change(self, change: Change[AdvanceObject]) -> None:
        match change:
            case Upserted(found):
                self._feed(events.AdvanceSeen(found.reservation))
            case Deleted(found):
                self._gone(found.name)
            case Vanished():
                self._gone(change.key)
            case Undecodable():
                log.error("reservation cannot be read", name=change.key, error=change.error)
                if change.key is not None:
                    problem = f"it cannot be read: {change.error}"[:500]
                    self._feed(events.AdvanceSeen(AdvanceReservation(change.key, problem=problem)))
            case _:
                return
