"""Keeps what was learned about run times, starts and service classes across restarts.

It is in a ConfigMap, which the chart creates, empty. The leader reads it once and writes it when
something was learned, at most every few minutes. What cannot be read is replaced.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping

import msgspec
import structlog

from fairlead.apps.goals.report_book import ReportBook
from fairlead.apps.live.learned import (
    REPORT,
    RUNS,
    SERVICE,
    STARTS,
    SUFFIX,
    LearnedConfigMap,
    LearnedPlace,
    config_map_path,
    kept_events,
    read_config_map,
    read_report,
)
from fairlead.engine import events, service_dumps, start_dumps
from fairlead.engine.engine import Engine
from fairlead.engine.service_record import ServiceRecord
from fairlead.kube.errors import ApiError
from fairlead.kube.http.reply import Reply
from fairlead.kube.http.transport import Transport

log = structlog.get_logger(__name__)

#: After something was learned.
_SOON_S = 5.0
_LOOK_S = 1.0
_TIMEOUT_S = 10.0


class RunTimeStore:
    """Runs beside the scheduler of a leader."""

    def __init__(
        self,
        client: Transport,
        place: LearnedPlace,
        engine: Engine,
        feed: Callable[[events.Event], None],
        leads: Callable[[], bool],
        report: ReportBook,
    ) -> None:
        self._name = place.lease + SUFFIX
        self._path = config_map_path(place.namespace, place.lease)
        self._client, self._engine, self._feed, self._leads = client, engine, feed, leads
        self._every_s, self._report = place.every_s, report
        self._problem = ""
        #: What was kept is taken in once, before it is replaced.
        self._has_read = False
        #: What was kept is known, or cannot be.
        self.loaded = asyncio.Event()

    async def run(self) -> None:
        """Reads once, then writes."""
        began = self._version
        while not self._leads():
            await asyncio.sleep(_LOOK_S)
        found = await self._read()
        learned_meanwhile = self._version != began
        if found is not None:
            self._load_once(found)
        written = self._version - learned_meanwhile
        self.loaded.set()
        while True:
            while self._version == written:
                await asyncio.sleep(_LOOK_S)
            await asyncio.sleep(_SOON_S)
            version = self._version
            if await self._write():
                written = version
            await asyncio.sleep(self._every_s)

    @property
    def _version(self) -> int:
        engine = self._engine
        records = engine.run_times.history, engine.start_record, engine.service_record
        return sum(record.version for record in records) + self._report.version

    def _load_once(self, found: LearnedConfigMap) -> None:
        if not self._has_read:
            self._has_read = True
            self._load(found.binary_data or {})

    def _load(self, kept: Mapping[str, str]) -> None:
        for each in kept_events(kept):
            if isinstance(each, ValueError):
                log.warning(
                    "what was learned about run times cannot be read; learning again",
                    configmap=self._name,
                    error=str(each),
                )
            else:
                self._feed(each)
        try:
            found = read_report(kept)
            if found is not None:
                self._report.take(found)
        except ValueError as error:
            log.warning("the report of goals cannot be read; counting again", error=str(error))

    async def _write(self) -> bool:
        """With the version that was read just now: a second leader is not overwritten unread."""
        found = await self._read()
        if found is None or not self._leads():
            return False
        self._load_once(found)
        engine = self._engine
        starts = start_dumps.dump(engine.start_record, engine.wall_offset_s)
        data = {
            **(found.binary_data or {}),
            RUNS: b64encode(engine.run_times.dump()).decode(),
            STARTS: b64encode(starts).decode(),
            **_service(engine.service_record),
            **({REPORT: b64encode(self._report.dump()).decode()} if self._report else {}),
        }
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": found.metadata,
            "binaryData": data,
        }
        reply = await self._request("PUT", msgspec.json.encode(body))
        return reply is not None and reply.status == 200

    async def _read(self) -> LearnedConfigMap | None:
        reply = await self._request("GET")
        if reply is None or reply.status != 200:
            return None
        return read_config_map(reply.body)

    async def _request(self, method: str, body: bytes | None = None) -> Reply | None:
        try:
            reply = await self._client.request(method, self._path, body=body, timeout_s=_TIMEOUT_S)
        except ApiError as error:
            self._say(str(error))
            return None
        self._say("" if reply.status == 200 else reply.message)
        return reply

    def _say(self, problem: str) -> None:
        """Once for each problem: without the ConfigMap, all is learned again after a restart."""
        if problem and problem != self._problem:
            log.info(
                "what is learned about run times is not kept", configmap=self._name, reason=problem
            )
        self._problem = problem


def _service(record: ServiceRecord) -> dict[str, str]:
    """Nothing where no class was ever configured."""
    return {SERVICE: b64encode(service_dumps.dump(record)).decode()} if record.hours else {}
