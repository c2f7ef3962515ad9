"""Exporters that are asked over HTTP: one on each node, or one for all of them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

from fairlead.model.readings import NodeReadings
from fairlead.telemetry.sources.api import (
    NodeAddresses,
    ReadCounts,
    SourceFault,
    SourcePlan,
    taken_s,
)
from fairlead.telemetry.sources.exposition import LineBuffer, Scanner
from fairlead.telemetry.sources.fetch import Address, ConnectionPool, FetchLimits, token
from fairlead.telemetry.sources.formats import AGE, ExporterFormat
from fairlead.telemetry.sources.gathering import NodeNames, ReadingCollector, SourceState

#: A node with 16 GPUs in slices has less than 2 MiB; a million series are some 300 MiB.
MOST_BYTES_OF_A_NODE = 16 * 2**20
MOST_BYTES = 2**30
#: Addresses beyond two for each node, after which those of nodes that are gone are let go of.
_SPARE = 64
#: Readings that the engine or a report has a use for, and when they were taken.
_OF_USE = frozenset({"utilisation", "memory_busy", "memory_used_mib", "power_w", AGE})


class Scrape:
    """A source that reads text from exporters of one dialect."""

    def __init__(self, plan: SourcePlan, dialect: ExporterFormat) -> None:
        self._plan = plan
        self._dialect = dialect = _brief(dialect) if plan.brief else dialect
        self._scanner = Scanner(dialect.series)
        self._state = SourceState()
        self._lines = ConnectionPool(keeps=plan.keeps)
        self._addresses: dict[str, Address] = {}
        most = MOST_BYTES_OF_A_NODE if plan.per_node else MOST_BYTES
        self._limits = FetchLimits(plan.timeout_s, most)

    @property
    def name(self) -> str:
        return self._plan.name

    async def take(self, nodes: NodeAddresses, counts: ReadCounts) -> AsyncIterator[NodeReadings]:
        names = NodeNames(nodes)
        self._forget_all_but(nodes)
        if not self._plan.per_node:
            counts.asked += 1
            for told in await self._ask(self._plan.url, None, names, counts):
                yield told
            return
        async for told in self._take_from_each(nodes, names, counts):
            yield told

    async def _take_from_each(
        self, nodes: NodeAddresses, names: NodeNames, counts: ReadCounts
    ) -> AsyncIterator[NodeReadings]:
        """So many askers at once, each with a node at a time."""
        answers: asyncio.Queue[list[NodeReadings] | None] = asyncio.Queue()
        waiting = self._urls(nodes, counts)

        async def ask() -> None:
            for name, url in waiting:
                counts.asked += 1
                try:
                    answers.put_nowait(await self._ask(url, name, names, counts))
                except SourceFault as fault:
                    counts.fail(f"{name}: {fault}")
            answers.put_nowait(None)

        askers = [asyncio.create_task(ask()) for _ in range(self._plan.at_once)]
        try:
            async for told in _until_all_ended(answers, len(askers)):
                yield told
        finally:
            for asker in askers:
                asker.cancel()
            await asyncio.gather(*askers, return_exceptions=True)

    def _urls(self, nodes: NodeAddresses, counts: ReadCounts) -> Iterator[tuple[str, str]]:
        for name, address in nodes.items():
            if not address and "{address}" in self._plan.url:
                counts.rejected["no address"] += 1
                continue
            host = f"[{address}]" if ":" in address else address
            yield name, self._plan.url.replace("{address}", host).replace("{node}", name)

    async def _ask(
        self, url: str, node: str | None, names: NodeNames, counts: ReadCounts
    ) -> list[NodeReadings]:
        gathering = ReadingCollector(self._dialect, self._state, names, node)
        pieces = LineBuffer(self._scanner, gathering.put)
        now_s = taken_s()
        headers = token(self._plan.token_file)
        await self._lines.fetch(self._address(url), pieces.put, self._limits, headers)
        pieces.end()
        if pieces.broken:
            counts.rejected["half a line"] += pieces.broken
        return list(gathering.readings(self.name, counts, now_s))

    def _forget_all_but(self, nodes: NodeAddresses) -> None:
        """Nodes that are gone leave no connection and no layout behind."""
        self._state.keep_nodes(nodes)
        if len(self._addresses) > 2 * len(nodes) + _SPARE:
            self._addresses.clear()
            self._lines.close()

    def _address(self, url: str) -> Address:
        found = self._addresses.get(url)
        if found is None:
            found = self._addresses[url] = Address.of(url, ca_file=self._plan.ca_file)
        return found


def _brief(dialect: ExporterFormat) -> ExporterFormat:
    """What a scheduler goes by, and nothing else."""
    kept = {name: meaning for name, meaning in dialect.series.items() if meaning.reading in _OF_USE}
    return replace(dialect, series=kept)


async def _until_all_ended(
    answers: asyncio.Queue[list[NodeReadings] | None], askers: int
) -> AsyncIterator[NodeReadings]:
    while askers:
        told = await answers.get()
        if told is None:
            askers -= 1
        for each in told or ():
            yield each
