"""A reflector of a server that plays a script: what real API servers do only now and then."""

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from fairlead.kube.access.credentials import Static
from fairlead.kube.access.kubeconfig import Access
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.changes import Change
from fairlead.kube.mirror.reflector import Reflector


@dataclass(frozen=True)
class Thing:
    key: str
    uid: str
    version: str


def decode(raw: bytes) -> Thing:
    meta = json.loads(raw)["metadata"]
    return Thing(meta["name"], meta["uid"], meta["resourceVersion"])


def an_object(name: str, version: str, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": version}}


def an_event(kind: str, name: str, version: str, uid: str = "u") -> dict[str, Any]:
    return {"type": kind, "object": an_object(name, version, uid)}


def the_end(version: str) -> dict[str, Any]:
    notes = {"k8s.io/initial-events-end": "true"}
    meta = {"resourceVersion": version, "annotations": notes}
    return {"type": "BOOKMARK", "object": {"metadata": meta}}


@dataclass
class Watch:
    """Sends events; then ends, or stays open."""

    events: Iterable[dict[str, Any]] = ()
    stays: bool = False


@dataclass
class Answer:
    status: int = 200
    body: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


Act = Watch | Answer | Callable[[web.Request], Awaitable[web.StreamResponse]]


def a_page(version: str, *items: dict[str, Any], rest: str = "") -> Answer:
    return Answer(body={"metadata": {"resourceVersion": version, "continue": rest}, "items": items})


class Script:
    """Plays one act for each request; the last stays for all that follow."""

    def __init__(self, *acts: Act) -> None:
        self.acts = list(acts)
        self.queries: list[dict[str, str]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.queries.append(dict(request.query))
        act = self.acts.pop(0) if len(self.acts) > 1 else self.acts[0]
        if callable(act):
            return await act(request)
        if isinstance(act, Answer):
            return web.json_response(act.body, status=act.status, headers=act.headers)
        response = web.StreamResponse()
        await response.prepare(request)
        for event in act.events:
            await response.write(json.dumps(event).encode() + b"\n")
        if act.stays:
            await asyncio.sleep(60)
        return response


@dataclass
class World:
    """A reflector of a script, with a clock and waits of the test's own."""

    script: Script
    reflector: Reflector[Thing]
    told: list[Change[Thing]]
    waits: list[float]
    now: list[float]

    async def until(self, *, waits: int = 0, told: int = 0, requests: int = 0) -> None:
        async with asyncio.timeout(60):
            while not (
                len(self.waits) >= waits
                and len(self.told) >= told
                and len(self.script.queries) >= requests
            ):
                await asyncio.sleep(0.005)

    async def cut(self, after_s: float = 0.0) -> None:
        """Break the connection of the watch, that long after it was followed first."""
        async with asyncio.timeout(60):
            while (stream := self.reflector._stream) is None or not self._is_followed:
                await asyncio.sleep(0.005)
        self.now[0] += after_s
        stream.close()

    @property
    def _is_followed(self) -> bool:
        return self.reflector._followed_since is not None


@contextlib.asynccontextmanager
async def playing(*acts: Act, **options: Any) -> AsyncIterator[World]:
    script = Script(*acts)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    client = Client(Access(f"http://127.0.0.1:{runner.addresses[0][1]}", None, Static({})))
    told: list[Change[Thing]] = []
    waits: list[float] = []
    now = [0.0]

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    reflector = Reflector(
        client, "/api/v1/things", options.pop("decode", decode), told.append,
        clock=lambda: now[0], sleep=sleep, rng=random.Random(0), **options,
    )  # fmt: skip
    task = asyncio.create_task(reflector.run())
    try:
        yield World(script, reflector, told, waits, now)
    finally:
        assert not task.done(), task.exception()
        task.cancel()
        await asyncio.wait([task])
        await client.close()
        await runner.cleanup()


SYNCED = Watch([an_event("ADDED", "a", "5"), the_end("7")])
OPEN = Watch([an_event("ADDED", "a", "5"), the_end("7")], stays=True)
