"""The node's annotation and resources: written when they are not what they should be.

A node may come with the taint `fairlead.dev/agent-not-ready`, so that no pod, and no autoscaler,
counts on its GPUs before they are listed. It is removed then.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from fairlead.apps.agent.gpu_offers import Capacity, has
from fairlead.apps.agent.keeping import LOOK_S, TIMEOUT_S, AgentPublisher, refused_because
from fairlead.base.node_inventory import KEY, Listing, write
from fairlead.kube.dialects import inventory
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.http.transport import Transport
from fairlead.kube.writes.nodelock import MERGE
from fairlead.model.errors import FairleadError
from fairlead.model.nodes import GPU

log = structlog.get_logger(__name__)

#: Kubernetes allows 256 KiB for all annotations of an object together.
LARGEST_BYTES = 128 * 1024
#: A taint that a node has until its GPUs are listed.
NOT_READY = "fairlead.dev/agent-not-ready"
_HINTS = {
    403: "; grant the agent get and patch of nodes",
    404: "; does --node name a node of this cluster?",
}
_STATUS_HINTS = {403: "; grant the agent patch of nodes/status"}


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Status(msgspec.Struct):
    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    taints: list[dict[str, Any]] | None = None


class ListedNode(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


decode_node = msgspec.json.Decoder(ListedNode).decode


def lists_gpus(node: ListedNode) -> bool:
    """Whether a device plugin lists whole GPUs. Of one that was removed, a 0 stays behind."""
    return (node.status.capacity or {}).get(GPU, "0") != "0"


class Publisher(AgentPublisher):
    """Keeps the annotation of one node equal to what `current` says.

    A merge patch of that one annotation: whatever others write at the same time stays.
    """

    def __init__(
        self,
        client: Transport,
        node: str,
        current: Callable[["Publisher"], Listing | None],
        *,
        offers: Callable[[Listing | None], Capacity | None] = lambda _: None,
        look_s: float = LOOK_S,
    ) -> None:
        """`current` may say None: nothing is known yet, and nothing is written.

        So may `offers`, which says what the status of the node is to offer.
        """
        failing = "inventory cannot be published; retrying"
        super().__init__(failing, "the node has not been read yet", look_s)
        self._client = client
        self._path = f"/api/v1/nodes/{node}"
        self._current = current
        self._offers = offers
        #: A device plugin lists whole GPUs on this node.
        self.plugin = False
        #: What the node had when it was first looked at; None if nothing that could be read.
        self.found: Listing | None = None
        self.writes = 0

    async def _put_right(self) -> str:
        reply = await self._client.request("GET", self._path, timeout_s=TIMEOUT_S)
        if reply.status != 200:
            return refused_because("node", reply, "read", _HINTS)
        node = decode_node(reply.body)
        there = (node.metadata.annotations or {}).get(KEY)
        self.plugin = lists_gpus(node)
        if self.found is None and there is not None:
            self.found = _readable(there)
        wanted = self._current(self)
        return await self._offer(node, wanted) or await self._list(node, there, wanted)

    async def _offer(self, node: ListedNode, wanted: Listing | None) -> str:
        """Before the list: what a kubelet does not count yet, it would refuse."""
        offered = self._offers(wanted)
        places = (node.status.capacity or {}, node.status.allocatable or {})
        if offered is None or all(has(place, offered) for place in places):
            return ""
        amounts = {key: None if n is None else str(n) for key, n in offered.items()}
        # A kubelet derives the second from the first, but not at once.
        body = {"status": {"capacity": amounts, "allocatable": amounts}}
        reply = await self._patch(f"{self._path}/status", body)
        if reply.status >= 300:
            return refused_because("node", reply, "given its resources", _STATUS_HINTS)
        log.info("resources published", **amounts)
        return ""

    async def _list(self, node: ListedNode, there: str | None, wanted: Listing | None) -> str:
        if wanted is None:
            return ""
        text = write(wanted)
        if len(text) > LARGEST_BYTES:
            return f"the list of GPUs has {len(text)} bytes; the limit is {LARGEST_BYTES}"
        problem = "" if text == there else await self._write(text, len(wanted.gpus))
        return problem or await self._release(node, is_newest=text == there)

    async def _release(self, node: ListedNode, *, is_newest: bool) -> str:
        """Removes the taint, of the very node that was read: others write taints as well."""
        taints = node.spec.taints or []
        kept = [each for each in taints if each.get("key") != NOT_READY]
        if len(kept) == len(taints):
            return ""
        if not is_newest:
            self.look_again()
            return ""
        version = {"resourceVersion": node.metadata.resource_version}
        reply = await self._patch(self._path, {"metadata": version, "spec": {"taints": kept}})
        if reply.status == 409:
            self.look_again()
            return ""
        done = reply.status < 300
        return "" if done else refused_because("node", reply, "freed of its taint", _HINTS)

    async def _patch(self, path: str, body: dict[str, Any]) -> Reply:
        return await self._client.request(
            "PATCH",
            path,
            body=msgspec.json.encode(body),
            content_type=MERGE,
            timeout_s=TIMEOUT_S,
        )

    async def _write(self, text: str, gpus: int) -> str:
        reply = await self._patch(self._path, {"metadata": {"annotations": {KEY: text}}})
        if reply.status >= 300:
            return refused_because("node", reply, "annotated", _HINTS)
        self.writes += 1
        log.info("inventory published", gpus=gpus, bytes=len(text))
        return ""


def _readable(text: str) -> Listing | None:
    try:
        inventory.read(text)
        return msgspec.json.decode(text, type=Listing)
    except (FairleadError, *UNREADABLE):
        return None
