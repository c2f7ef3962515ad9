"""Devices that are kept for a pod, in its status: written with its nomination, read with care."""

import json
from dataclasses import replace
from typing import Any

import pytest

from fairlead.engine.instructions import AnnounceFailure
from fairlead.kube.codec import decode_pod
from fairlead.kube.kept_records import DEVICES_KEPT, LONGEST_BYTES, kept_text, read_kept
from fairlead.model.kept_record import MOST_DEVICES, KeptClaim, KeptDevice, KeptRecord
from scripted import Scripted, a_pod, status
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
