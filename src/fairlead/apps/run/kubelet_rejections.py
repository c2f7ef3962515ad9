"""Finds out which of our pods a kubelet rejected after the bind.

A kubelet admits pods itself: where a device plugin fails or has less than the scheduler knows, the
pod fails with a reason such as UnexpectedAdmissionError. The watch leaves out pods that have
ended, so such a pod looks as if it were deleted. Each pod that goes before it has started is read
once.
"""

import asyncio
from collections.abc import Callable, Container
from contextlib import suppress

import msgspec

from fairlead.engine import events
from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.http.client import Client
from fairlead.kube.http.paths import pod_path
from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.pods import Pod

#: More at once are not looked at: their controllers wait as the others of their kind do.
_LIMIT = 256
_TIMEOUT_S = 10.0
#: What kubelets report of pods that they reject. Others are of requests that only the pod's author
#: can change.
_REASONS = ("UnexpectedAdmissionError", "OutOf", "TopologyAffinityError")


class _Status(msgspec.Struct):
    phase: str = ""
    reason: str = ""
    message: str = ""


class _Meta(msgspec.Struct):
    uid: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    status: _Status = msgspec.field(default_factory=_Status)


_pods = msgspec.json.Decoder(_Pod)


class KubeletRejections:
    """Runs beside the scheduler; `note` it what happens."""

    def __init__(
        self, client: Client, feed: Callable[[events.Event], None], served: Container[str]
    ) -> None:
        self._client = client
        self._feed = feed
        self._served = served
        self._gone: asyncio.Queue[Pod] = asyncio.Queue(_LIMIT)

    def note(self, event: events.Event) -> None:
        """A pod that is gone may be one that was rejected."""
        if not isinstance(event, events.PodGone):
            return
        pod = event.pod
        if pod.node and not (pod.started or pod.deleting) and pod.scheduler in self._served:
            with suppress(asyncio.QueueFull):
                self._gone.put_nowait(pod)

    async def run(self) -> None:
        while True:
            pod = await self._gone.get()
            with suppress(Unreachable, ReplyLost, *UNREADABLE):
                await self._look(pod)

    async def _look(self, pod: Pod) -> None:
        path = pod_path(pod.namespace, pod.name)
        reply = await self._client.request("GET", path, timeout_s=_TIMEOUT_S)
        if reply.status != 200:
            return
        found = _pods.decode(reply.body)
        status = found.status
        rejected = status.phase == "Failed" and status.reason.startswith(_REASONS)
        if rejected and found.metadata.uid == pod.uid:
            self._feed(events.PodRejected(pod, f"{status.reason}: {status.message:.300}"))
