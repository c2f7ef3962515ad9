"""The node's annotation: written when it is not what it should be, and left alone else."""

from collections.abc import Callable

import msgspec
import structlog

from fairlead.apps.agent.keeping import LOOK_S, TIMEOUT_S, AgentPublisher, refused_because
from fairlead.base.node_inventory import KEY, Listing, write
from fairlead.kube.dialects import inventory
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.http.transport import Transport
from fairlead.kube.writes.nodelock import MERGE
from fairlead.model.errors import FairleadError
from fairlead.model.nodes import GPU

log = structlog.get_logger(__name__)

#: Kubernetes allows 256 KiB for all annotations of an object together.
LARGEST_BYTES = 128 * 1024
_HINTS = {
    403: "; grant the agent get and patch of nodes",
    404: "; does --node name a node of this cluster?",
}


class _Meta(msgspec.Struct):
    uid: str = ""
    annotations: dict[str, str] | None = None


class _Status(msgspec.Struct):
    capacity: dict[str, str] | None = None


class ListedNode(msgspec.Struct):
    metadata: _Meta
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
        look_s: float = LOOK_S,
    ) -> None:
        """`current` may say None: nothing is known yet, and nothing is written."""
        failing = "inventory cannot be published; retrying"
        super().__init__(failing, "the node has not been read yet", look_s)
        self._client = client
        self._path = f"/api/v1/nodes/{node}"
        self._current = current
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
        if wanted is None:
            return ""
        text = write(wanted)
        if text == there:
            return ""
        if len(text) > LARGEST_BYTES:
            return f"the list of GPUs has {len(text)} bytes; the limit is {LARGEST_BYTES}"
        return await self._write(text, len(wanted.gpus))

    async def _write(self, text: str, gpus: int) -> str:
        body = msgspec.json.encode({"metadata": {"annotations": {KEY: text}}})
        reply = await self._client.request(
            "PATCH", self._path, body=body, content_type=MERGE, timeout_s=TIMEOUT_S
        )
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
