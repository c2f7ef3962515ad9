"""Conditions without a server: the newest only, never what stands there, never given up lightly."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from fairlead.engine.instructions import AnnounceFailure, AnnounceScheduled
from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.http.reply import Reply
from fairlead.kube.writes import condition_writer
from fairlead.kube.writes.condition_writer import LONGEST_MESSAGE_BYTES, TRIES, ConditionWriter
from fairlead.kube.writes.recorder import Recorder
from fairlead.model.pods import Pod
from fairlead.model.sizes import weigh
from scripted import Request, Scripted, a_pod, as_json, in_turn, status, until

START_NS = 1_767_323_045_000_006_789  # 2026-01-02T03:04:05Z
DONE = status(200)


@contextlib.asynccontextmanager
async def writing(transport: Scripted, **options: Any) -> AsyncIterator[ConditionWriter]:
    defaults = {"limit": 100, "workers": 3, "longest_pause_s": 0.001}
    writer = ConditionWriter(transport, now_ns=lambda: START_NS, **{**defaults, **options})
    running = asyncio.create_task(writer.run())
    yield writer
    await writer.stop(grace_s=60)
    await running


def failure(pod: Pod | None = None, message: str = "no room") -> AnnounceFailure:
    return AnnounceFailure(pod or a_pod(), "Unschedulable", message)


def messages(transport: Scripted) -> list[str]:
    patches = transport.sent("PATCH")
    return [request.body["status"]["conditions"][0]["message"] for request in patches]


async def test_first_condition_field_by_field() -> None:
    transport = Scripted(lambda _: DONE)
    async with writing(transport) as writer:
        writer.failed(failure(a_pod(generation=3)))
    (request,) = transport.requests
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/ns/pods/p/status")
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no room",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        "observedGeneration": 3,
    }
    assert request.body == {
        "metadata": {"uid": "uid-p", "resourceVersion": "7"},
        "status": {"conditions": [condition]},
    }


async def test_what_waits_to_be_written_keeps_little_of_a_pod() -> None:
    """Thousands wait while the server is slow, and each pod may have 256 KiB of annotations."""
    words = {"annotations": {"a": "x" * 200_000}, "labels": {"l": "y" * 63}}
    large = a_pod(**words, condition=("Unschedulable", "z" * 1_000_000))
    transport = Scripted(lambda _: DONE)
    async with writing(transport) as writer:
        writer.failed(failure(large, message="é" * 100_000))
        (kept,) = writer._outbox._waiting.values()
        assert weigh(kept.item) < 32_768
    (message,) = messages(transport)
    assert message.endswith("é ...")
    assert len(message.encode()) <= LONGEST_MESSAGE_BYTES


async def test_what_stands_there_is_not_written() -> None:
    transport = Scripted(lambda _: DONE)
    async with writing(transport) as writer:
        writer.failed(failure(a_pod(condition=("Unschedulable", "no room"))))
    assert not transport.requests
    assert writer.tally.skipped == 1


async def test_what_we_wrote_is_not_written_again_though_the_watch_lags() -> None:
    transport = Scripted(lambda _: DONE)
    async with writing(transport) as writer:
        for message in ("a", "a", "b", "a"):
            writer.failed(failure(message=message))
            await writer._outbox._idle.wait()
    assert messages(transport) == ["a", "b", "a"]
    times = ["lastTransitionTime" in r.body["status"]["conditions"][0] for r in transport.requests]
    assert times == [True, False, False]


async def test_only_the_newest_is_written() -> None:
    transport = Scripted(lambda _: asyncio.sleep(0.01, DONE))
    async with writing(transport) as writer:
        writer.failed(failure(message="0"))
        await until(lambda: transport.under_way)
        for number in range(1, 50):
            writer.failed(failure(message=str(number)))
    assert messages(transport) == ["0", "49"]
    assert transport.most_under_way == 1


async def test_a_nomination_that_others_wrote_since_is_taken() -> None:
    transport = Scripted(lambda _: DONE)
    async with writing(transport) as writer:
        writer.failed(failure())
        await until(lambda: transport.requests)
        writer.unnominated(a_pod(nominated="n1", condition=("Unschedulable", "no room")))
    assert [r.body["status"].get("nominatedNodeName", "") for r in transport.requests] == ["", None]


@pytest.mark.parametrize("nominated", ["n2", ""])
async def test_a_nomination_is_not_lost_over_a_newer_message(nominated: str) -> None:
    transport = Scripted(lambda _: DONE)
    async with writing(transport) as writer:
        pod = a_pod(nominated="n1")
        writer.failed(replace(failure(pod, "older"), nominated=nominated))
        writer.failed(failure(pod, "newer"))
    (request,) = transport.requests
    assert request.body["status"]["nominatedNodeName"] == (nominated or None)
    assert messages(transport) == ["newer"]


async def test_change_of_mind_back_to_what_is_under_way_is_no_write() -> None:
    transport = Scripted(lambda _: asyncio.sleep(0.01, DONE))
    async with writing(transport) as writer:
        writer.failed(failure(message="a"))
        await until(lambda: transport.under_way)
        writer.failed(failure(message="b"))
        writer.failed(failure(message="a"))
    assert messages(transport) == ["a"]


async def test_scheduled_pod_is_not_explained_any_more() -> None:
    transport = Scripted(lambda _: DONE)
    recorder = Recorder(transport)
    recorder.failed(failure())
    recorder.scheduled(AnnounceScheduled(a_pod(), "n1", 1, 0.0))
    running = asyncio.create_task(recorder.run())
    await recorder.stop(grace_s=60)
    await running
    assert not transport.sent("PATCH")
    assert len(transport.sent("POST")) == 2


async def test_bound_pod_is_left_alone_whatever_the_order() -> None:
    bound = replace(a_pod(), node="n1")

    def answer(request: Request) -> Reply:
        return status(409) if request.method == "PATCH" else as_json(bound)

    transport = Scripted(answer)
    async with writing(transport) as writer:
        writer.failed(failure())
    assert len(transport.sent("PATCH")) == 1


async def test_conflict_is_resolved_with_the_version_of_now() -> None:
    patches = in_turn(status(409), then=DONE)
    transport = Scripted(lambda r: patches(r) if r.method == "PATCH" else as_json(a_pod()))
    async with writing(transport) as writer:
        writer.failed(failure())
    versions = [r.body["metadata"]["resourceVersion"] for r in transport.sent("PATCH")]
    assert versions == ["7", "8"]
    assert writer.tally.written == 1


@pytest.mark.parametrize("trouble", [status(500), status(503), ReplyLost("cut")], ids=repr)
async def test_trouble_that_lasts_is_given_up(trouble: Any) -> None:
    transport = Scripted(lambda _: trouble)
    async with writing(transport) as writer:
        writer.failed(failure())
        await until(lambda: writer.tally.dropped)
    assert len(transport.requests) == TRIES


async def test_server_that_was_away_gets_its_conditions_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,  # the pause is there to save CPU in an outage, not in a test
) -> None:
    monkeypatch.setattr(condition_writer, "UNREACHABLE_PAUSE_S", 0.001)
    transport = Scripted(in_turn(*[Unreachable("none")] * 50, then=DONE))
    async with writing(transport) as writer:
        writer.failed(failure())
        await until(lambda: writer.tally.written)
    assert writer.tally.dropped == 0


async def test_pod_that_is_gone_is_forgotten() -> None:
    transport = Scripted(lambda _: status(404))
    async with writing(transport) as writer:
        writer.failed(failure())
    assert len(transport.requests) == 1
    assert writer.tally.skipped == 1
