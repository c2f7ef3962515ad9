"""A report of our own: pods and nodes as the API server lists them, readings from elsewhere."""

import time
from collections.abc import AsyncIterator, Callable, Iterable

from fairlead.apps import live_cluster
from fairlead.apps.usage import Usage
from fairlead.engine.engine import Engine
from fairlead.kube.http.client import Client
from fairlead.model.readings import NodeReadings
from fairlead.telemetry.report import Report

#: Pods and nodes are listed anew this often, readings are taken for every picture.
_LIST_EVERY_S = 30.0

#: Given when, by our clock.
Take = Callable[[], AsyncIterator[Iterable[NodeReadings]]]


class FromCluster:
    """Looks by itself, and adds up from one look to the next."""

    def __init__(self, client: Client, take: Take | None = None) -> None:
        self._client = client
        self._take = take
        self._listed_s = float("-inf")
        self._usage: Usage | None = None

    async def report(self) -> Report:
        usage = await self._listed()
        if self._take is not None:
            async for readings in self._take():
                usage.latest.note(readings)
        await usage.look()
        return await usage.report()

    async def _listed(self) -> Usage:
        """The book goes on when the cluster is listed anew: pods keep their uids."""
        now_s = time.monotonic()
        if self._usage is None or now_s - self._listed_s > _LIST_EVERY_S:
            engine = Engine({})
            async for event in live_cluster.events(self._client, kin=False):
                engine.handle(event, now=0.0)
            self._listed_s = now_s
            if self._usage is None:
                self._usage = Usage(engine.cluster)
            self._usage.cluster = engine.cluster
        return self._usage
