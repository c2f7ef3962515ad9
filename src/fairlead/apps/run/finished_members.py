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
from fairlead.kube.http.client import Client
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.mirror.listing import pages
from fairlead.kube.mirror.wire import StatusError
from fairlead.model.pods import Pod

log = structlog.get_logger(__name__)

_SUCCEEDED = {"fieldSelector": "status.phase=Succeeded"}


class FinishedMembers:
    """Runs beside the scheduler; one list at a time, for all gangs of a namespace that ask."""

    def __init__(
        self,
        client: Client,
        feed: Callable[[events.Event], None],
        decode: Callable[[bytes], Pod],
    ) -> None:
        self._client = client
        self._feed = feed
        self._decode = decode
        #: Keys of gangs by namespace.
        self._asked: dict[str, set[str]] = {}
        self._woken = asyncio.Event()

    def submit(self, find: FindFinished) -> None:
        self._asked.setdefault(find.namespace, set()).add(find.key)
        self._woken.set()

    async def run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._asked:
                namespace = next(iter(self._asked))
                keys = self._asked.pop(namespace)
                try:
                    await self._look(namespace, keys)
                except (ApiError, StatusError) as error:
                    log.warning(
                        "listing finished pods failed", namespace=namespace, error=str(error)
                    )

    async def _look(self, namespace: str, keys: set[str]) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods"
        async for page in pages(self._client, path, _SUCCEEDED):
            for raw in page.items or ():
                try:
                    pod = self._decode(bytes(raw))
                except UNREADABLE:
                    continue
                if pod.gang is not None and pod.gang.gang in keys:
                    self._feed(events.PodSeen(pod))
