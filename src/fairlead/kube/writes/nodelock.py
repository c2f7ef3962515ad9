"""The lock of a node, for device plugins that ask it which pod they are serving.

It is an annotation of the node: when it was taken and, with HAMi, for which pod. A bind takes it
first; the device plugin takes it away when the pod has its GPUs. So a bind that failed must give
it back, and one that was not given back is void after five minutes.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec
import structlog

from fairlead.base.names import is_subdomain
from fairlead.engine.instructions import Bind
from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.http.paths import node_path, pod_path
from fairlead.kube.http.reply import Reply
from fairlead.kube.http.transport import Transport

log = structlog.get_logger(__name__)

MERGE = "application/merge-patch+json"
TRIES = 5
TIMEOUT_S = 10.0
VOID_AFTER = timedelta(minutes=5)


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Node(msgspec.Struct):
    metadata: _Meta


class NodeLock:
    """The lock that one bind needs. Its value differs from that of every other bind."""

    def __init__(self, client: Transport, bind: Bind, lock: tuple[str, str]) -> None:
        self._client = client
        self._pod = bind.pod
        self._path = node_path(bind.node)
        self._node = bind.node
        self._key, self._value = lock

    async def take(self) -> str:
        """Empty once the lock is ours, or the sentence on why it is not."""
        problem = ""
        for _ in range(TRIES):
            try:
                problem, again = await self._try_to_take()
            except (Unreachable, ReplyLost) as error:
                # The next read shows what became of it.
                problem, again = f"the lock of node {self._node} cannot be taken: {error}", True
            if not again:
                break
        return problem

    async def release(self) -> None:
        """Gives it back if it is still ours; one that cannot be given back ends by itself."""
        problem = "it was changed repeatedly"
        for _ in range(TRIES):
            try:
                meta = await self._read()
                if meta is None or (meta.annotations or {}).get(self._key) != self._value:
                    return
                reply = await self._write(meta, None)
            except (Unreachable, ReplyLost) as error:
                problem = str(error)
                continue
            if reply.status < 300:
                return
            problem = reply.message
        log.warning("node lock not released", node=self._node, pod=self._pod.key, problem=problem)

    async def _try_to_take(self) -> tuple[str, bool]:
        meta = await self._read()
        if meta is None:
            return f"node {self._node} cannot be read to be locked", False
        held = (meta.annotations or {}).get(self._key, "")
        if held == self._value:
            return "", False
        if held and await self._binds_us(held):
            holder = ", for pod " + "/".join(held.split(",")[1:]) if "," in held else ""
            return (
                f"node {self._node} is locked by its annotation {self._key} since "
                f"{held.split(',')[0]}{holder}; the pod is tried again"
            ), False
        reply = await self._write(meta, self._value)
        if reply.status < 300:
            return "", False
        return f"the lock of node {self._node} cannot be taken: {reply.message}", (
            reply.status == 409 or reply.status >= 500
        )

    async def _binds_us(self, held: str) -> bool:
        """Whether another's lock still counts: it is fresh, and its pod exists."""
        since, *holder = held.split(",")
        if holder == [self._pod.namespace, self._pod.name] or self._is_void(since):
            return False
        if len(holder) != 2:
            return True
        if not all(map(is_subdomain, holder)):  # there can be no such pod
            return False
        reply = await self._client.request("GET", pod_path(*holder), timeout_s=TIMEOUT_S)
        return reply.status != 404

    def _is_void(self, since: str) -> bool:
        """A time that is none would lock the node for ever."""
        now = _time(self._value.split(",")[0])
        then = _time(since)
        return then is None or now is None or now - then > VOID_AFTER

    async def _read(self) -> _Meta | None:
        reply = await self._client.request("GET", self._path, timeout_s=TIMEOUT_S)
        if reply.status != 200:
            return None
        return msgspec.json.decode(reply.body, type=_Node).metadata

    async def _write(self, seen: _Meta, value: str | None) -> Reply:
        """Only if the node was not written to since."""
        annotations: Mapping[str, str | None] = {self._key: value}
        meta = {"resourceVersion": seen.resource_version, "annotations": annotations}
        body = msgspec.json.encode({"metadata": meta})
        return await self._client.request(
            "PATCH", self._path, body=body, content_type=MERGE, timeout_s=TIMEOUT_S
        )


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None
