"""Kinds that an API server may serve: what is reported when none of their objects exists."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.apps.run.served_kinds import KindWatch, ServedKinds
from fairlead.kube.gangs.api import GangKind
from fairlead.kube.http.client import Client
from fairlead.kube.http.reply import Reply

KIND = GangKind("a", ("v1",), "podgroups", "PodGroup", "")


class Empty:
    """An API server without objects, which lists in pages; it may serve the kind or not."""

    def __init__(self, *, serves: bool) -> None:
        self._groups = [{"name": "a", "versions": [{"version": "v1"}]}] if serves else []

    async def request(self, _method: str, path: str, **_: Any) -> Reply:
        found: dict[str, Any] = {
            "/apis": {"groups": self._groups},
            "/apis/a/v1": {"resources": [{"name": "podgroups"}]},
        }.get(path) or {"metadata": {"resourceVersion": "7"}, "items": []}
        return Reply(200, json.dumps(found).encode())

    @asynccontextmanager
    async def watch(self, _path: str, params: Mapping[str, str], **_: Any) -> AsyncIterator[Any]:
        if "sendInitialEvents" not in params:
            await asyncio.Event().wait()
        yield SimpleNamespace(status=400, message="not here", retry_after_s=None, close=lambda: 0)


async def plainly(_name: str, work: Callable[[], Awaitable[None]]) -> None:
    await work()


@pytest.mark.parametrize("serves", [True, False])
async def test_it_says_so_when_all_was_listed_though_there_is_nothing(serves: bool) -> None:
    """No event shows it then, and the scheduler would look again after a second only."""
    client = cast("Client", Empty(serves=serves))
    watch = KindWatch("podgroups", KIND, lambda _: None, lambda _: None, lambda _: None)
    kinds = ServedKinds(client, [watch], plainly)
    said = asyncio.Event()
    kinds.when_listed = lambda: said.set() if kinds.is_synced else None
    running = asyncio.create_task(kinds.run())
    try:
        async with asyncio.timeout(30):
            await said.wait()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert kinds.is_synced
    assert len(kinds.reflectors) == serves
