"""Keeps the ResourceSlices of a node equal to its GPUs, while no driver publishes them."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import structlog

from fairlead.apps.agent.keeping import TIMEOUT_S, AgentPublisher, refused_because
from fairlead.apps.agent.publishing import decode_node, lists_gpus
from fairlead.apps.agent.resource_slices.slice_plan import (
    FoundSlice,
    bare_part,
    found_slices,
    slice_steps,
)
from fairlead.base.nvidia_devices import Object
from fairlead.kube.claims.kinds import SLICES
from fairlead.kube.http.client import Client
from fairlead.kube.http.reply import Reply
from fairlead.kube.mirror.changes import Change
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.writes.pauses import spread
from fairlead.model.device_gpus import NVIDIA

log = structlog.get_logger(__name__)

PATH = f"/apis/{SLICES.group}/v1/{SLICES.plural}"
#: After each write: something else that changes the same slices must not make it a race.
_PAUSE_S = 0.5
_HINTS = {
    403: "; grant the agent create, delete, list, update and watch of resourceslices",
    404: "; does this cluster serve resource.k8s.io/v1?",
}
_GONE = 404
_DRIVER = f"the driver {NVIDIA} publishes this node"
_PLUGIN = "a device plugin serves the GPUs of this node"


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str


class _Seen(msgspec.Struct):
    """As much of a slice as is needed to see that it has changed."""

    metadata: _Meta

    @property
    def key(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def version(self) -> str:
        return self.metadata.resource_version


class SlicePublisher(AgentPublisher):
    """`run` it and its `watch` in tasks. Slices of a driver are never changed."""

    def __init__(self, client: Client, node: str, *, plugin: bool | None) -> None:
        """`plugin` says whether a device plugin serves the GPUs; None: as the node says."""
        failing = "ResourceSlices cannot be published"
        super().__init__(failing, "the ResourceSlices have not been published yet")
        self._client = client
        self._node = node
        self._plugin = plugin
        self._parts: list[Object] | None = None
        #: What the server did not store as it was sent, and why nothing is published therefore.
        self._dropped: tuple[list[Object], str] | None = None
        self._withdrawn = ""
        #: Whether the last pass sent a write.
        self._has_written = False
        self._selector = f"spec.nodeName={node},spec.driver={NVIDIA}"
        self.watch: Reflector[_Seen] = Reflector(
            client,
            PATH,
            msgspec.json.Decoder(_Seen).decode,
            self._seen,
            kind=SLICES.kind,
            field_selector=self._selector,
        )

    def offer(self, parts: list[Object] | None) -> None:
        """What the pool should have now; None: it is not known yet, and nothing is written."""
        if parts != self._parts:
            self._parts = parts
            self.look_again()

    def _seen(self, _: Change[_Seen]) -> None:
        self.look_again()

    async def _rest(self) -> None:
        if self._has_written:
            await asyncio.sleep(spread(_PAUSE_S))

    async def _put_right(self) -> str:
        self._has_written = False
        return "" if self._parts is None else await self._put_parts_right(self._parts)

    async def _put_parts_right(self, parts: list[Object]) -> str:
        reply = await self._request("GET", f"/api/v1/nodes/{self._node}")
        if reply.status != 200:
            return f"the node cannot be read: {reply.message}"
        node = decode_node(reply.body)
        reply = await self._request("GET", PATH, params={"fieldSelector": self._selector})
        if reply.status != 200:
            return _why(reply, "read")
        found = found_slices(reply.body)
        dropped = self._dropped[1] if self._dropped and self._dropped[0] == parts else ""
        self._say(self._because(found, plugin=lists_gpus(node)))
        problem = await self._carry_out(
            node.metadata.uid, [] if self._withdrawn or dropped else parts, found
        )
        return problem or (dropped if not self._withdrawn else "")

    def _because(self, found: Sequence[FoundSlice], *, plugin: bool) -> str:
        """Why nothing is published although GPUs are there; empty: they are published."""
        if any(not each.is_ours for each in found):
            return _DRIVER
        return _PLUGIN if (plugin if self._plugin is None else self._plugin) else ""

    def _say(self, withdrawn: str) -> None:
        if withdrawn != self._withdrawn:
            said = "ResourceSlices withdrawn" if withdrawn else "ResourceSlices published again"
            log.info(said, reason=withdrawn)
        self._withdrawn = withdrawn

    async def _carry_out(
        self, node_uid: str, parts: list[Object], found: Sequence[FoundSlice]
    ) -> str:
        steps = slice_steps(self._node, node_uid, parts, found)
        self._has_written = bool(steps.delete or steps.write)
        for each in steps.delete:
            problem = await self._delete(each)
            if problem:
                return problem
        for slice_, version in steps.write:
            problem = await self._write(slice_, version)
            if problem:
                return problem
        return ""

    async def _delete(self, found: FoundSlice) -> str:
        body = msgspec.json.encode({"preconditions": {"resourceVersion": found.version}})
        reply = await self._request("DELETE", f"{PATH}/{found.name}", body=body)
        return "" if reply.status < 300 or reply.status == _GONE else _why(reply, "deleted")

    async def _write(self, slice_: Object, version: str) -> str:
        name = slice_["metadata"]["name"]
        if version:
            slice_["metadata"]["resourceVersion"] = version
        body = msgspec.json.encode(slice_)
        reply = await self._request(
            "PUT" if version else "POST", f"{PATH}/{name}" if version else PATH, body=body
        )
        if reply.status >= 300:
            return _why(reply, "written")
        return self._stored(slice_["spec"], msgspec.json.decode(reply.body)["spec"])

    def _stored(self, sent: Object, stored: Object) -> str:
        """A server that does not know counters or taints drops them without a word."""
        if bare_part(sent) == bare_part(stored) or self._parts is None:
            return ""
        why = (
            "the API server does not store counters or taints of devices; "
            "publish whole GPUs (--resource-slices whole), or enable DRAPartitionableDevices "
            "and DRADeviceTaints"
        )
        self._dropped = (self._parts, why)
        return why

    async def _request(self, method: str, path: str, **options: Any) -> Reply:
        return await self._client.request(method, path, timeout_s=TIMEOUT_S, **options)


def _why(reply: Reply, doing: str) -> str:
    return refused_because("ResourceSlices", reply, doing, _HINTS)
