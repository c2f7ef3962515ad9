"""A Prometheus server that scrapes the exporters already: one query for each reading."""

from collections.abc import AsyncIterator, Mapping

import msgspec

from fairlead.model.readings import NodeReadings
from fairlead.telemetry.sources import api, dcgm
from fairlead.telemetry.sources.api import (
    NodeAddresses,
    ReadCounts,
    SourceFault,
    SourcePlan,
    taken_s,
)
from fairlead.telemetry.sources.exposition import Found, LabelCache
from fairlead.telemetry.sources.fetch import FetchLimits
from fairlead.telemetry.sources.formats import ExporterFormat, Meaning, SeriesTarget
from fairlead.telemetry.sources.gathering import NodeNames, ReadingCollector, SourceState
from fairlead.telemetry.sources.prometheus_api import PrometheusServer, QuerySample

#: 40,000 GPUs with twenty labels each are some 20 MiB.
_MOST_BYTES = 256 * 2**20
#: The query for when the GPUs were measured; a value alone comes without its time.
TIME = "time"

#: What may be asked for, in our units.
MEANINGS = {
    "utilisation": Meaning("utilisation", of_slices=True),
    "memoryBusy": Meaning("memory_busy", of_slices=True),
    "memoryUsedMib": Meaning("memory_used_mib", 1.0, api.MOST_MEMORY_MIB, of_slices=True),
    "powerW": Meaning("power_w", 1.0, api.MOST_POWER_W),
    "temperatureC": Meaning("temperature_c", 1.0, api.MOST_CELSIUS),
    "nvlinkBytesS": Meaning("nvlink_bytes_s", 1.0, api.MOST_NVLINK_BYTES_S),
}

#: Of slices, dcgm-exporter says that they are busy 0 % of the time, whatever they do.
QUERIES: Mapping[str, str] = {
    "utilisation": 'DCGM_FI_PROF_GR_ENGINE_ACTIVE or DCGM_FI_DEV_GPU_UTIL{GPU_I_ID=""} / 100',
    "memoryBusy": 'DCGM_FI_DEV_MEM_COPY_UTIL{GPU_I_ID=""} / 100',
    "memoryUsedMib": "DCGM_FI_DEV_FB_USED",
    "powerW": "DCGM_FI_DEV_POWER_USAGE",
    "temperatureC": "DCGM_FI_DEV_GPU_TEMP",
    TIME: "timestamp(DCGM_FI_DEV_GPU_UTIL)",
}


_labels = msgspec.json.Decoder(dict[str, str])


def _whose(block: bytes) -> SeriesTarget | None:
    try:
        return dcgm.whose(_labels.decode(block))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class Prometheus:
    """Asks one server for all nodes. A query that fails takes nothing from the others."""

    def __init__(self, plan: SourcePlan) -> None:
        self._plan = plan
        self._queries = dict(plan.queries or QUERIES)
        series = {name: meaning for name, meaning in MEANINGS.items() if name in self._queries}
        self._dialect = ExporterFormat(series, LabelCache(_whose))
        self._state = SourceState()
        self._server = PrometheusServer(
            plan.url,
            FetchLimits(plan.timeout_s, _MOST_BYTES),
            token_file=plan.token_file,
            ca_file=plan.ca_file,
            keeps=plan.keeps,
        )

    @property
    def name(self) -> str:
        return self._plan.name

    async def take(self, nodes: NodeAddresses, counts: ReadCounts) -> AsyncIterator[NodeReadings]:
        now_s = taken_s()
        gathering = ReadingCollector(self._dialect, self._state, NodeNames(nodes), None)
        times = await self._times(counts)
        for name in self._dialect.series:
            samples = await self._ask(name, counts)
            gathering.put([self._found(name, sample, times) for sample in samples])
        for told in gathering.readings(self.name, counts, now_s):
            yield told

    async def _times(self, counts: ReadCounts) -> dict[tuple[str, str], bytes]:
        """By node and GPU: when it was measured, as a text would say it."""
        if TIME not in self._queries:
            return {}
        found = {}
        for sample in await self._ask(TIME, counts):
            whose = self._dialect.book.of(bytes(sample.metric))
            if whose is not None:
                found[whose.node, whose.gpu] = sample.value[1].encode()
        return found

    def _found(
        self, name: str, sample: QuerySample, times: Mapping[tuple[str, str], bytes]
    ) -> Found:
        block = bytes(sample.metric)
        whose = self._dialect.book.of(block)
        at = times.get((whose.node, whose.gpu), b"") if whose else b""
        return name.encode(), block, sample.value[1].encode(), at

    async def _ask(self, name: str, counts: ReadCounts) -> list[QuerySample]:
        counts.asked += 1
        try:
            reply = await self._server.query(self._queries[name])
        except SourceFault as fault:
            counts.fail(f"query {name!r}: {fault}")
            return []
        counts.rejected["warning"] += len(reply.warnings)
        if said := reply.problem:
            counts.fail(f"query {name!r}: {said}; correct it in the configuration", "query")
            return []
        return reply.data.result
