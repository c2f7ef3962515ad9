"""Keeps what was learned about run times across restarts, in a ConfigMap.

The chart creates it, empty. The leader reads it once and writes it when something was learned, at
most every few minutes. What cannot be read is replaced.
"""

import asyncio
import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from fairlead.engine import events, run_dumps
from fairlead.engine.engine import Engine
from fairlead.kube.errors import ApiError
from fairlead.kube.http.paths import in_namespace, named
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import Transport
from fairlead.kube.leadership.election import Terms

log = structlog.get_logger(__name__)

#: The ConfigMap is named as the Lease, and this.
SUFFIX = "-run-times"
_KEY = "runs"
#: After something was learned, and after a write.
_SOON_S, _EVERY_S = 5.0, 300.0
_LOOK_S = 1.0
_TIMEOUT_S = 10.0
#: As base64; what is longer is cut, and then damaged.
_LONGEST = run_dumps.LARGEST_DUMP * 4 // 3 + 4


class _ConfigMap(msgspec.Struct, rename="camel"):
    metadata: dict[str, Any]
    binary_data: dict[str, str] | None = None


_config_maps = msgspec.json.Decoder(_ConfigMap)


class RunTimeStore:
    """Runs beside the scheduler of a leader."""

    def __init__(
        self,
        client: Transport,
        terms: Terms,
        engine: Engine,
        feed: Callable[[events.Event], None],
        leads: Callable[[], bool],
        *,
        every_s: float = _EVERY_S,
    ) -> None:
        folder = in_namespace("/api/v1", terms.namespace, "configmaps")
        self._name = terms.name + SUFFIX
        self._path = named(folder, self._name)
        self._client, self._engine, self._feed, self._leads = client, engine, feed, leads
        self._every_s = every_s
        self._problem = ""
        #: What was kept is known, or cannot be.
        self.loaded = asyncio.Event()

    async def run(self) -> None:
        """Reads once, then writes."""
        while not self._leads():
            await asyncio.sleep(_LOOK_S)
        found = await self._read()
        if found is not None:
            self._load((found.binary_data or {}).get(_KEY, ""))
        written = self._version
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
        return self._engine.run_times.history.version

    def _load(self, text: str) -> None:
        if not text:
            return
        try:
            data = b64decode(text[:_LONGEST], validate=True)
            run_dumps.load(data)
        except (ValueError, binascii.Error) as error:
            log.warning(
                "what was learned about run times cannot be read; learning again",
                configmap=self._name,
                error=str(error),
            )
        else:
            self._feed(events.RunTimesLoaded(data))

    async def _write(self) -> bool:
        """With the version that was read just now: a second leader is not overwritten unread."""
        found = await self._read()
        if found is None or not self._leads():
            return False
        data = {
            **(found.binary_data or {}),
            _KEY: b64encode(self._engine.run_times.dump()).decode(),
        }
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": found.metadata,
            "binaryData": data,
        }
        reply = await self._request("PUT", msgspec.json.encode(body))
        return reply is not None and reply.status == 200

    async def _read(self) -> _ConfigMap | None:
        reply = await self._request("GET")
        if reply is None or reply.status != 200:
            return None
        try:
            return _config_maps.decode(reply.body)
        except UNREADABLE:
            return None

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
