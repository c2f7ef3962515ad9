"""Finds out how long pods with GPUs ran, for units like them.

The watch leaves out pods that have ended, so it does not show how they did. Each one is read once,
a few in a second and one after another: of more that end at the same time, some are left out.
"""

import asyncio
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import replace

from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.http.client import Client
from fairlead.kube.http.paths import pod_path
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.run_ends import read_run_end
from fairlead.model.pods import Pod

#: Pods that wait to be read.
_LIMIT = 256
_PAUSE_S = 0.1
_TIMEOUT_S = 10.0


class EndedRuns:
    """Runs beside the scheduler; `note` it what happens."""

    def __init__(
        self,
        client: Client,
        feed: Callable[[events.Event], None],
        engine: Engine,
        served: Container[str],
        leads: Callable[[], bool],
        loaded: asyncio.Event | None = None,
    ) -> None:
        """Nothing is learned before `loaded`: what was learned before would be lost."""
        self._loaded = loaded
        self._client = client
        self._feed = feed
        self._engine = engine
        self._served = served
        self._leads = leads
        self._gone: asyncio.Queue[tuple[Pod, events.RunEnded]] = asyncio.Queue(_LIMIT)

    def note(self, event: events.Event) -> None:
        """A pod that is gone may be one that has ended."""
        if not isinstance(event, events.PodGone) or event.pod.request.gpu_request is None:
            return
        pod = event.pod
        if not pod.started or pod.deleting or pod.scheduler not in self._served:
            return
        run = self._engine.run_times.run_of(pod, 0.0, succeeded=False) if self._leads() else None
        if run is not None and not self._gone.full():
            self._gone.put_nowait((pod, run))

    async def run(self) -> None:
        if self._loaded is not None:
            await self._loaded.wait()
        while True:
            pod, run = await self._gone.get()
            with suppress(Unreachable, ReplyLost, *UNREADABLE):
                await self._look(pod, run)
            await asyncio.sleep(_PAUSE_S)

    async def _look(self, pod: Pod, run: events.RunEnded) -> None:
        path = pod_path(pod.namespace, pod.name)
        reply = await self._client.request("GET", path, timeout_s=_TIMEOUT_S)
        found = read_run_end(reply.body, pod.uid) if reply.status == 200 else None
        if found is not None:
            ran_s, succeeded = found
            self._feed(replace(run, ran_s=ran_s, succeeded=succeeded))
