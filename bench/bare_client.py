"""What no scheduler can beat: a client that only writes, and decides nothing.

    python bench/bare_client.py KUBECONFIG NAMESPACE [VICTIMS]

Binds every pod of the namespace, to the nodes in turn, and then writes an event for each, with the
same connections and bodies as Fairlead; then it waits to be ended. With VICTIMS it first evicts so
many pods from each of those nodes, and writes what goes with that. It watches pods, since every
scheduler has to, and reads nothing of what it is told. bench/shapes.py starts it.
"""

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from itertools import cycle
from typing import TypeVar

import msgspec
import uvloop

from fairlead.engine.events import EvictionEnded
from fairlead.engine.instructions import AnnounceFailure, Bind, Evict
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.codec import decode_pod
from fairlead.kube.http.client import Client
from fairlead.kube.writes.binder import encode_binding
from fairlead.kube.writes.event_objects import scheduled_event
from fairlead.kube.writes.evictor import Evictor
from fairlead.kube.writes.recorder import Recorder
from fairlead.model.pods import Pod

AT_ONCE = 64
#: As long as Fairlead's: the server has to store it three times.
REFUSAL = (
    "0/5000 nodes are available: 5000 Insufficient cpu. no new claims to deallocate, preemption: "
    "0/5000 nodes are available: 5000 No preemption victims found for incoming pod."
)
T = TypeVar("T")


class _Listed(msgspec.Struct):
    items: list[msgspec.Raw]


async def main(kubeconfig: str, namespace: str, victims: str = "0") -> None:
    client = Client(load_access(kubeconfig))
    nodes = [msgspec.json.decode(node) for node in await _list(client, "/api/v1/nodes")]
    names = cycle(sorted(node["metadata"]["name"] for node in nodes))
    pods = await _pods(client, f"/api/v1/namespaces/{namespace}/pods")
    binds = [Bind(pod, node) for pod, node in zip(pods, names, strict=False) if not pod.node]
    watching = asyncio.create_task(watch(client, "/api/v1/pods"))
    if int(victims):
        await _evict_and_bind(client, binds, int(victims))
    else:
        await each(binds, lambda bind: _bind(client, bind))
    await each(binds, lambda bind: tell(client, bind))
    await watching


async def watch(client: Client, path: str) -> None:
    """Reads nothing of what it is told."""
    newest = await client.request("GET", path, params={"limit": "1"})
    version = msgspec.json.decode(newest.body)["metadata"]["resourceVersion"]
    at = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
    async with client.watch(path, at) as stream:
        while await stream.lines() is not None:
            pass


async def _list(client: Client, path: str) -> list[msgspec.Raw]:
    reply = await client.request("GET", path, timeout_s=300)
    return msgspec.json.decode(reply.body, type=_Listed).items


async def _pods(client: Client, path: str) -> list[Pod]:
    return [decode_pod(bytes(raw)) for raw in await _list(client, path)]


async def each(items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Does the work for all of them, many at once."""
    rest = iter(items)

    async def worker() -> None:
        for item in rest:
            await work(item)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def _evict_and_bind(client: Client, binds: list[Bind], victims: int) -> None:
    on_node = defaultdict[str, list[Pod]](list)
    for pod in await _pods(client, "/api/v1/pods"):
        on_node[pod.node].append(pod)
    ended = {bind.pod.uid: asyncio.Event() for bind in binds}

    def report(over: EvictionEnded) -> None:
        assert not over.problem, over.problem
        ended[over.uid].set()

    recorder = Recorder(client)
    evictor = Evictor(client, report, recorder.preempted, now_ns=time.time_ns)
    writing = [asyncio.create_task(writer.run()) for writer in (recorder, evictor)]

    async def make_room(bind: Bind) -> None:
        recorder.failed(AnnounceFailure(bind.pod, "Unschedulable", REFUSAL, bind.node))
        evictor.submit(Evict(bind.pod, bind.node, {bind.node: tuple(on_node[bind.node][:victims])}))
        await ended[bind.pod.uid].wait()
        await _bind(client, bind)

    await each(binds, make_room)
    await recorder.stop(60)
    writing[1].cancel()


async def _bind(client: Client, bind: Bind) -> None:
    path = f"/api/v1/namespaces/{bind.pod.namespace}/pods/{bind.pod.name}/binding"
    reply = await client.request("POST", path, body=encode_binding(bind))
    assert reply.status == 201, reply.message


async def tell(client: Client, bind: Bind) -> None:
    event = scheduled_event(bind.pod, bind.node, "bench", time.time_ns())
    path = f"/apis/events.k8s.io/v1/namespaces/{bind.pod.namespace}/events"
    reply = await client.request("POST", path, body=msgspec.json.encode(event))
    assert reply.status == 201, reply.message


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
