"""What no scheduler can beat: a client that only writes, and decides nothing.

    python bench/bare_client.py KUBECONFIG NAMESPACE

Binds every pod of the namespace, to the nodes in turn, and then writes an event for each, with the
same connections and bodies as Fairlead; then it waits to be ended. bench/shapes.py starts it.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from itertools import cycle
from typing import TypeVar

import msgspec
import uvloop

from fairlead.engine.instructions import Bind
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.codec import decode_pod
from fairlead.kube.http.client import Client
from fairlead.kube.writes.binder import encode_binding
from fairlead.kube.writes.notes import scheduled_event

AT_ONCE = 64
T = TypeVar("T")


class _Listed(msgspec.Struct):
    items: list[msgspec.Raw]


async def main(kubeconfig: str, namespace: str) -> None:
    client = Client(load_access(kubeconfig))
    nodes = [msgspec.json.decode(node) for node in await _list(client, "/api/v1/nodes")]
    names = cycle(sorted(node["metadata"]["name"] for node in nodes))
    pods = [
        decode_pod(bytes(raw))
        for raw in await _list(client, f"/api/v1/namespaces/{namespace}/pods")
    ]
    binds = [Bind(pod, node) for pod, node in zip(pods, names, strict=False) if not pod.node]
    await each(binds, lambda bind: _bind(client, bind))
    await each(binds, lambda bind: _tell(client, bind))
    await asyncio.Event().wait()


async def _list(client: Client, path: str) -> list[msgspec.Raw]:
    reply = await client.request("GET", path, timeout_s=300)
    return msgspec.json.decode(reply.body, type=_Listed).items


async def each(items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Does the work for all of them, many at once."""
    rest = iter(items)

    async def worker() -> None:
        for item in rest:
            await work(item)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def _bind(client: Client, bind: Bind) -> None:
    path = f"/api/v1/namespaces/{bind.pod.namespace}/pods/{bind.pod.name}/binding"
    reply = await client.request("POST", path, body=encode_binding(bind))
    assert reply.status == 201, reply.message


async def _tell(client: Client, bind: Bind) -> None:
    event = scheduled_event(bind.pod, bind.node, "bench", time.time_ns())
    path = f"/apis/events.k8s.io/v1/namespaces/{bind.pod.namespace}/events"
    reply = await client.request("POST", path, body=msgspec.json.encode(event))
    assert reply.status == 201, reply.message


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
