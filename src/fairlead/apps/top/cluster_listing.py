"""A report of our own: pods and nodes as the API server lists them, readings from elsewhere."""

import time
from collections.abc import Sequence

from fairlead.apps.live import live_cluster
from fairlead.apps.live.read_source_once import take_once
from fairlead.apps.run.usage import Usage
from fairlead.cluster.cluster import Cluster
from fairlead.engine.engine import Engine
from fairlead.kube.http.client import Client
from fairlead.telemetry.report import UsageReport
from fairlead.telemetry.sources import Source

#: Pods and nodes are listed again this often, readings are taken for every picture.
_LIST_EVERY_S = 30.0


class ClusterListing:
    """The cluster as it was listed last."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._listed_s = float("-inf")
        self._cluster = Cluster()

    async def cluster(self) -> Cluster:
        now_s = time.monotonic()
        if now_s - self._listed_s > _LIST_EVERY_S:
            engine = Engine({}, reserves=True)
            async for event in live_cluster.events(self._client, selectors=False):
                engine.handle(event, now=0.0)
            self._listed_s, self._cluster = now_s, engine.cluster
        return self._cluster


class FromSources:
    """Asks the sources of a configuration, and adds up from one look to the next."""

    def __init__(self, client: Client, sources: Sequence[Source]) -> None:
        self._listing = ClusterListing(client)
        self._sources = sources
        self._usage: Usage | None = None

    async def report(self) -> UsageReport:
        cluster = await self._listing.cluster()
        if self._usage is None:
            self._usage = Usage(cluster)
        # The book goes on when the cluster is listed again: pods keep their uids.
        self._usage.cluster = cluster
        notes = [note for source in self._sources if (note := await self._take(source, cluster))]
        await self._usage.look()
        report = await self._usage.report()
        return UsageReport(report.since_s, report.gpus, report.pods, notes, report.held)

    async def _take(self, source: Source, cluster: Cluster) -> str:
        """What went wrong, if anything did."""
        assert self._usage is not None
        taken, problem = await take_once(source, cluster)
        self._usage.latest.note(taken)
        return problem
