"""How a reflector paces itself and what it says, against a server that plays a script.

What it makes of real watches with real faults is in `tests/e2e/test_reflector.py`.
"""

import asyncio

import pytest
from structlog.testing import capture_logs

from fairlead.kube.mirror.changes import Change, Deleted, Synced, Undecodable, Upserted
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.mirror.wire import StatusError
from played_server import (
    OPEN,
    SYNCED,
    Answer,
    Thing,
    Watch,
    a_page,
    an_event,
    an_object,
    decode,
    playing,
    the_end,
)


async def test_a_streamed_sync_asks_and_resumes_as_it_should() -> None:
    more = Watch([an_event("ADDED", "a", "5"), the_end("7"), an_event("ADDED", "b", "9")])
    async with playing(more, Watch(stays=True), field_selector="x=y") as world:
        await world.until(requests=2, told=3)
        assert world.reflector.version == "9"
        assert list(world.reflector.objects) == ["a", "b"]
    first, second = world.script.queries
    assert 300 <= int(first.pop("timeoutSeconds")) <= 600
    assert first == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersion": "",
        "resourceVersionMatch": "NotOlderThan",
        "fieldSelector": "x=y",
    }
    second.pop("timeoutSeconds")
    assert second == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "9",
        "fieldSelector": "x=y",
    }
    assert world.told[1:] == [Synced(), Upserted(Thing("b", "u", "9"))]


async def test_a_list_asks_and_continues_as_it_should() -> None:
    first = a_page("7", an_object("a", "1"), an_object("b", "2"), rest="more")
    last = a_page("7", an_object("c", "3"))
    acts = [Answer(422), first, last, Watch(stays=True)]
    async with playing(*acts, page_size=2, label_selector="x=y") as world:
        await world.until(requests=4)
        assert [type(change) for change in world.told] == [Upserted] * 3 + [Synced]
    assert world.script.queries[1:3] == [
        {"limit": "2", "labelSelector": "x=y"},
        {"limit": "2", "labelSelector": "x=y", "continue": "more"},
    ]
    assert world.script.queries[3]["resourceVersion"] == "7"
    assert world.waits == [], "to list instead needs no pause"


async def test_a_sync_after_410_is_not_older_and_then_anything() -> None:
    gone = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
    acts = [Watch([*SYNCED.events, gone]), Answer(410), OPEN]
    async with playing(*acts) as world:
        await world.until(requests=3, told=3)
    wanted = [(q["resourceVersion"], "sendInitialEvents" in q) for q in world.script.queries]
    assert wanted == [("", True), ("7", True), ("", True)]
    assert world.reflector.stats.relists == 1


@pytest.mark.parametrize(
    "refusal",
    [
        Answer(504, {"message": "Too large resource version: 7, current: 3"}),
        Watch(
            [
                {
                    "type": "ERROR",
                    "object": {
                        "code": 504,
                        "message": "Timeout",
                        "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]},
                    },
                }
            ]
        ),
    ],
)
async def test_a_revision_the_server_has_not_reached(refusal: Watch | Answer) -> None:
    gone = {"type": "ERROR", "object": {"code": 410}}
    async with playing(Watch([*SYNCED.events, gone]), refusal, OPEN) as world:
        await world.until(requests=3, told=3)
    assert [q["resourceVersion"] for q in world.script.queries] == ["", "7", ""]


async def test_waits_grow_until_a_watch_lives() -> None:
    async with playing(SYNCED, *[Watch()] * 8, OPEN) as world:
        await world.until(waits=9)
        assert 0.4 <= world.waits[0] <= 0.8
        assert 15 <= world.waits[8] <= 30
        assert all(wait <= 30 for wait in world.waits)


async def test_after_a_good_life_the_next_watch_comes_at_once() -> None:
    async with playing(SYNCED, Watch(stays=True)) as world:
        await world.until(requests=2)
        world.script.acts = [Watch()]
        await world.cut(after_s=60)
        # It broke, so the revision is checked first; then short lives lead to waits again.
        await world.until(requests=4, waits=2)
    assert 0.4 <= world.waits[1] <= 0.8, "and the backoff began anew"


async def test_retry_after_is_heeded_beside_the_backoff() -> None:
    busy = Answer(429, {"message": "busy"}, {"Retry-After": "7"})
    async with playing(SYNCED, busy, busy, Answer(429), OPEN) as world:
        await world.until(waits=4)
        assert world.waits[1:3] == [7.0, 7.0]
        assert world.waits[3] < 7
    assert all(q["resourceVersion"] == "7" for q in world.script.queries[1:5])


async def test_trouble_is_said_when_it_begins_changes_and_ends() -> None:
    denied, broken = Answer(403, {"message": "may not watch"}), Answer(500)
    with capture_logs() as logs:
        async with playing(denied, denied, denied, broken, broken, SYNCED, OPEN) as world:
            await world.until(requests=7)
            assert world.reflector.problem == ""
    said = [(entry["log_level"], entry["event"], entry.get("reason")) for entry in logs]
    assert said == [
        (
            "warning",
            "watch error; retrying",
            "403: may not watch; grant this user list and watch here",
        ),
        ("warning", "watch error; retrying", "500: HTTP 500"),
        ("info", "watch restored", None),
    ]


async def test_a_kind_that_does_not_exist_yet_is_waited_for() -> None:
    async with playing(Answer(404), Answer(404), OPEN) as world:
        await world.until(told=2)
    assert world.reflector.synced


async def test_streamed_lists_that_break_off_are_listed_in_the_end() -> None:
    broken = Watch([an_event("ADDED", "a", "5")])
    async with playing(*[broken] * 3, a_page("7"), Watch(stays=True)) as world:
        await world.until(requests=5)
    assert world.told == [Synced()]
    assert "sendInitialEvents" not in world.script.queries[-1]


async def test_a_server_set_back_is_found_out_after_a_failure() -> None:
    async with playing(SYNCED, Watch(stays=True)) as world:
        await world.until(requests=2)
        world.script.acts = [a_page("3"), Watch([the_end("4")], stays=True)]
        await world.cut()
        await world.until(told=4)
        assert world.told[2:] == [Deleted(Thing("a", "u", "5")), Synced()]
        assert world.reflector.version == "4"


async def test_an_object_without_a_name_hides_deletions() -> None:
    nameless = {"type": "ADDED", "object": {"metadata": {"name": 7}}}
    gone = {"type": "ERROR", "object": {"code": 410}}
    resync = Watch([nameless, the_end("9")], stays=True)
    with capture_logs() as logs:
        async with playing(Watch([*SYNCED.events, gone]), resync) as world:
            await world.until(told=4)
    assert isinstance(world.told[2], Undecodable)
    assert world.told[3] == Synced()
    assert list(world.reflector.objects) == ["a"]
    assert any("no deletions in this list" in entry["event"] for entry in logs)


async def test_an_exception_of_the_listener_ends_the_run() -> None:
    def deliver(change: Change[Thing]) -> None:
        raise ZeroDivisionError

    async with playing(OPEN) as world:
        reflector = Reflector(world.reflector._client, "/api/v1/things", decode, deliver)
        with pytest.raises(ZeroDivisionError):
            await reflector.run()


async def test_a_large_sync_lets_others_have_their_turn() -> None:
    many = [an_event("ADDED", f"a{n}", str(n)) for n in range(2000)]
    beats, told_at = [0], set[int]()

    async def beat() -> None:
        while True:
            beats[0] += 1
            await asyncio.sleep(0)

    async with playing(Watch([*many, the_end("9999")], stays=True)) as world:
        client = world.reflector._client
        heart = asyncio.create_task(beat())
        reflector = Reflector(
            client, "/api/v1/things", decode, lambda change: told_at.add(beats[0])
        )
        run = asyncio.create_task(reflector.run())
        async with asyncio.timeout(60):
            while not reflector.synced:
                await asyncio.sleep(0.005)
        heart.cancel()
        run.cancel()
        await asyncio.wait([run, heart])
    assert len(told_at) == 8


async def test_whoever_catches_up_hears_that_there_is_no_list() -> None:
    async with playing(OPEN, a_page("9"), Answer(403)) as world:
        await world.until(told=2)
        with pytest.raises(StatusError):
            await world.reflector.catch_up()
