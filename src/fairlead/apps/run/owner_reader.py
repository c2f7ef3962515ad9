"""Reads what Jobs and other controllers declare about how long their pods run.

A controller is read when a pod of it with GPUs is first seen, and again for a later pod after a
while: a Job that was suspended starts its deadline again. They are not watched. What created the
controller is read as well, such as the RayJob of a RayCluster.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Container, Sequence
from contextlib import suppress

from fairlead.engine import events
from fairlead.engine.owner_run_times import MOST_OWNERS, owner_key
from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.http.client import Client
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.kueue_workloads import read_workloads, workload_paths
from fairlead.kube.owner_kinds import OWNER_KINDS, owner_paths
from fairlead.kube.owner_run_times import OwnerSaid, read_owner, run_time_of_chain
from fairlead.model.pods import Pod

#: Controllers that wait to be read, and how many are read for one.
_LIMIT = 1024
_MOST_ABOVE = 4
_AGAIN_S = 60.0
_PAUSE_S = 0.05
_TIMEOUT_S = 10.0


class OwnerReader:
    """Runs beside the scheduler; `note` it what happens."""

    def __init__(
        self,
        client: Client,
        feed: Callable[[events.Event], None],
        served: Container[str],
        now: Callable[[], float],
    ) -> None:
        self._client, self._feed, self._served, self._now = client, feed, served, now
        #: When each was last asked for.
        self._asked: OrderedDict[str, float] = OrderedDict()
        self._pods: asyncio.Queue[Pod] = asyncio.Queue(_LIMIT)

    def note(self, event: events.Event) -> None:
        """A pod whose controller is not known, or was read long ago, is the reason to read it."""
        if not isinstance(event, events.PodSeen) or event.pod.request.gpu_request is None:
            return
        pod = event.pod
        if pod.scheduler not in self._served or _kind_of(pod) not in OWNER_KINDS:
            return
        if not self._pods.full() and self._is_due(owner_key(pod), pod, self._now()):
            self._pods.put_nowait(pod)

    def _is_due(self, owner: str, pod: Pod, now: float) -> bool:
        """Now it is asked for. A pod that runs is of the start that was read."""
        asked_s = self._asked.get(owner)
        if asked_s is not None and (pod.started or now - asked_s < _AGAIN_S):
            return False
        self._asked.pop(owner, None)
        self._asked[owner] = now
        if len(self._asked) > MOST_OWNERS:
            self._asked.popitem(last=False)
        return True

    async def run(self) -> None:
        while True:
            pod = await self._pods.get()
            with suppress(Unreachable, ReplyLost, *UNREADABLE):
                await self._look(pod)
            await asyncio.sleep(_PAUSE_S)

    async def _look(self, pod: Pod) -> None:
        kind, _, name = pod.controller.partition("/")
        found: list[OwnerSaid] = []
        while name and len(found) < _MOST_ABOVE:
            body = await self._get(owner_paths(pod.namespace, kind, name))
            if body is None:
                break
            said = read_owner(body, kind)
            found.append(said)
            if said.kueue_uid:
                found += await self._workload(pod.namespace, said.kueue_uid)
            kind, name = said.controller
        if found:
            self._feed(events.OwnerRunTimeSeen(owner_key(pod), *run_time_of_chain(found)))

    async def _workload(self, namespace: str, uid: str) -> list[OwnerSaid]:
        """What Kueue knows about the job."""
        body = await self._get(workload_paths(namespace, uid))
        found = None if body is None else read_workloads(body)
        return [] if found is None else [OwnerSaid(*found)]

    async def _get(self, paths: Sequence[str]) -> bytes | None:
        """None: it is of no kind that is read, or cannot be."""
        for path in paths:
            reply = await self._client.request("GET", path, timeout_s=_TIMEOUT_S)
            if reply.status == 200:
                return reply.body
        return None


def _kind_of(pod: Pod) -> str:
    return pod.controller.partition("/")[0]
