"""The watches of queues against an API server, and what an engine would know by them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from fairlead.apps.run.queue_watches import QueueWatches
from fairlead.engine import events
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.kube.queues.registry import ALL_QUEUES, QueueDialects
from fairlead.kube.queues.status_writer import QueueStatusWriter
from fairlead.model.queues import QueueSpec
from fairlead.sim.controlplane import ControlPlane

EVERY_S = 0.1


class Known:
    """What an engine would know."""

    def __init__(self) -> None:
        self.queues: dict[str, QueueSpec] = {}
        self.kinds: dict[str, events.QueueKindSeen] = {}

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.QueueSeen(spec):
                self.queues[spec.key] = spec
            case events.QueueGone(key):
                del self.queues[key]
            case events.QueueKindSeen(dialect):
                self.kinds[dialect] = event


async def plainly(_: str, run: Callable[[], Awaitable[None]]) -> None:
    await run()


@contextlib.asynccontextmanager
async def watching(
    plane: ControlPlane,
    identity: str = "",
    serves: tuple[str, ...] = (),
    dialects: QueueDialects = ALL_QUEUES,
) -> AsyncIterator[tuple[QueueWatches, Known]]:
    kubeconfig = plane.kubeconfig_for(identity) if identity else plane.kubeconfig_for()
    client, known = Client(load_access(str(kubeconfig))), Known()
    writer = QueueStatusWriter(client)
    watches = QueueWatches(client, dialects, known, plainly, writer, serves=serves, every_s=EVERY_S)
    tasks = [asyncio.create_task(watches.run()), asyncio.create_task(writer.run())]
    try:
        yield watches, known
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
