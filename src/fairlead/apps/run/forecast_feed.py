"""Feeds forecasts of prices and carbon intensity to the engine. No decision waits for it."""

import asyncio
import time
from base64 import b64decode
from collections.abc import Callable, Sequence

import msgspec
import structlog

from fairlead.base.run_together import run_together
from fairlead.engine.engine import Engine
from fairlead.engine.events import Event, ForecastSeen
from fairlead.kube.errors import ApiError
from fairlead.kube.http.paths import in_namespace, named
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.http.transport import Transport
from fairlead.model.consolidation import time_of
from fairlead.model.forecasts import Forecast
from fairlead.model.start_times import Window
from fairlead.telemetry.figures.forecast_sources import (
    Fetch,
    Fetched,
    FileFetch,
    ForecastPlan,
    ForecastSource,
    PrometheusFetch,
)
from fairlead.telemetry.sources.api import SourceFault

log = structlog.get_logger(__name__)

_EVERY_S = 5.0
_TIMEOUT_S = 10.0


class ForecastFeed:
    """Runs beside the scheduler, on standbys, too."""

    def __init__(
        self, plans: Sequence[ForecastPlan], client: Transport | None, feed: Callable[[Event], None]
    ) -> None:
        self.sources = [ForecastSource(plan, _fetch(plan, client)) for plan in plans]
        self._feed = feed
        self._sent: dict[Window, Forecast] = {}
        self._problems: dict[tuple[Window, str], str] = {}

    async def run(self) -> None:
        self.announce()
        while True:
            await self.take(time.monotonic(), time.time())
            await asyncio.sleep(_EVERY_S)

    def announce(self) -> None:
        """Units wait for the first forecast, so that a restart starts none of them too early."""
        for window in {source.plan.window: None for source in self.sources}:
            if window not in self._sent:
                self._put(Forecast(window, awaited=True))

    async def take(self, now_s: float, wall_s: float) -> None:
        """Asks the sources that are due, and sends what has changed."""
        await run_together(*(source.take(now_s, wall_s) for source in self.sources))
        for window in dict.fromkeys(source.plan.window for source in self.sources):
            self._send(window, wall_s)
        for source in self.sources:
            self._note(source)

    def _send(self, window: Window, wall_s: float) -> None:
        """The first source with a usable forecast counts: units of two are never mixed."""
        said = [each.forecast(wall_s) for each in self.sources if each.plan.window is window]
        found = next((each for each in said if each is not None), Forecast(window))
        if found != self._sent.get(window, Forecast(window)):
            self._put(found)

    def source_in_use(self, window: Window) -> str:
        """The source whose forecast counts; empty: none is usable."""
        sent = self._sent.get(window)
        return sent.source if sent is not None and sent.spans else ""

    def _put(self, forecast: Forecast) -> None:
        self._sent[forecast.window] = forecast
        self._feed(ForecastSeen(forecast))

    def _note(self, source: ForecastSource) -> None:
        """Says once that a source has a problem, and once that it has none any more."""
        key, problem = (source.plan.window, source.plan.name), source.status.problem
        if bool(problem) != bool(self._problems.get(key, "")):
            level = log.warning if problem else log.info
            level(
                "forecast not used, or not all of it" if problem else "forecast used again",
                window=source.plan.window.value,
                source=source.plan.name,
                error=problem,
            )
        self._problems[key] = problem


class _ConfigMap(msgspec.Struct, rename="camel"):
    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None


class ConfigMapFetch:
    """A ConfigMap in the form of the carbon-aware exporter: `data`, and `lastHeartbeatTime`."""

    def __init__(self, plan: ForecastPlan, client: Transport) -> None:
        namespace, name = plan.config_map
        self._path = named(in_namespace("/api/v1", namespace, "configmaps"), name)
        self._client = client

    async def __call__(self) -> Fetched:
        try:
            reply = await self._client.request("GET", self._path, timeout_s=_TIMEOUT_S)
        except ApiError as error:
            raise SourceFault(str(error)) from error
        if reply.status != 200:
            raise SourceFault(f"{self._path} cannot be read: {reply.message}")
        return read_config_map(reply.body)


def read_config_map(body: bytes) -> Fetched:
    """Its records, and when they were written. Raises SourceFault."""
    try:
        found = msgspec.json.decode(body, type=_ConfigMap)
        said, binary = found.data or {}, found.binary_data or {}
        data = b64decode(binary["data"]) if "data" in binary else said.get("data", "").encode()
    except (*UNREADABLE, ValueError) as error:
        raise SourceFault(f"it cannot be read: {error}") from error
    if not data:
        raise SourceFault("it has no key `data`")
    return data, time_of(said.get("lastHeartbeatTime", ""))


def _fetch(plan: ForecastPlan, client: Transport | None) -> Fetch:
    """`client` is for ConfigMaps."""
    if client is not None and plan.kind == "configmap":
        return ConfigMapFetch(plan, client)
    return PrometheusFetch(plan) if plan.kind == "prometheus" else FileFetch(plan)


async def taken_once(
    plans: Sequence[ForecastPlan], client: Transport, engine: Engine
) -> ForecastFeed:
    """For commands that look: forecasts are in the engine, and what sources say in the feed."""

    def put(event: Event) -> None:
        engine.handle(event, now=0.0)

    made = ForecastFeed(plans, client, put)
    await made.take(time.monotonic(), time.time())
    return made


async def put_forecasts_once(
    plans: Sequence[ForecastPlan], client: Transport, engine: Engine
) -> list[str]:
    """For commands that look; returns what sources could not say, and why."""
    made = await taken_once(plans, client, engine)
    found = ((source.plan.name, source.status.problem) for source in made.sources)
    return [f"{name}: {problem}" for name, problem in found if problem]
