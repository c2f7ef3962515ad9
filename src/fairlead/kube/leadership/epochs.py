"""The object that says which epoch may bind: the parameter of the policy fairlead-epoch.

It is an object of a kind of our own. The API server looks at a Lease for a policy only until the
policy is deleted for the first time (kubernetes#130887).
"""

from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from fairlead.kube.errors import ReplyLost
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import Transport
from fairlead.kube.leadership.election import Terms
from fairlead.kube.leadership.lease import LeaseProblem

log = structlog.get_logger(__name__)

VERSION, KIND = "fairlead.dev/v1alpha1", "SchedulerEpoch"
#: Where the kind is not served, or not ours to write, it is asked for again after 1, 2, 4 … turns,
#: and at last at every so many. When all is installed at once, it is served a few seconds later.
_LONGEST_REST_TURNS = 15


class _Spec(msgspec.Struct):
    epoch: str = ""


class _Object(msgspec.Struct):
    metadata: dict[str, Any]
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Details(msgspec.Struct):
    name: str = ""


class _Status(msgspec.Struct):
    details: _Details | None = None


_objects = msgspec.json.Decoder(_Object)
_statuses = msgspec.json.Decoder(_Status)


class EpochClient:
    """Keeps the object of one Lease, which has the same name. Raises ApiError."""

    def __init__(self, client: Transport, terms: Terms, leads: Callable[[], bool]) -> None:
        self._client, self._leads = client, leads
        self._name, self._namespace = terms.name, terms.namespace
        self._folder = f"/apis/{VERSION}/namespaces/{terms.namespace}/schedulerepochs"
        self._timeout_s = terms.renew_s / 2
        self._rest = 0
        self._rests = 0

    async def keep(self, epoch: str) -> None:
        """Writes the epoch unless it is there.

        Every write insists on the version that was read while we led, so one that comes late
        changes nothing that a later leader wrote.
        """
        if self._rest:
            self._rest -= 1
            return
        reply = await self._request("GET", f"{self._folder}/{self._name}")
        if reply.status == 403 or (reply.status == 404 and not _is_served(reply)):
            self._pause(reply)
            return
        self._rests = 0
        if reply.status == 404:
            meta = {"name": self._name, "namespace": self._namespace}
            await self._write("POST", self._folder, meta, epoch)
        else:
            found = self._read(reply)
            if found.spec.epoch != epoch:
                path = f"{self._folder}/{self._name}"
                await self._write("PUT", path, found.metadata, epoch)

    async def _write(self, method: str, path: str, meta: dict[str, Any], epoch: str) -> None:
        if not self._leads():
            return
        body = {"apiVersion": VERSION, "kind": KIND, "metadata": meta, "spec": {"epoch": epoch}}
        self._read(await self._request(method, path, msgspec.json.encode(body)))

    async def _request(self, method: str, path: str, body: bytes | None = None) -> Reply:
        return await self._client.request(method, path, body=body, timeout_s=self._timeout_s)

    def _pause(self, reply: Reply) -> None:
        self._rest = min(2**self._rests, _LONGEST_REST_TURNS)
        self._rests = min(self._rests + 1, 8)
        log.info("no epoch is kept", kind=KIND, reason=reply.message)

    def _read(self, reply: Reply) -> _Object:
        if reply.status >= 300:
            raise LeaseProblem(
                f"{KIND} {self._namespace}/{self._name}: {reply.status} {reply.message}"
            )
        try:
            return _objects.decode(reply.body)
        except UNREADABLE as error:
            raise ReplyLost(f"the {KIND} cannot be read: {error}") from error


def _is_served(reply: Reply) -> bool:
    """Whether only the object is missing: its name is then said, and else that of nothing."""
    try:
        details = _statuses.decode(reply.body).details
    except UNREADABLE:
        return False
    return bool(details and details.name)
