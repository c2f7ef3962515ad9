"""The objects that HTTP extenders are sent: the pod, and nodes where they do not know them."""

import asyncio
import time
from collections.abc import Iterable, Mapping

import msgspec

from fairlead.apps.run.extender_client import ExtenderFault
from fairlead.kube.errors import ApiError
from fairlead.kube.http.client import Client
from fairlead.kube.http.paths import pod_path
from fairlead.kube.http.reply import Reply
from fairlead.kube.mirror.listing import pages
from fairlead.kube.mirror.wire import StatusError
from fairlead.kube.nesting import of_any_depth
from fairlead.model.pods import Pod

#: Node objects are read again after this.
_AGE_S = 5.0
_PAGE = 250
_NODES = "/api/v1/nodes"


class _Metadata(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_named = of_any_depth(msgspec.json.Decoder(_Named).decode)


class ExtenderObjects:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._nodes: dict[str, bytes] = {}
        self._read_s = -_AGE_S
        self._reading = asyncio.Lock()

    async def pod(self, pod: Pod) -> bytes:
        """As the API server has it now. Raises ExtenderFault, also if another has its name now."""
        path = pod_path(pod.namespace, pod.name)
        body = (await self._get(path)).body
        if _named(body).metadata.uid != pod.uid:
            raise ExtenderFault(f"GET {path}: the pod was deleted, and another has its name now")
        return body

    async def nodes(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """Those of the nodes that there are, not older than a few seconds. Raises ExtenderFault."""
        async with self._reading:
            if time.monotonic() - self._read_s >= _AGE_S:
                self._nodes = await self._list()
                self._read_s = time.monotonic()
        return {name: self._nodes[name] for name in names if name in self._nodes}

    async def _list(self) -> dict[str, bytes]:
        """In pages, so that reading them does not delay other pods."""
        found: dict[str, bytes] = {}
        try:
            async for page in pages(self._client, _NODES, {}, page_size=_PAGE):
                named = ((_named(raw).metadata.name, raw) for raw in page.items or ())
                found |= {name: bytes(raw) for name, raw in named}
        except (ApiError, StatusError) as error:
            raise ExtenderFault(f"GET {_NODES}: {error}") from None
        return found

    async def _get(self, path: str) -> Reply:
        try:
            reply = await self._client.request("GET", path)
        except ApiError as error:
            raise ExtenderFault(f"GET {path}: {error}") from None
        if reply.status != 200:
            raise ExtenderFault(f"GET {path}: HTTP {reply.status}")
        return reply
