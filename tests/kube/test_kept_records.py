"""Devices that are kept for a pod, in its status: written with its nomination, read with care."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from fairlead.engine.events import EvictionEnded
from fairlead.engine.instructions import AnnounceFailure, Evict
from fairlead.kube.codec import decode_pod
from fairlead.kube.http.reply import Reply
from fairlead.kube.kept_records import DEVICES_KEPT, LONGEST_BYTES, kept_text, read_kept
from fairlead.kube.writes import condition_writer
from fairlead.kube.writes.evictor import Evictor
from fairlead.model.gangs import Membership
from fairlead.model.kept_record import MOST_DEVICES, KeptClaim, KeptDevice, KeptRecord
from scripted import Request, Scripted, a_pod, status, until
from test_condition_writer import DONE, writing

WHOLE = KeptDevice("gpu.example.com", "n1", "gpu-0")
SHARE = KeptDevice("gpu.example.com", "n1", "gpu-1", "1f0c", (("cores", "1/3"), ("memory", "40")))
RECORD = KeptRecord(2, (KeptClaim("u-1", (WHOLE, SHARE)),), (WHOLE,))


def test_a_record_is_read_as_it_was_written() -> None:
    assert read_kept(kept_text(RECORD)) == RECORD
    assert kept_text(None) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kept",
        "[]",
        "[" * 100_000,
        '{"claims": 3}',
        '{"evicted": 1e400}',
        '{"devices": [{"driver": "d", "pool": "p"}]}',
        '{"devices": [{"driver": "d", "pool": "p", "device": 7}]}',
        json.dumps({"devices": [{"driver": "d", "pool": "p", "device": "x" * LONGEST_BYTES}]}),
        json.dumps({"devices": [{"driver": "", "pool": "", "device": ""}] * (MOST_DEVICES + 1)}),
        *(
            json.dumps({"devices": [{"driver": "d", "pool": "p", "device": "g", "amounts": given}]})
            for given in ({"m": "1e999999999"}, {"m": "-1"}, {"m": "1/0"}, {"m": "9" * 5000})
        ),
    ],
)
def test_what_is_no_record_is_none(text: str) -> None:
    assert read_kept(text) is None


def test_a_record_that_is_too_long_is_not_written() -> None:
    long = replace(WHOLE, pool="p" * LONGEST_BYTES)
    assert kept_text(KeptRecord(1, (), (long,))) == ""


def a_status(*, nominated: str = "n1", node: str = "") -> dict[str, Any]:
    condition = {"type": DEVICES_KEPT, "status": "True", "message": kept_text(RECORD)}
    return {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u",
            "annotations": {DEVICES_KEPT: "x"},
        },
        "spec": {"nodeName": node, "containers": [{"name": "c"}]},
        "status": {"conditions": [condition], "nominatedNodeName": nominated},
    }


def test_only_a_pending_pod_with_a_nominated_node_has_one() -> None:
    assert decode_pod(json.dumps(a_status()).encode()).kept == RECORD
    for pod in (a_status(nominated=""), a_status(node="n1")):
        assert decode_pod(json.dumps(pod).encode()).kept is None


def test_an_annotation_of_a_user_is_no_record() -> None:
    pod = a_status()
    pod["metadata"]["annotations"] = {DEVICES_KEPT: kept_text(RECORD)}
    pod["status"]["conditions"] = []
    assert decode_pod(json.dumps(pod).encode()).kept is None


async def test_it_is_written_with_the_nomination_and_removed_with_it() -> None:
    transport = Scripted(lambda _: DONE)
    pod = a_pod()
    async with writing(transport) as writer:
        writer.failed(AnnounceFailure(pod, "Unschedulable", "waits", "n1", RECORD))
    (request,) = transport.sent("PATCH")
    waits, kept = request.body["status"]["conditions"]
    assert request.body["status"]["nominatedNodeName"] == "n1"
    assert (waits["type"], kept["type"]) == ("PodScheduled", DEVICES_KEPT)
    assert (kept["status"], kept["message"]) == ("True", kept_text(RECORD))

    transport = Scripted(lambda _: DONE)
    pod = a_pod(nominated="n1", kept=RECORD, condition=("Unschedulable", "waits"))
    async with writing(transport) as writer:
        writer.failed(AnnounceFailure(pod, "Unschedulable", "waits"))
        writer.failed(AnnounceFailure(pod, "Unschedulable", "waits", "n1", RECORD))
    assert not transport.sent("PATCH"), "it stands there"
    async with writing(transport) as writer:
        writer.unnominated(pod)
    (request,) = transport.sent("PATCH")
    assert request.body["status"]["nominatedNodeName"] is None
    assert {"type": DEVICES_KEPT, "$patch": "delete"} in request.body["status"]["conditions"]


async def test_it_is_not_lost_over_a_new_message() -> None:
    replies = iter([status(500), DONE])
    transport = Scripted(lambda _: next(replies))
    async with writing(transport) as writer:
        writer.failed(AnnounceFailure(a_pod(), "Unschedulable", "waits", "n1", RECORD))
        writer.failed(AnnounceFailure(a_pod(), "Unschedulable", "still waits"))
    last = transport.sent("PATCH")[-1]
    assert [each["type"] for each in last.body["status"]["conditions"]] == [
        "PodScheduled",
        DEVICES_KEPT,
    ]


@pytest.mark.parametrize("may_evict", [True, False])
async def test_it_is_written_before_pods_are_evicted(may_evict: bool) -> None:
    """Also for a gang, behind many other conditions; a scheduler may be killed at any moment."""
    gang = Membership("fairlead/ns/g")
    members, victim = [a_pod(f"g-{n}", gang=gang) for n in range(2)], a_pod("victim")
    slow, ended = asyncio.Event(), list[EvictionEnded]()

    async def answer(request: Request) -> Reply:
        if request.method == "PATCH" and "/victim/" not in request.path:
            await slow.wait()
        if request.method == "POST" and not may_evict:
            return status(403, 'cannot create resource "pods/eviction"')
        return DONE

    transport = Scripted(answer)
    async with writing(transport, workers=1) as writer:
        evictor = Evictor(transport, ended.append, lambda *_: None, now_ns=lambda: 0,
                          recorded=writer.recorded)  # fmt: skip
        running = asyncio.create_task(evictor.run())
        for number in range(20):
            writer.failed(AnnounceFailure(a_pod(f"other-{number}"), "Unschedulable", "no room"))
        for pod in members:
            writer.failed(AnnounceFailure(pod, "Unschedulable", "evicting", "n1", RECORD))
        evictor.submit(Evict(members[1], "n1", {"n1": (victim,)}, within_budgets=True))
        await until(lambda: transport.sent("POST"))
        await asyncio.sleep(0)
        assert not [each for each in transport.requests if _evicts(each)]
        slow.set()
        await until(lambda: ended)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    paths = [each.path for each in transport.requests]
    evicted_at = next(at for at, each in enumerate(transport.requests) if _evicts(each))
    assert {f"/api/v1/namespaces/ns/pods/g-{n}/status" for n in range(2)} <= {*paths[:evicted_at]}
    assert paths.index("/api/v1/namespaces/ns/pods/other-19/status") > paths.index(
        "/api/v1/namespaces/ns/pods/g-1/status"
    ), "it waits for no other conditions"


def _evicts(request: Request) -> bool:
    dry = request.method == "POST" and request.body["deleteOptions"].get("dryRun")
    return "/victim" in request.path and request.method in ("POST", "DELETE") and not dry


async def test_evictions_do_not_wait_for_ever_for_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condition_writer, "RECORDED_WITHIN_S", 0.01)
    busy = asyncio.Event()

    async def answer(_: Request) -> Reply:
        await busy.wait()
        return DONE

    async with writing(Scripted(answer)) as writer:
        writer.failed(AnnounceFailure(a_pod(), "Unschedulable", "evicting", "n1", RECORD))
        await writer.recorded(a_pod("another"))
        await writer.recorded(a_pod())
        busy.set()
