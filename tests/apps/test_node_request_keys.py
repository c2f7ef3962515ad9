"""Which requests for nodes come first, and how their keys are kept."""

import json
from typing import Any

import pytest

from builders import a_pod
from fairlead.apps.run import node_request_keys
from fairlead.apps.run.node_request_keys import RequestKeys, in_turn, request_key
from fairlead.apps.run.node_requests import NodeRequestCare
from fairlead.engine.events import NodeRequestSeen
from fairlead.engine.node_requests import NodeRequest
from fairlead.kube.mirror.changes import Deleted, Upserted
from fairlead.kube.provisioning import REQUESTED_FOR, RequestObject, decode_request
from fairlead.model.node_requests import RequestTerms


def a_request(gang: str) -> NodeRequest:
    return NodeRequest(f"fairlead/default/{gang}", ((a_pod(gang), 2),))


def test_a_namespace_with_thousands_of_requests_delays_no_other_one() -> None:
    keys = [*(f"many/fairlead-{n}" for n in range(10_000)), "few/fairlead-a", "few/fairlead-b"]
    found = in_turn(keys, 10)
    assert found[:4] == ["many/fairlead-0", "few/fairlead-a", "many/fairlead-1", "few/fairlead-b"]
    assert len(found) == len(set(found)) == 10


def test_keys_of_requests_that_stay_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = []

    def counted(request: NodeRequest) -> str:
        computed.append(request.gang)
        return request_key(request)

    monkeypatch.setattr(node_request_keys, "request_key", counted)
    keys, first, second = RequestKeys(), a_request("a"), a_request("b")
    assert keys.of([first, second]) == keys.of([first, second])
    assert len(computed) == 2
    changed = a_request("b")
    assert list(keys.of([first, changed]).values()) == [first, changed]
    assert len(computed) == 3
    assert keys.of([]) == {}


def a_care(feed: list[NodeRequestSeen]) -> NodeRequestCare:
    nothing: Any = None
    put: Any = feed.append
    return NodeRequestCare(nothing, nothing, RequestTerms(), nothing, put, nothing, lambda: True)


def an_object(gang: str) -> RequestObject:
    annotations = {REQUESTED_FOR: f"fairlead/default/{gang}"} if gang else {}
    meta = {"name": "fairlead-x", "namespace": "default", "annotations": annotations}
    return decode_request(json.dumps({"metadata": meta}).encode())


def test_a_request_whose_annotation_is_edited_again_and_again_leaves_nothing_behind() -> None:
    told: list[NodeRequestSeen] = []
    care = a_care(told)
    for gang in ("a", "b", "b", "", "c"):
        care._on_change(Upserted(an_object(gang)))
    care._on_change(Deleted(an_object("c")))
    said = {event.gang: event.sentence for event in told}
    assert said == dict.fromkeys((f"fairlead/default/{gang}" for gang in "abc"), None)
    assert not care._gangs
