"""The reflector on a real API server, with every fault a watch or a list can have in between.

The names F1 … F16 are those of the reliability regime. Each test ends with the same question:
does the copy, and what the listener was told, equal what the API server has?
"""

import asyncio
import contextlib
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

import faultproxy as faults
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.changes import Change, Deleted, Synced, Undecodable, Upserted, Vanished
from fairlead.kube.mirror.reflector import Reflector
from fairlead.sim.controlplane import ControlPlane
from faultproxy import FaultProxy

pytestmark = pytest.mark.server


class Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str


class ConfigMap(msgspec.Struct):
    metadata: Meta
    data: dict[str, str] = {}

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def version(self) -> str:
        return self.metadata.resource_version


decode_config_map = msgspec.json.Decoder(ConfigMap).decode


class Listener:
    """Believes only what it is told, and complains when that does not add up."""

    def __init__(self) -> None:
        self.told: list[Change[ConfigMap]] = []
        self.held: dict[str, ConfigMap] = {}
        self.syncs = 0

    def __call__(self, change: Change[ConfigMap]) -> None:
        self.told.append(change)
        match change:
            case Upserted(obj):
                held = self.held.get(obj.key)
                assert held is None or held.uid == obj.uid, "an object was replaced unsaid"
                assert held is None or held.version != obj.version, "a version was told twice"
                self.held[obj.key] = obj
            case Deleted(obj):
                assert self.held.pop(obj.key).uid == obj.uid
            case Synced():
                self.syncs += 1
            case Undecodable() | Vanished():
                pass


@dataclass
class Stage:
    """One namespace of a real server, its ConfigMaps, and a reflector of them behind a proxy."""

    plane: ControlPlane
    namespace: str
    proxy: FaultProxy
    client: Client
    listener: Listener

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    def reflector(self, **options: Any) -> Reflector[ConfigMap]:
        options.setdefault("kind", "ConfigMap")
        options.setdefault("sleep", lambda s: asyncio.sleep(min(s, 0.05)))
        decode = options.pop("decode", decode_config_map)
        return Reflector(self.client, self.path, decode, self.listener, **options)

    def put(self, name: str, **data: str) -> None:
        body = {"metadata": {"name": name}, "data": data}
        status, _ = self.plane.api("POST", self.path, body)
        if status == 409:
            status, _ = self.plane.api("PUT", f"{self.path}/{name}", body)
        assert status in (200, 201)

    def delete(self, name: str) -> None:
        assert self.plane.api("DELETE", f"{self.path}/{name}")[0] in (200, 404)

    def truth(self) -> dict[str, tuple[str, str]]:
        _, answer = self.plane.api("GET", self.path)
        found = (item["metadata"] for item in answer["items"])
        return {f"{m['namespace']}/{m['name']}": (m["uid"], m["resourceVersion"]) for m in found}

    def told(self) -> dict[str, tuple[str, str]]:
        return {key: (obj.uid, obj.version) for key, obj in self.listener.held.items()}

    async def converges(self, reflector: Reflector[ConfigMap], within_s: float = 180.0) -> None:
        """The listener, the copy and the API server agree."""
        truth = self.truth()
        await until(lambda: self.told() == truth, within_s, lambda: (self.told(), truth))
        assert {k: (o.uid, o.version) for k, o in reflector.objects.items()} == truth

    async def hears(self, name: str, value: str) -> None:
        key = f"{self.namespace}/{name}"
        await until(
            lambda: key in self.listener.held and self.listener.held[key].data.get("v") == value
        )


async def until(
    condition: Callable[[], bool], within_s: float = 180.0, shown: Callable[[], object] = str
) -> None:
    try:
        async with asyncio.timeout(within_s):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        pytest.fail(f"did not happen in {within_s} s: {shown()}")


@contextlib.asynccontextmanager
async def running(reflector: Reflector[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(reflector.run())
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def closing(client: Client) -> AsyncIterator[Client]:
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
async def stage(control_plane: ControlPlane, namespace: str) -> AsyncIterator[Stage]:
    access = load_access(str(control_plane.kubeconfig_for()))
    async with FaultProxy(access) as proxy, closing(Client(proxy.access)) as client:
        yield Stage(control_plane, namespace, proxy, client, Listener())


async def test_syncs_by_streaming_and_then_follows_the_same_watch(stage: Stage) -> None:
    stage.put("a", v="1")
    stage.put("b", v="1")
    reflector = stage.reflector()
    async with running(reflector):
        await stage.converges(reflector)
        stage.put("a", v="2")
        stage.put("c", v="1")
        stage.delete("b")
        await stage.converges(reflector)
    assert isinstance(stage.listener.told[2], Synced), "told only when the list was complete"
    assert stage.listener.syncs == 1
    assert stage.proxy.count("sendInitialEvents") == len(stage.proxy.requests) == 1


@pytest.mark.parametrize(
    ("lost", "act"),
    [
        pytest.param("DELETED", lambda stage: stage.delete("a"), id="F1: a DELETED"),
        pytest.param("ADDED", lambda stage: stage.put("b", v="1"), id="F2: an ADDED"),
        pytest.param("MODIFIED", lambda stage: stage.put("a", v="2"), id="a MODIFIED"),
    ],
)
async def test_a_lost_event_is_found_by_comparing(
    stage: Stage, lost: str, act: Callable[[Stage], None]
) -> None:
    stage.put("a", v="1")
    reflector = stage.reflector()
    stage.proxy.on_watch(faults.drop(lambda e: e["type"] == lost and stage.listener.syncs > 0))
    async with running(reflector):
        await until(lambda: reflector.synced)
        act(stage)
        stage.put("later", v="1")
        await stage.hears("later", "1")
        assert stage.told() != stage.truth(), "the event was lost, and nothing shows it"

        wrong = await reflector.verify(settle_s=0.2)

        assert len(wrong) == 1
        await stage.converges(reflector)
        assert await reflector.verify(settle_s=0.2) == []
    assert reflector.stats.mismatches == 1
    assert stage.listener.syncs == 2


async def test_comparing_during_churn_accuses_nobody(stage: Stage) -> None:
    numbers = itertools.count()

    async def settle(_: float) -> None:
        """Until the watch shows what was written after the list, however slow it is."""
        number = str(next(numbers))
        stage.put("marker", v=number)
        await stage.hears("marker", number)

    reflector = stage.reflector(sleep=settle)
    async with running(reflector):
        await until(lambda: reflector.synced)
        churn = asyncio.create_task(asyncio.to_thread(_churn, stage, random.Random(1), 150))
        while not churn.done():
            assert await reflector.verify() == []
        await stage.converges(reflector)
    assert stage.listener.syncs == 1


async def test_f3_a_duplicate_event_is_told_once(stage: Stage) -> None:
    stage.proxy.on_watch(faults.duplicate(faults.any_event))
    reflector = stage.reflector()
    async with running(reflector):
        await until(lambda: reflector.synced)
        stage.put("a", v="1")
        stage.put("a", v="2")
        stage.delete("a")
        stage.put("a", v="3")
        await stage.hears("a", "3")
        await stage.converges(reflector)
    assert stage.listener.syncs == 1
    assert len(stage.listener.told) == 5
    assert reflector.stats.duplicates == 3


async def test_f4_events_in_the_wrong_order_lead_to_a_new_sync(stage: Stage) -> None:
    reflector = stage.reflector()
    stage.proxy.on_watch(faults.swap(faults.a("MODIFIED", "a")))
    async with running(reflector):
        await until(lambda: reflector.synced)
        stage.put("a", v="1")
        stage.put("a", v="2")
        stage.put("a", v="3")
        await until(
            lambda: stage.listener.syncs == 2,
            shown=lambda: (reflector.stats, stage.told(), stage.truth(), stage.proxy.requests),
        )
        await stage.converges(reflector)
    assert reflector.stats.oddities == 1


async def test_f5_an_expired_revision_inside_a_200_leads_to_a_new_sync(stage: Stage) -> None:
    stage.put("a", v="1")
    stage.put("gone", v="1")
    stage.proxy.on_watch(faults.insert(faults.expired(), after=faults.a("ADDED", "b")))
    reflector = stage.reflector()
    async with running(reflector):
        await until(lambda: reflector.synced)
        stage.put("b", v="1")
        await until(lambda: stage.listener.syncs == 2)
        await stage.converges(reflector)
    assert reflector.stats.relists == 1
    resync = [r for r in stage.proxy.requests if "sendInitialEvents" in r][1]
    assert "resourceVersion=&" not in resync, "the second sync is not older than what was seen"
    upserts = [c.obj.key for c in stage.listener.told if isinstance(c, Upserted)]
    assert len(upserts) == len(set(upserts)), "what did not change is not told again"


async def test_f6_a_list_whose_rest_expired_starts_over(stage: Stage) -> None:
    for number in range(7):
        stage.put(f"a{number}", v="1")
    stage.proxy.on_request(faults.answer(422, "no WatchList here"), query="sendInitialEvents")
    stage.proxy.on_request(faults.answer(410, "continue expired"), query="continue=")
    reflector = stage.reflector(page_size=3)
    async with running(reflector):
        await stage.converges(reflector)
    lists = [r for r in stage.proxy.requests if "limit=3" in r]
    assert ["continue=" in r for r in lists] == [False, True, False, True, True]
    assert stage.listener.syncs == 1
    assert len(stage.listener.told) == 8, "nothing of the list that expired was told"


async def test_lists_that_always_expire_come_in_one_piece(stage: Stage) -> None:
    for number in range(7):
        stage.put(f"a{number}", v="1")
    stage.proxy.on_request(faults.answer(400), query="sendInitialEvents")
    stage.proxy.on_request(faults.answer(410), query="continue=", times=None)
    reflector = stage.reflector(page_size=3)
    async with running(reflector):
        await stage.converges(reflector)


async def test_f7_a_silent_watch_is_continued_from_where_it_fell_silent(stage: Stage) -> None:
    reflector = stage.reflector(idle_timeout_s=0.5)
    stage.proxy.on_watch(faults.stall(after=faults.a("ADDED", "a")))
    async with running(reflector):
        await until(lambda: reflector.synced)
        stage.put("a", v="1")
        await stage.hears("a", "1")
        stage.put("a", v="2")
        await stage.converges(reflector)
    assert stage.listener.syncs == 1, "continued, not synced anew"


@pytest.mark.parametrize("fault", [faults.cut_inside, faults.end_inside])
async def test_f8_half_an_event_is_no_event(stage: Stage, fault: Any) -> None:
    reflector = stage.reflector()
    stage.proxy.on_watch(fault(faults.a("ADDED", "a")))
    async with running(reflector):
        await until(lambda: reflector.synced)
        stage.put("a", v="x" * 1000)
        await stage.converges(reflector)
    assert stage.listener.syncs == 1
    assert reflector.stats.undecodable == 0


async def test_f8_a_sync_that_breaks_off_changes_nothing(stage: Stage) -> None:
    for name in "abcd":
        stage.put(name, v="1")
    stage.proxy.on_watch(faults.cut_inside(faults.a("ADDED", "c")), times=2)
    reflector = stage.reflector()
    async with running(reflector):
        await stage.converges(reflector)
    assert [type(c) for c in stage.listener.told] == [Upserted] * 4 + [Synced]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_f9_pieces_may_end_anywhere(stage: Stage, size: int) -> None:
    stage.proxy.on_watch(faults.in_pieces_of(size), times=None)
    reflector = stage.reflector()
    stage.put("a", v="日本語 ümläut 🚢")
    async with running(reflector):
        await stage.hears("a", "日本語 ümläut 🚢")
        stage.put("a", v="⚓ línea\nnueva")
        await stage.hears("a", "⚓ línea\nnueva")
    assert stage.listener.syncs == 1


async def test_f10_bookmarks_alone_keep_a_watch_alive_and_move_it_on(stage: Stage) -> None:
    async def only_bookmarks(chunks: faults.Chunks) -> faults.Chunks:
        async for line in chunks:
            yield line
            if faults.end_of_list(json.loads(line)):
                break
        number = int(json.loads(line)["object"]["metadata"]["resourceVersion"])
        for step in range(20):
            meta = {"resourceVersion": str(number + step)}
            yield json.dumps({"type": "BOOKMARK", "object": {"metadata": meta}}).encode() + b"\n"
            await asyncio.sleep(0.6)

    stage.put("a", v="1")
    stage.proxy.on_watch(only_bookmarks)
    reflector = stage.reflector(idle_timeout_s=5.0)
    async with running(reflector):
        await until(lambda: reflector.synced)
        synced_at = int(reflector.version)
        await until(lambda: int(reflector.version) > synced_at + 10)
    assert len(stage.proxy.requests) == 1, "one connection all the time"


async def test_f11_without_an_end_of_the_streamed_list_it_is_listed(stage: Stage) -> None:
    for number in range(5):
        stage.put(f"a{number}", v="1")
    stage.proxy.on_watch(faults.drop(faults.end_of_list), times=None)
    reflector = stage.reflector(stream_timeout_s=0.5, page_size=2)
    async with running(reflector):
        await stage.converges(reflector)
        stage.put("b", v="1")
        await stage.converges(reflector)
    assert stage.proxy.count("limit=2") == 3
    assert stage.proxy.count("sendInitialEvents") == 1
    assert stage.listener.syncs == 1


@pytest.mark.parametrize("status", [400, 422])
async def test_a_server_that_streams_no_lists_is_listed(stage: Stage, status: int) -> None:
    stage.put("a", v="1")
    stage.proxy.on_request(faults.answer(status), query="sendInitialEvents", times=None)
    reflector = stage.reflector()
    async with running(reflector):
        await stage.converges(reflector)
        stage.put("b", v="1")
        await stage.converges(reflector)
    assert stage.proxy.count("sendInitialEvents") == 1


async def test_f12_a_sync_newer_than_the_server_settles_for_the_newest(stage: Stage) -> None:
    stage.put("a", v="1")
    reflector = stage.reflector()
    reflector._position.since = "999999999"
    async with running(reflector):
        await stage.converges(reflector, within_s=180)


@pytest.mark.parametrize("streams", [True, False])
async def test_f12_a_server_set_back_to_an_older_state_is_noticed(
    stage: Stage, streams: bool
) -> None:
    stage.put("a", v="1")
    reflector = stage.reflector(idle_timeout_s=1.0)
    reflector._streams_lists = streams
    async with running(reflector):
        await stage.converges(reflector)
        # As if the server had been at a far later revision before its backup was restored.
        reflector._position.start("999999999")
        stage.proxy.cut()
        stage.put("b", v="1")
        await stage.converges(reflector)
    assert stage.listener.syncs == 2
    assert int(reflector.version) < 999999999


async def test_f13_a_watch_that_ends_at_once_is_not_hammered(stage: Stage) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0.001)

    reflector = stage.reflector(sleep=sleep)
    async with running(reflector):
        await until(lambda: reflector.synced)
        stage.proxy.on_watch(faults.end_at_once, times=None)
        stage.proxy.cut()
        await until(lambda: len(waits) >= 9)
        stage.proxy.heal()
        stage.put("a", v="1")
        await stage.converges(reflector)
    assert stage.listener.syncs == 1, "an empty watch is no reason to sync"
    assert 0.4 <= waits[0] <= 0.8
    assert all(15 <= wait <= 30 for wait in waits[7:9])


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(b'{"type":"RENAMED","object":{"metadata":{}}}\n', id="an unknown type"),
        pytest.param(
            b'{"type":"ADDED","object":{"kind":"Secret","metadata":{"name":"s"}}}\n',
            id="another kind",
        ),
        pytest.param(b"{nonsense}\n", id="no JSON"),
        pytest.param(b'{"type":"BOOKMARK","object":7}\n', id="a bookmark that is none"),
        pytest.param(b'{"type":"DELETED","object":{"data":1}}\n', id="a deletion of nobody"),
    ],
)
async def test_f14_an_event_that_makes_no_sense_leads_to_a_new_sync(
    stage: Stage, odd: bytes
) -> None:
    reflector = stage.reflector()
    stage.proxy.on_watch(faults.insert(odd, after=faults.a("ADDED", "a")))
    async with running(reflector):
        await until(lambda: reflector.synced)
        stage.put("a", v="1")
        await until(lambda: stage.listener.syncs == 2)
        await stage.converges(reflector)
    assert reflector.stats.oddities == 1


async def test_f16_an_object_replaced_between_two_syncs_is_told_as_two(stage: Stage) -> None:
    stage.put("a", v="1")
    stage.put("same", v="1")
    reflector = stage.reflector()
    async with running(reflector):
        await until(lambda: reflector.synced)
        old = stage.listener.held[f"{stage.namespace}/a"]
        stage.proxy.on_watch(faults.stall(after=faults.any_event))
        stage.proxy.on_request(faults.never_answer, query="watch=true")
        stage.proxy.cut()
        await until(lambda: len(stage.proxy.requests) >= 3)
        stage.delete("a")
        stage.put("a", v="2")
        told = len(stage.listener.told)
        reflector.resync("the test wants it")
        stage.proxy.heal()
        stage.proxy.cut()
        await until(lambda: stage.listener.syncs == 2)
        await stage.converges(reflector)
    news = stage.listener.told[told:]
    assert [type(change) for change in news] == [Deleted, Upserted, Synced]
    assert isinstance(news[0], Deleted)
    assert news[0].obj.uid == old.uid


async def test_429_on_a_watch_waits_as_asked_and_does_not_sync(stage: Stage) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    reflector = stage.reflector(sleep=sleep)
    async with running(reflector):
        await until(lambda: reflector.synced)
        for retry_after in ("7", "60", "soon"):
            stage.proxy.on_request(
                faults.answer(429, "busy", Retry_After=retry_after), query="watch=true"
            )
        stage.proxy.cut()
        await until(lambda: len(waits) >= 3)
        stage.put("a", v="1")
        await stage.converges(reflector)
    asked = [wait for wait in waits if wait in (7.0, 60.0)]
    assert asked == [7.0, 60.0]
    assert stage.listener.syncs == 1
    assert stage.proxy.count("sendInitialEvents") == 1


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503, 504])
async def test_refusals_for_a_while_are_waited_out(stage: Stage, status: int) -> None:
    stage.put("a", v="1")
    stage.proxy.on_request(faults.answer(status, "not now"), times=4)
    reflector = stage.reflector()
    async with running(reflector):
        await until(lambda: str(status) in reflector.problem)
        assert not reflector.synced
        await stage.converges(reflector)
        assert reflector.problem == ""
    assert stage.proxy.count("sendInitialEvents") >= 3


async def test_an_undecodable_object_is_told_and_the_rest_goes_on(stage: Stage) -> None:
    def decode(raw: bytes) -> ConfigMap:
        obj = decode_config_map(raw)
        if "bad" in obj.data:
            raise ValueError("I do not read this")
        return obj

    stage.put("a", v="1")
    stage.put("poison", bad="1")
    reflector = stage.reflector(decode=decode)
    async with running(reflector):
        await until(lambda: reflector.synced)
        stage.put("a", bad="1")
        stage.put("b", v="1")
        await stage.hears("b", "1")
        bad = [change for change in stage.listener.told if isinstance(change, Undecodable)]
        assert [change.key for change in bad] == [
            f"{stage.namespace}/poison",
            f"{stage.namespace}/a",
        ]
        assert bad[0].object is not None
        assert bad[0].object["data"] == {"bad": "1"}
        assert f"{stage.namespace}/a" in stage.listener.held, "outdated, but not deleted"

        reflector.resync("the test wants it")
        await until(lambda: stage.listener.syncs == 2)
        assert len([c for c in stage.listener.told if isinstance(c, Undecodable)]) == 2
        assert f"{stage.namespace}/a" in stage.listener.held

        stage.put("a", v="2")
        stage.delete("poison")
        await until(lambda: any(isinstance(c, Vanished) for c in stage.listener.told))
        await stage.converges(reflector)


async def test_selectors_show_an_object_leaving_as_deleted(stage: Stage) -> None:
    def label(value: str) -> None:
        body = {"metadata": {"labels": {"team": value}}}
        content_type = "application/merge-patch+json"
        stage.plane.api("PATCH", f"{stage.path}/a", body, content_type=content_type)

    stage.put("a", v="1")
    stage.put("other", v="1")
    label("red")
    reflector = stage.reflector(label_selector="team=red")
    async with running(reflector):
        await until(lambda: reflector.synced)
        assert list(reflector.objects) == [f"{stage.namespace}/a"]
        label("blue")
        await until(lambda: not reflector.objects)
        label("red")
        await until(lambda: bool(reflector.objects))
        assert await reflector.verify(settle_s=0.1) == []


async def test_a_cancelled_reflector_goes_on_where_it_was(stage: Stage) -> None:
    stage.put("a", v="1")
    reflector = stage.reflector()
    async with running(reflector):
        await until(lambda: reflector.synced)
    stage.put("b", v="1")
    stage.delete("a")
    async with running(reflector):
        await stage.converges(reflector)
    assert stage.listener.syncs == 1


async def test_a_lost_reply_is_told_apart_from_no_connection(stage: Stage) -> None:
    body = json.dumps({"metadata": {"name": "a"}}).encode()
    stage.proxy.on_request(faults.lose_reply, method="POST")
    with pytest.raises(ReplyLost):
        await stage.client.request("POST", stage.path, body=body)
    assert list(stage.truth()) == [f"{stage.namespace}/a"], "and it was processed"

    stage.proxy.on_request(faults.never_answer, method="POST")
    with pytest.raises(ReplyLost):
        await stage.client.request("POST", stage.path, body=body, timeout_s=2.0)

    reply = await stage.client.request("POST", stage.path, body=body)
    assert reply.status == 409
    assert "already exists" in reply.message
    await stage.proxy._runner.cleanup()
    await asyncio.sleep(0.05)  # until the kept-alive connection is seen to be closed
    with pytest.raises(Unreachable):
        await stage.client.request("POST", stage.path, body=body)


@pytest.mark.slow
async def test_a_restarted_api_server_is_followed_again(
    new_control_plane: Callable[..., ControlPlane],
) -> None:
    plane = await asyncio.to_thread(new_control_plane)
    client = Client(load_access(str(plane.kubeconfig_for())))
    async with closing(client):
        stage = Stage(plane, "default", None, client, Listener())  # type: ignore
        reflector = stage.reflector()
        stage.put("a", v="1")
        async with running(reflector):
            await stage.converges(reflector)
            old = reflector.version
            stage.put("c", v="1")
            await stage.converges(reflector)
            plane.kill_apiserver()
            await until(lambda: reflector.problem == "Unreachable")
            await asyncio.to_thread(plane.restart_apiserver)
            stage.put("b", v="1")
            stage.delete("a")
            await stage.converges(reflector, within_s=180)

        # F33: one that was away for longer than the server's memory reaches must sync.
        stage.listener = Listener()
        late = stage.reflector()
        late._position.start(old)
        async with running(late):
            await until(lambda: late.synced)
            await stage.converges(late)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))]
)
async def test_random_churn_with_random_faults_converges(stage: Stage, seed: int) -> None:
    rng = random.Random(seed)
    reflector = stage.reflector(
        rng=rng, idle_timeout_s=0.5, stream_timeout_s=0.5, page_size=5, healthy_s=0.2
    )
    async with running(reflector):
        churn = asyncio.create_task(asyncio.to_thread(_churn, stage, rng, 250))
        while not churn.done():
            _arm_a_fault(stage.proxy, rng)
            if rng.random() < 0.3:
                stage.proxy.cut()
            await asyncio.sleep(rng.uniform(0.01, 0.2))
        stage.proxy.heal()
        stage.proxy.cut()
        await until(lambda: reflector.synced)
        await reflector.verify(settle_s=0.5)
        await stage.converges(reflector)


def _arm_a_fault(proxy: FaultProxy, rng: random.Random) -> None:
    def sometimes(event: faults.Event) -> bool:
        return rng.random() < 0.2

    watch_faults = [
        faults.drop(sometimes),
        faults.duplicate(sometimes),
        faults.swap(sometimes),
        faults.insert(faults.expired(), after=sometimes),
        faults.insert(b'{"type":"WHAT","object":{}}\n', after=sometimes),
        faults.stall(after=sometimes),
        faults.cut_inside(sometimes),
        faults.end_inside(sometimes),
        faults.end_at_once,
        faults.in_pieces_of(rng.randint(1, 50)),
    ]
    request_faults = [
        faults.answer(429, Retry_After="1"),
        faults.answer(410),
        faults.answer(503),
        faults.answer(422),
        faults.lose_reply,
        faults.refuse_connection,
    ]
    proxy.on_watch(rng.choice(watch_faults))
    if rng.random() < 0.3:
        proxy.on_request(rng.choice(request_faults))


def _churn(stage: Stage, rng: random.Random, steps: int) -> None:
    """Create, change, delete and replace a few objects, many times."""
    dice = random.Random(rng.random())
    for step in range(steps):
        name = f"c{dice.randint(0, 12)}"
        if dice.random() < 0.3:
            stage.delete(name)
        else:
            stage.put(name, v=str(step))
