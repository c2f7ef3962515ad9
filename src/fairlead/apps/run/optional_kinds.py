"""Watches of kinds that an API server may serve or not, with the writers of their statuses."""

from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from typing import Any

from fairlead.apps.run.advance_watches import AdvanceWatches
from fairlead.apps.run.claim_watches import ClaimWatches
from fairlead.apps.run.counted_watches import CountedWatches
from fairlead.apps.run.data_watches import DataWatches
from fairlead.apps.run.gang_watches import GangWatches
from fairlead.apps.run.node_requests import NodeRequestCare
from fairlead.apps.run.object_watches import ObjectWatches
from fairlead.apps.run.queue_watches import QueueWatches
from fairlead.apps.run.served_kinds import Supervise
from fairlead.engine import events
from fairlead.kube.advance import AdvanceStatusWriter
from fairlead.kube.counted import CountedStatusWriter
from fairlead.kube.gangs.registry import GangDialects
from fairlead.kube.gangs.status_writer import GangStatusWriter
from fairlead.kube.gangs.volcano_queues import VOLCANO, create_queues
from fairlead.kube.http.client import Client
from fairlead.kube.http.transport import Transport
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.queues.registry import QueueDialects
from fairlead.kube.queues.status_writer import QueueStatusWriter
from fairlead.kube.writes.object_status import ObjectStatusWriter

#: A writer of statuses.
_Writer = GangStatusWriter | QueueStatusWriter | ObjectStatusWriter[Any, Any]


class OptionalKinds:
    def __init__(
        self,
        client: Client,
        writer: Transport,
        feed: Callable[[events.Event], None],
        supervise: Supervise,
        served: Collection[str],
        gang_dialects: GangDialects,
        queue_dialects: QueueDialects,
        requests: NodeRequestCare | None,
        when_listed: Callable[[], None],
        *,
        counts_data: bool = False,
    ) -> None:
        """`served`: the scheduler names of our profiles. Without one, another scheduler decides.

        `requests`: where nodes are requested for gangs that lack them. `when_listed` is called when
        `unsynced` may have become less. `counts_data`: a profile counts the time to fetch data.
        """
        is_on = bool(served)
        self.gangs = GangWatches(
            client,
            gang_dialects,
            feed,
            supervise,
            GangStatusWriter(writer),
            when_served={VOLCANO: partial(create_queues, writer)} if VOLCANO in served else None,
            requests=requests,
        )
        self.queues = QueueWatches(
            client, queue_dialects, feed, supervise, QueueStatusWriter(writer), serves=served
        )
        self.advance = AdvanceWatches(
            client, feed, supervise, AdvanceStatusWriter(writer), is_on=is_on
        )
        self.counted = CountedWatches(
            client, feed, supervise, CountedStatusWriter(writer), is_on=is_on
        )
        self.data = DataWatches(client, feed, supervise, is_on=counts_data)
        self.claims = ClaimWatches(client, feed, supervise, is_on=is_on)
        #: By what messages call them.
        self._all: dict[str, ObjectWatches] = {
            "gangs": self.gangs,
            "queues": self.queues,
            "reservations": self.advance,
            "counted resources": self.counted,
            "data objects": self.data,
            "resource claims": self.claims,
        }
        for watches in (*self._all.values(), *([requests] if requests else ())):
            watches.when_listed(when_listed)

    @property
    def writers(self) -> tuple[_Writer, ...]:
        return self.gangs.writer, self.queues.writer, self.advance.writer, self.counted.writer

    @property
    def parts(self) -> tuple[ObjectWatches | _Writer, ...]:
        """What has to run."""
        return *self._all.values(), *self.writers

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """Those of kinds that are served now."""
        return tuple(each for watches in self._all.values() for each in watches.reflectors)

    @property
    def unsynced(self) -> list[str]:
        """What was not listed yet."""
        return [what for what, watches in self._all.items() if not watches.is_synced]

    async def retell(self) -> AsyncIterator[None]:
        """Everything that is known is fed once more; yields now and then."""
        for watches in self._all.values():
            async for _ in watches.retell():
                yield
