"""A report over the past: what a Prometheus server remembers of the GPUs, played again."""

import math
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import aiohttp
import msgspec

from fairlead.apps.run.usage import Usage
from fairlead.apps.top.cluster_listing import ClusterListing
from fairlead.apps.top.report_source import NotAnswered
from fairlead.cluster.cluster import Cluster
from fairlead.kube.http.client import Client
from fairlead.model.pods import Pod
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.telemetry.report import UsageReport
from fairlead.telemetry.sources import agent, dcgm
from fairlead.telemetry.usage import UsageBook

#: The past is cut into so many steps, each at least as long as a scrape.
_STEPS = 480
_LEAST_STEP_S = 15.0
_TIMEOUT_S = 60.0

#: The agent's series win over dcgm-exporter's. Each value is the mean over its step.
_QUERIES = {
    "utilisation": (
        "avg_over_time(fairlead_gpu_utilization_ratio[{step}s])",
        "avg_over_time(DCGM_FI_DEV_GPU_UTIL[{step}s]) / 100",
    ),
    "memory_used_mib": (
        "max_over_time(fairlead_gpu_memory_used_bytes[{step}s]) / 1048576",
        "max_over_time(DCGM_FI_DEV_FB_USED[{step}s])",
    ),
    "power_w": (
        "avg_over_time(fairlead_gpu_power_watts[{step}s])",
        "avg_over_time(DCGM_FI_DEV_POWER_USAGE[{step}s])",
    ),
}
_WHOSE = (agent.whose, dcgm.whose)
#: By time, then by uuid: what was read.
_Past = dict[float, dict[str, dict[str, float]]]


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    result: list[_Series] = []


class _Answer(msgspec.Struct):
    status: str
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""


class FromPrometheus:
    """The first report is over all of `since_s`; those that follow add what happened since."""

    def __init__(self, client: Client, url: str, since_s: float) -> None:
        self._url = url.rstrip("/") + "/api/v1/query_range"
        self._step_s = max(_LEAST_STEP_S, math.ceil(since_s / _STEPS))
        self._listing = ClusterListing(client)
        self._now_s = self._began_s = time.time() - since_s
        self._usage: Usage | None = None

    async def report(self) -> UsageReport:
        cluster, until_s = await self._listing.cluster(), time.time()
        if self._usage is None:
            book = UsageBook(longest_gap_s=2 * self._step_s)
            self._usage = Usage(cluster, clock=lambda: self._now_s, book=book)
        self._usage.cluster = cluster
        past = await self._ask(self._now_s, until_s)
        await self._play(self._usage, past)
        report = await self._usage.report()
        return UsageReport(self._now_s - self._began_s, report.gpus, report.pods, held=report.held)

    async def _play(self, usage: Usage, past: _Past) -> None:
        """Looks at every step as if it were now; pods are there from when they started."""
        started = {pod.uid: _started_s(pod) for pod in _pods(usage.cluster)}
        places = _places(usage.cluster)
        for at_s in sorted(past):
            self._now_s = at_s
            usage.latest.note(_node_readings(past[at_s], places, at_s))
            await usage.look(lambda pod: started[pod.uid] <= self._now_s)

    async def _ask(self, from_s: float, until_s: float) -> _Past:
        past: _Past = {}
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            for what, queries in _QUERIES.items():
                for query, whose in zip(queries, _WHOSE, strict=True):
                    asked = query.format(step=int(self._step_s))
                    for series in await self._query(session, asked, from_s, until_s):
                        owner = whose(series.metric)
                        if owner is not None and owner.gpu and owner.part == 1.0:
                            _add(past, owner.gpu, what, series)
        return past

    async def _query(
        self, session: aiohttp.ClientSession, query: str, from_s: float, until_s: float
    ) -> list[_Series]:
        form = {
            "query": query,
            "start": f"{from_s + self._step_s:.3f}",
            "end": f"{until_s:.3f}",
            "step": f"{self._step_s:g}",
        }
        if until_s < from_s + self._step_s:
            return []
        try:
            async with session.post(self._url, data=form, allow_redirects=False) as reply:
                body = await reply.read()
            answer = msgspec.json.decode(body, type=_Answer)
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
            raise NotAnswered(
                f"no answer from Prometheus at {self._url}: {error or 'it took too long'}; "
                "check --prometheus"
            ) from error
        if answer.status != "success":
            raise NotAnswered(
                f"the Prometheus server at {self._url} refused a query: {answer.error}"
            )
        return answer.data.result


def _add(past: _Past, gpu: str, what: str, series: _Series) -> None:
    for at_s, text in series.values:
        value = float(text)
        if math.isfinite(value) and value >= 0:
            past.setdefault(at_s, {}).setdefault(gpu, {}).setdefault(what, value)


def _node_readings(
    gpus: Mapping[str, dict[str, float]], places: Mapping[str, str], at_s: float
) -> Iterator[NodeReadings]:
    by_node: dict[str, dict[str, GpuReading]] = {}
    for gpu, values in gpus.items():
        node = places.get(gpu)
        if node is not None:
            known: dict[str, Any] = {**values, "utilisation": _share(values.get("utilisation"))}
            by_node.setdefault(node, {})[gpu] = GpuReading(**known)
    for node, readings in by_node.items():
        yield NodeReadings(node, at_s, readings, source="prometheus")


def _share(value: float | None) -> float | None:
    return None if value is None or value > 1 else value


def _places(cluster: Cluster) -> dict[str, str]:
    """The node of each GPU, by uuid."""
    return {
        gpu.uuid: name
        for name, row in cluster.row_of.items()
        for gpu in cluster.columns.devices.gpus(row)
        if gpu.uuid
    }


def _pods(cluster: Cluster) -> Iterator[Pod]:
    return (held.pod for held in cluster.holdings.values())


def _started_s(pod: Pod) -> float:
    """Since 1970; far in the future for a pod that has not started."""
    try:
        return datetime.fromisoformat(pod.started).timestamp()
    except ValueError:
        return math.inf
