"""Routes that name pods, one caller after the other."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from fairlead.apps.explain.explanation import Answer, ExplanationScope
from fairlead.apps.run.usage import Usage
from fairlead.apps.serving import connections, details, health
from fairlead.apps.serving.access import AllowAll, CallerRights
from fairlead.apps.serving.connections import PortLimits
from fairlead.apps.serving.details import Details
from fairlead.cluster.cluster import Cluster


def slow_to_explain(_key: str, _shown: ExplanationScope) -> Answer:
    time.sleep(0.02)
    return {"state": "fits"}


@asynccontextmanager
async def serving(shown: Details) -> AsyncIterator[str]:
    app: web.Application = health.make_app(CollectorRegistry(), str, details=shown)
    port = await connections.serve(app, "127.0.0.1", 0, PortLimits(connections=64))
    try:
        yield f"http://127.0.0.1:{port.number}"
    finally:
        await port.cleanup()


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        return reply.status, await reply.text()


async def test_who_asks_on_and_on_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop is held for a tenth of the time: what an answer takes is rested for nine times."""
    rests: list[float] = []
    shown = Details(AllowAll(), Usage(Cluster()), slow_to_explain)
    monkeypatch.setattr(shown, "_rest", rests.append)
    async with serving(shown) as url:
        assert await get(f"{url}/explain?namespace=a&name=b") == (200, '{"state":"fits"}')
    assert rests[0] > 9 * 0.02


async def test_too_many_are_turned_away_and_probes_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(details, "_RESTS", 1e6)
    shown = Details(AllowAll(), Usage(Cluster()), slow_to_explain)
    async with serving(shown) as url:
        explain = f"{url}/explain?namespace=a&name=b"
        assert (await get(explain))[0] == 200
        asking = [asyncio.create_task(get(explain)) for _ in range(40)]
        turned_away, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result()[0] for task in turned_away} == {429}
        assert (await get(f"{url}/livez"))[0] == 200
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


class Named(AllowAll):
    """Who asks says so in a header."""

    async def rights(self, request: web.Request) -> CallerRights:
        seen = AllowAll()
        seen.caller = request.headers["Who"]
        return seen


async def test_who_asks_too_much_at_once_leaves_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(details, "_RESTS", 25)  # half a second each
    shown = Details(Named(), Usage(Cluster()), slow_to_explain)
    rest = shown._rest
    # A pause of this process while one is answered would be rested for 25 times over.
    monkeypatch.setattr(shown, "_rest", lambda for_s: rest(min(for_s, 0.5)))
    async with serving(shown) as url, aiohttp.ClientSession() as session:

        async def ask(who: str) -> int:
            where = f"{url}/explain?namespace=a&name=b"
            async with session.get(where, headers={"Who": who}) as reply:
                await reply.read()
                return reply.status

        greedy = [asyncio.create_task(ask("greedy")) for _ in range(20)]
        await asyncio.wait(greedy, return_when=asyncio.FIRST_COMPLETED)
        assert await ask("modest") == 200
        assert [await task for task in greedy].count(429) > 10


async def test_nothing_is_explained_before_everything_is_read() -> None:
    shown = Details(AllowAll(), Usage(Cluster()), slow_to_explain, lambda: "not synced yet")
    async with serving(shown) as url:
        status, text = await get(f"{url}/explain?namespace=a&name=b")
        assert (status, text) == (503, "cannot explain pods yet: not synced yet; retry later\n")


async def test_a_report_of_nothing_is_a_report() -> None:
    async with serving(Details(AllowAll(), Usage(Cluster()))) as url:
        status, text = await get(f"{url}/usage")
        assert status == 200
        assert json.loads(text)["pods"] == []
        assert (await get(f"{url}/explain?namespace=a&name=b"))[0] == 404
