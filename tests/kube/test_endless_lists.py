"""Lists that never end, and bursts: a reflector gives up in time, says so, and goes on."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import Callable

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from fairlead.kube.errors import ReplyTooLong
from fairlead.kube.http.reply import LONGEST_RETRY_AFTER_S
from fairlead.kube.mirror import listing
from fairlead.kube.mirror.changes import Synced, Upserted
from fairlead.kube.mirror.wire import read_identity
from played_server import (
    OPEN,
    SYNCED,
    Act,
    Answer,
    Thing,
    Watch,
    a_page,
    an_event,
    an_object,
    decode,
    playing,
)

NO_STREAM = Answer(422)
FOLLOWED = Watch(stays=True)
A_PAGE = a_page("7", an_object("a", "1"))


@pytest.mark.parametrize(
    ("pages", "why"),
    [
        ([a_page("7", an_object("a", "1"), rest="x")] * 2, "page 2 names a page that came before"),
        ([a_page("7", rest=f"x{n}") for n in range(4)], "there is no end after 4 pages"),
        ([a_page("7", rest="x"), a_page("8", an_object("b", "2"))], "revision 8 follows 7"),
    ],
    ids=["the same page", "ever more pages", "two revisions"],
)
async def test_pages_that_are_no_list_are_given_up_and_asked_for_in_one_piece(
    pages: list[Answer], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_MOST_PAGES", 4)
    acts = [NO_STREAM, *pages, *pages, A_PAGE, FOLLOWED]
    with capture_logs() as logs:
        async with playing(*acts) as world:
            await world.until(requests=len(acts))
            assert [type(change) for change in world.told] == [Upserted, Synced]
    assert len(world.waits) == 2, "it pauses after each"
    assert "limit" not in world.script.queries[-2]
    said = [entry["event"] for entry in logs if why in entry.get("reason", "")]
    assert said == ["watch error; retrying"]


@pytest.mark.parametrize("limit", ["LONGEST_LIST", "LONGEST_LIST_S"])
async def test_pages_have_a_limit_in_bytes_and_seconds(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, limit, 0)
    more = a_page("7", an_object("a", "1"), rest="x")
    async with playing(NO_STREAM, more, A_PAGE, FOLLOWED) as world:
        await world.until(requests=4)
        assert len(world.waits) == 1
        assert "continue" not in world.script.queries[2]


async def test_a_list_in_one_piece_that_fails_gives_pages_another_chance() -> None:
    gone, whole = Answer(410), Answer(503)
    async with playing(NO_STREAM, gone, gone, whole, A_PAGE, FOLLOWED) as world:
        await world.until(requests=6)
        assert [type(change) for change in world.told] == [Upserted, Synced]
    assert ["limit" in query for query in world.script.queries[1:5]] == [True, True, False, True]


def served(*lengths: int) -> Act:
    """A server that has objects of these lengths, and that does not stream its lists."""
    objects = [
        {"metadata": {"name": f"n{n}", "uid": "u", "resourceVersion": "5", "pad": "x" * length}}
        for n, length in enumerate(lengths)
    ]

    async def answer(request: web.Request) -> web.StreamResponse:
        if "sendInitialEvents" in request.query:
            return web.json_response({}, status=422)
        if "watch" in request.query:
            await asyncio.sleep(60)
        first = int(request.query.get("continue", 0))
        last = first + int(request.query.get("limit", len(objects)))
        metadata = {"resourceVersion": "7", "continue": str(last) if last < len(objects) else ""}
        return web.json_response({"metadata": metadata, "items": objects[first:last]})

    return answer


def limits(queries: list[dict[str, str]]) -> list[int]:
    return [int(query.get("limit", 0)) for query in queries if "watch" not in query]


async def test_a_page_that_is_too_long_is_asked_for_in_smaller_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a few large objects of one user end all lists of their kind."""
    monkeypatch.setattr(listing, "LONGEST_BODY", 10_000)
    async with playing(served(*[3000] * 5, *[10] * 13), page_size=8) as world:
        await world.until(told=19)
        assert len(world.reflector.objects) == 18
        assert world.waits == []
        # 5 large objects: two pages of two, and one with a small one. Then sizes grow again.
        assert limits(world.script.queries) == [8, 4, 2, 2, 2, 2, 4, 8]

        del world.script.queries[:]
        assert await world.reflector.verify(settle_s=0) == []
        assert limits(world.script.queries) == [8, 4, 2, 2, 2, 2, 4, 8]


async def test_an_object_longer_than_a_page_is_listed_in_one_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "LONGEST_BODY", 10_000)
    async with playing(served(10, 20_000), page_size=2) as world:
        await world.until(told=3)
        assert list(world.reflector.objects) == ["n0", "n1"]
        assert limits(world.script.queries) == [2, 1, 2, 1, 2, 1, 2, 1, 0]
        with pytest.raises(ReplyTooLong):
            await world.reflector.verify(settle_s=0)


async def without_end(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        for number in itertools.count():
            event = an_event("ADDED", f"n{number}", "5")
            await response.write(json.dumps(event).encode() + b"\n")
            await asyncio.sleep(0.001)
    return response


@pytest.mark.parametrize("limit", ["LONGEST_LIST", "LONGEST_LIST_S"])
async def test_a_streamed_list_of_ever_new_objects_is_given_up(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, limit, 0.2 if limit.endswith("_S") else 5_000)
    async with playing(without_end, A_PAGE, FOLLOWED) as world:
        await world.until(requests=3)
        assert [type(change) for change in world.told] == [Upserted, Synced]


@pytest.mark.parametrize(("asked", "waited"), [(1e18, LONGEST_RETRY_AFTER_S), (-5, 0.4), (3, 3.0)])
async def test_a_wait_that_an_error_event_asks_for_has_a_limit(asked: float, waited: float) -> None:
    status = {"code": 429, "message": "busy", "details": {"retryAfterSeconds": asked}}
    busy = Watch([{"type": "ERROR", "object": status}])
    async with playing(SYNCED, busy, OPEN) as world:
        await world.until(waits=2)
    assert waited <= world.waits[1] <= max(waited, 2.0)


async def test_a_burst_of_events_lets_others_have_their_turn() -> None:
    events = (an_event("ADDED", f"n{number}", f"{number}") for number in range(8, 1008))
    burst = b"".join(json.dumps(event).encode() + b"\n" for event in events)

    async def at_once(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(burst)
        await asyncio.sleep(60)
        return response

    async with playing(SYNCED, at_once) as world:
        assert 0 < await most_in_a_turn(lambda: len(world.told), until=1002) <= 64


async def most_in_a_turn(count: Callable[[], int], until: int) -> int:
    most = 0
    async with asyncio.timeout(60):
        while (before := count()) < until:
            await asyncio.sleep(0)
            most = max(most, count() - before)
    return most


async def test_large_objects_of_a_page_are_read_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = list[str]()

    def counting(raw: bytes) -> Thing:
        thing = decode(raw)
        read.append(thing.key)
        return thing

    async with playing(served(*[100_000] * 20), decode=counting) as world:
        assert await most_in_a_turn(lambda: len(read), until=20) == 3
        await world.until(told=21)

        named = list[str]()
        monkeypatch.setattr(
            listing, "read_identity", lambda raw: named.append("") or read_identity(raw)
        )
        check = asyncio.create_task(world.reflector.verify(settle_s=0))
        assert await most_in_a_turn(lambda: len(named), until=20) == 3
        assert await check == []


@pytest.mark.parametrize("streamed", [True, False], ids=["a streamed list", "a watch"])
async def test_large_events_are_read_a_few_at_a_time(streamed: bool) -> None:
    read = list[bytes]()

    class Burst:
        """As if a hundred events had come while another task ran."""

        async def lines(self) -> list[bytes] | None:
            return None if read else [json.dumps(event).encode() for event in events]

    def counting(raw: bytes) -> Thing:
        read.append(raw)
        return decode(raw)

    events = [an_event("ADDED", f"n{n}", f"{n}", uid="u" * 100_000) for n in range(8, 28)]
    async with playing(SYNCED, FOLLOWED, decode=counting) as world:
        await world.until(requests=2)
        read.clear()
        if streamed:
            world.reflector._position.sync_anew()
        follow = asyncio.create_task(world.reflector._follow(Burst()))  # type: ignore[arg-type]
        assert await most_in_a_turn(lambda: len(read), until=20) == 3
        await asyncio.wait([follow])
