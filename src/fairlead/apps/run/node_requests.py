"""Nodes for whole gangs: a ProvisioningRequest for each gang that lacks nodes.

The engine says which gangs do. Requests are created, followed and deleted here; what becomes of
one is an event. A request that has ended is written again after a while.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import msgspec
import structlog

from fairlead.apps.run.node_request_keys import RequestKeys, in_turn, request_key
from fairlead.apps.run.object_watches import ObjectWatches, is_forbidden
from fairlead.apps.run.served_kinds import KindWatch, ServedKinds, Supervise, WatchedKind
from fairlead.base.run_together import run_together
from fairlead.engine import events
from fairlead.engine.node_requests import MOST_KINDS, NodeRequest, NodeRequests
from fairlead.kube.errors import ApiError
from fairlead.kube.http.client import Client
from fairlead.kube.http.paths import in_namespace, named, pod_path
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import Transport
from fairlead.kube.mirror.changes import Change, Deleted, Undecodable, Upserted
from fairlead.kube.provisioning import (
    REQUESTS,
    RequestObject,
    decode_request,
    request_body,
    request_name,
    template_body,
)
from fairlead.model.node_requests import RequestTerms

log = structlog.get_logger(__name__)

_EVERY_S = 1.0
#: The longest time until a request that has ended is written again.
_LONGEST_PAUSE_S = 1800.0
#: Requests that are written in one look, and so many that are deleted.
_MOST_WRITTEN = 10
_CREATED = (201, 409)

_encode = msgspec.json.Encoder().encode


class NodeRequestCare(ObjectWatches):
    """Keeps the requests that the engine asked for, as long as their kind is served."""

    def __init__(
        self,
        client: Client,
        writer: Transport,
        terms: RequestTerms,
        wanted: Callable[[], NodeRequests],
        feed: Callable[[events.Event], None],
        supervise: Supervise,
        leads: Callable[[], bool],
    ) -> None:
        self._writer = writer
        self._terms = terms
        self._wanted = wanted
        self._feed = feed
        self._leads = leads
        self._is_on = False
        #: By key of a request, how often it was written, and when it may be again.
        self._pauses: dict[str, tuple[int, float]] = {}
        self._keys = RequestKeys()
        #: The gang that a request is for, by the key of its object.
        self._gangs: dict[str, str] = {}
        watch = KindWatch("node requests", REQUESTS, decode_request, self._on_change, self._gone)
        self._kinds = ServedKinds(client, [watch], supervise, looked=self._on_look)

    async def run(self) -> None:
        """Follows until it is cancelled."""
        await run_together(super().run(), self._tend_forever())

    def say_served(self) -> None:
        """What is known is fed once more; its objects are shown by their reflector."""
        self._feed(events.NodeRequestsServed(self._is_on))

    async def _on_look(self, _watch: KindWatch, served: WatchedKind | None) -> None:
        is_on = served is not None and not is_forbidden(served)
        if is_on != self._is_on:
            self._is_on = is_on
            log.info("nodes are requested for gangs" if is_on else "no nodes are requested")
            self._feed(events.NodeRequestsServed(is_on))

    def _on_change(self, change: Change[RequestObject]) -> None:
        match change:
            case Upserted(seen):
                self._is_for(seen.key, seen.gang)
                if seen.gang:
                    self._feed(events.NodeRequestSeen(seen.gang, seen.sentence))
            case Deleted(seen):
                self._is_for(seen.key, "")
            case Undecodable():
                log.error("request cannot be read", key=change.key, error=change.error)
                self._is_for(change.key or "", "")
            case _:
                return

    def _is_for(self, key: str, gang: str) -> None:
        """A request that was edited says nothing about the gang that it was for before."""
        before = self._gangs.pop(key, "")
        if gang:
            self._gangs[key] = gang
        if before and before != gang:
            self._feed(events.NodeRequestSeen(before, None))

    def _gone(self, key: str) -> None:
        """Its kind is not served any more."""
        self._is_for(key, "")

    async def _tend_forever(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            served = self._kinds.get("node requests")
            if served is not None and served.reflector.synced and self._leads():
                try:
                    await self._tend(served)
                except ApiError as error:
                    log.debug("cannot write requests for nodes; retrying", error=str(error))

    async def _tend(self, served: WatchedKind) -> None:
        requests, now = self._wanted(), time.monotonic()
        wanted = self._keys.of(requests.wanted)
        found = cast("dict[str, RequestObject]", served.reflector.objects)
        mine = {key: each for key, each in found.items() if each.gang and not each.is_leaving}
        gangs = {each.gang for each in wanted.values()}
        old = [
            key
            for key, seen in mine.items()
            if (seen.has_ended and self._is_due(key, now))
            or (key not in wanted and (seen.gang in gangs or requests.is_over(seen.gang)))
        ]
        for key in in_turn(old, _MOST_WRITTEN):
            await self._delete(mine[key], served.version)
        for key in [*self._pauses]:
            if key not in wanted:
                del self._pauses[key]
        new = [key for key in wanted if key not in found and self._is_due(key, now)]
        for key in in_turn(new, _MOST_WRITTEN):
            await self._write(wanted[key], served.version)

    def _is_due(self, key: str, now: float) -> bool:
        return now >= self._pauses.get(key, (0, 0.0))[1]

    async def _write(self, request: NodeRequest, version: str) -> None:
        key = request_key(request)
        times = self._pauses.get(key, (0, 0.0))[0]
        pause_s = min(self._terms.retry_s * 2.0 ** min(times, 16), _LONGEST_PAUSE_S)
        self._pauses[key] = times + 1, time.monotonic() + pause_s
        if problem := await self._create(request, version):
            log.warning("nodes cannot be requested", gang=request.gang, why=problem)
            if not self._wanted().is_over(request.gang):
                sentence = f"Nodes cannot be requested: {problem}."
                self._feed(events.NodeRequestSeen(request.gang, sentence))
        else:
            log.info("nodes requested", gang=request.gang, request=request_name(request))

    async def _create(self, request: NodeRequest, version: str) -> str:
        """Its templates first; a sentence if it cannot be."""
        namespace = request.pods[0][0].namespace
        folder = in_namespace("/api/v1", namespace, "podtemplates")
        for number, (pod, _) in enumerate(request.pods):
            reply = await self._writer.request("GET", pod_path(namespace, pod.name))
            if reply.status != 200:
                return f"pod {pod.key}: {reply.message}"
            try:
                body = template_body(request, number, msgspec.json.decode(reply.body))
            except (*UNREADABLE, KeyError, TypeError, AttributeError) as error:
                return f"pod {pod.key} cannot be read: {error}"
            if problem := _problem(await self._post(folder, body)):
                return problem
        body = request_body(request, version, self._terms)
        folder = in_namespace(f"/apis/{REQUESTS.group}/{version}", namespace, REQUESTS.plural)
        return _problem(await self._post(folder, body))

    async def _post(self, folder: str, body: dict[str, Any]) -> Reply:
        return await self._writer.request("POST", folder, body=_encode(body))

    async def _delete(self, seen: RequestObject, version: str) -> None:
        root = f"/apis/{REQUESTS.group}/{version}"
        path = named(in_namespace(root, seen.namespace, REQUESTS.plural), seen.name)
        body = _encode({"preconditions": {"uid": seen.uid}})
        await self._writer.request("DELETE", path, body=body)
        folder = in_namespace("/api/v1", seen.namespace, "podtemplates")
        for template in seen.templates[:MOST_KINDS]:
            if template.startswith(f"{seen.name}-"):
                await self._writer.request("DELETE", named(folder, template))


def _problem(reply: Reply) -> str:
    return "" if reply.status in _CREATED else reply.message
