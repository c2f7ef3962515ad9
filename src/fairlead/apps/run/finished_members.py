"""Looks for members of gangs that have succeeded: the watch of pods leaves finished ones out.

A gang below its minimum may lack only pods that have done their part. So before it is reported to
wait for pods, the succeeded pods of its namespace are listed once.
"""

import asyncio
from collections.abc import Callable

import structlog

from fairlead.engine import events
from fairlead.engine.instructions import FindFinished
from fairlead.kube.errors import ApiError
from fairlead.kube.failures import Failures
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.breath import Breath
from fairlead.kube.mirror.listing import pages
from fairlead.kube.mirror.wire import StatusError, undecodable
from fairlead.kube.nesting import of_any_depth
from fairlead.kube.writes.pauses import pause_s
from fairlead.model.pods import Pod

log = structlog.get_logger(__name__)

_SUCCEEDED = {"fieldSelector": "status.phase=Succeeded"}
_LONGEST_PAUSE_S = 30.0
#: Of gangs of a namespace whose pods cannot be listed. Beyond that they are asked for once only.
_MOST_KEYS = 10_000


class FinishedMembers:
    """Runs beside the scheduler; one list at a time, for all gangs of a namespace that ask."""

    def __init__(
        self,
        client: Client,
        feed: Callable[[events.Event], None],
        decode: Callable[[bytes], Pod],
        failures: Failures | None = None,
    ) -> None:
        self._client = client
        self._feed = feed
        self._decode = of_any_depth(decode)
        self._failures = failures or Failures()
        #: Keys of gangs by namespace.
        self._asked: dict[str, set[str]] = {}
        self._woken = asyncio.Event()

    def submit(self, find: FindFinished) -> None:
        self._asked.setdefault(find.namespace, set()).add(find.key)
        self._woken.set()

    async def run(self) -> None:
        failed = 0
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._asked:
                namespace = next(iter(self._asked))
                keys = self._asked.pop(namespace)
                try:
                    await self._look(namespace, keys)
                    failed = 0
                except (ApiError, StatusError) as error:
                    log.warning(
                        "listing finished pods failed; retrying",
                        namespace=namespace,
                        error=str(error),
                    )
                    self._ask_again(namespace, keys)
                    await asyncio.sleep(pause_s(failed, longest_s=_LONGEST_PAUSE_S))
                    failed += 1

    def _ask_again(self, namespace: str, keys: set[str]) -> None:
        """After the namespaces that have not been looked through yet."""
        keys |= self._asked.pop(namespace, set())
        if len(keys) <= _MOST_KEYS:
            self._asked[namespace] = keys

    async def _look(self, namespace: str, keys: set[str]) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods"
        breath = Breath()
        async for page in pages(self._client, path, _SUCCEEDED):
            for raw in page.items or ():
                self._take(bytes(raw), keys)
                if breath.is_due(len(raw)):
                    await asyncio.sleep(0)

    def _take(self, raw: bytes, keys: set[str]) -> None:
        """A pod that cannot be read does not end the search for other pods."""
        try:
            pod = self._decode(raw)
            if pod.gang is not None and pod.gang.gang in keys:
                self._feed(events.PodSeen(pod))
        except Exception as error:
            self._failures.note("reading", undecodable(raw, error).key or "a finished pod", error)
