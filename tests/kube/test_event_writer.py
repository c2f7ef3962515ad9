"""Events without a server: their words, their names, their counts and their bounds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.engine.instructions import AnnounceFailure, AnnounceScheduled
from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.writes import event_objects
from fairlead.kube.writes.event_writer import LATEST_S, LOOK_S, TRIES, EventWriter
from fairlead.kube.writes.spam import NS_PER_S
from fairlead.model.pods import Pod
from scripted import Scripted, a_pod, in_turn, status, until

START_NS = 1_767_323_045_000_006_789  # 2026-01-02T03:04:05.000006789Z


class Clock:
    def __init__(self) -> None:
        self.ns = START_NS

    def __call__(self) -> int:
        return self.ns

    def pass_s(self, seconds: float) -> None:
        self.ns += int(seconds * NS_PER_S)


@contextlib.asynccontextmanager
async def writing(
    transport: Scripted, clock: Clock | None = None, **options: Any
) -> AsyncIterator[EventWriter]:
    defaults = {"hostname": "host", "limit": 100, "workers": 2, "notice_workers": 2}
    more = {"longest_pause_s": 0.001, **options}
    writer = EventWriter(transport, now_ns=clock or Clock(), **{**defaults, **more})
    running = asyncio.create_task(writer.run())
    yield writer
    await writer.stop(grace_s=60)
    await running


def failure(pod: Pod | None = None, message: str = "no room") -> AnnounceFailure:
    return AnnounceFailure(pod or a_pod(), "Unschedulable", message)


async def written(writer: EventWriter) -> None:
    await writer._explanations._idle.wait()


# Words


async def test_scheduled_event_field_by_field() -> None:
    transport = Scripted()
    async with writing(transport) as writer:
        writer.scheduled(AnnounceScheduled(a_pod(), "n1", 1, 0.0))
    (request,) = transport.requests
    assert (request.method, request.path) == ("POST", "/apis/events.k8s.io/v1/namespaces/ns/events")
    assert request.body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"p.{START_NS:x}", "namespace": "ns"},
        "eventTime": "2026-01-02T03:04:05.000006Z",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": "Successfully assigned ns/p to n1",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "ns",
            "name": "p",
            "uid": "uid-p",
            "resourceVersion": "7",
        },
        "reportingController": "s",
        "reportingInstance": "s-host",
    }


@given(st.text(max_size=1200))
def test_notes_are_cut_at_whole_characters(text: str) -> None:
    note = event_objects.shortened(text)
    encoded = text.encode(errors="replace")
    if len(encoded) <= 1024:
        assert note == text
        return
    assert 1020 < len(note.encode()) <= 1024
    assert note.endswith(" ...")
    assert encoded.decode().startswith(note.removesuffix(" ..."))


@pytest.mark.parametrize("length", [1024, 1025])
def test_the_limit_is_that_of_the_api_server(length: int) -> None:
    assert (event_objects.shortened("x" * length) == "x" * length) is (length <= 1024)


async def test_names_differ_even_when_the_clock_stands_still() -> None:
    transport = Scripted()
    async with writing(transport) as writer:
        for number in range(20):
            writer.failed(failure(message=f"m{number}"))
    names = {request.body["metadata"]["name"] for request in transport.requests}
    assert len(names) == 20


async def test_pod_with_the_longest_name_gets_an_event_too() -> None:
    transport = Scripted()
    async with writing(transport) as writer:
        writer.scheduled(AnnounceScheduled(a_pod("p" * 253), "n1", 1, 0.0))
    assert len(transport.requests[0].body["metadata"]["name"]) == 36


# Counts


async def test_first_repeat_starts_a_series_and_later_ones_wait_for_its_end() -> None:
    transport, clock = Scripted(), Clock()
    async with writing(transport, clock) as writer:
        for _ in range(5):
            writer.failed(failure())
            clock.pass_s(1)
            await written(writer)
        assert [r.method for r in transport.requests] == ["POST", "PATCH"]
        series = {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000006Z"}
        assert transport.requests[1].body == {"series": series}
        clock.pass_s(361)
        writer.review()
        await until(lambda: len(transport.requests) == 3)
        assert transport.requests[2].body["series"]["count"] == 5
        writer.failed(failure())
        await until(lambda: len(transport.requests) == 4)
        assert transport.requests[3].method == "POST", "a new story begins"
    assert writer.tally.skipped == 3


async def test_long_series_is_written_again_before_the_server_forgets_it() -> None:
    transport, clock = Scripted(), Clock()
    async with writing(transport, clock) as writer:
        for _ in range(8):
            writer.failed(failure())
            await written(writer)
            clock.pass_s(300)
            writer.review()
        await until(lambda: len(transport.requests) == 3)
        assert transport.requests[2].body["series"]["count"] >= 7


async def test_other_words_make_another_event() -> None:
    transport = Scripted()
    async with writing(transport) as writer:
        for message in ("a", "b", "a", "b"):
            writer.failed(failure(message=message))
            await written(writer)
    assert [r.method for r in transport.requests] == ["POST", "POST", "PATCH", "PATCH"]


async def test_pod_that_says_something_new_all_the_time_is_filtered() -> None:
    transport = Scripted()
    async with writing(transport) as writer:
        for number in range(100):
            writer.failed(failure(message=f"m{number}"))
        writer.failed(failure(a_pod("quiet")))
    assert len(transport.requests) == 26
    assert writer.tally.filtered == 75


# Bounds


async def test_hanging_server_costs_events_and_nothing_else() -> None:
    forever = asyncio.Event()

    async def hang(_: object) -> Any:
        await forever.wait()

    transport = Scripted(hang)
    async with writing(transport, limit=10) as writer:
        for number in range(100):
            writer.scheduled(AnnounceScheduled(a_pod(f"p{number}"), "n1", 1, 0.0))
            await asyncio.sleep(0)
        assert transport.under_way == 2
        async with asyncio.timeout(60):
            await writer.stop(grace_s=0.01)
    assert writer.tally.dropped == 100


@pytest.mark.parametrize(
    "trouble", [status(429), status(503), status(500), ReplyLost("cut")], ids=repr
)
async def test_event_is_given_up_after_as_many_tries_as_client_go(trouble: Any) -> None:
    transport = Scripted(lambda _: trouble)
    async with writing(transport) as writer:
        writer.failed(failure())
        await until(lambda: writer.tally.dropped)
    assert len(transport.requests) == TRIES == 12


@pytest.mark.parametrize(
    "trouble", [status(429), status(503), ReplyLost("cut"), Unreachable("none")], ids=repr
)
async def test_passing_trouble_is_outlived(trouble: Any) -> None:
    transport = Scripted(in_turn(trouble, trouble))
    async with writing(transport) as writer:
        writer.failed(failure())
        await until(lambda: writer.tally.written)
    assert len({request.body["metadata"]["name"] for request in transport.requests}) == 1


async def test_refused_event_is_not_sent_again() -> None:
    transport = Scripted(lambda _: status(403, "namespace is terminating"))
    async with writing(transport) as writer:
        writer.failed(failure())
        await until(lambda: writer.tally.rejected)
    assert len(transport.requests) == 1


# Giving way


class Rush:
    """Pods wait to be bound until it is over."""

    def __init__(self) -> None:
        self.on = True

    def __call__(self) -> bool:
        return self.on


def bound(name: str = "p") -> AnnounceScheduled:
    return AnnounceScheduled(a_pod(name), "n1", 1, 0.0)


def told(transport: Scripted) -> list[str]:
    return [request.body["reason"] for request in transport.requests]


async def _looked_around() -> None:
    await asyncio.sleep(2 * LOOK_S)


async def test_notice_of_a_bind_waits_until_no_pods_do() -> None:
    transport, rush = Scripted(), Rush()
    async with writing(transport, pods_wait=rush) as writer:
        writer.scheduled(bound())
        await _looked_around()
        assert not transport.requests
        rush.on = False
        await until(lambda: transport.requests)
    assert told(transport) == ["Scheduled"]


async def test_why_a_pod_waits_is_told_while_notices_give_way() -> None:
    transport = Scripted()
    async with writing(transport, pods_wait=Rush()) as writer:
        for number in range(40):
            writer.scheduled(bound(f"p{number}"))
        writer.failed(failure())
        await until(lambda: transport.requests)
        assert told(transport) == ["FailedScheduling"]


async def test_notice_is_only_so_late_however_long_the_rush() -> None:
    transport, clock = Scripted(), Clock()
    async with writing(transport, clock, pods_wait=Rush()) as writer:
        writer.scheduled(bound("early"))
        clock.pass_s(LATEST_S)
        writer.scheduled(bound("late"))
        await until(lambda: transport.requests)
        await _looked_around()
        assert [r.body["regarding"]["name"] for r in transport.requests] == ["early"]


async def test_clock_that_is_set_back_keeps_no_notice() -> None:
    transport, clock = Scripted(), Clock()
    async with writing(transport, clock, pods_wait=Rush()) as writer:
        writer.scheduled(bound())
        clock.pass_s(-3600)
        await until(lambda: transport.requests)


async def test_notices_stop_giving_way_before_one_is_dropped() -> None:
    transport = Scripted()
    async with writing(transport, limit=100, pods_wait=Rush()) as writer:
        for number in range(90):
            writer.scheduled(bound(f"p{number}"))
        await until(lambda: len(transport.requests) >= 40)
        await _looked_around()
        assert len(transport.requests) < 90
    assert len(transport.requests) == 90, "leaving, it tells the rest"
    assert not writer.tally.dropped
