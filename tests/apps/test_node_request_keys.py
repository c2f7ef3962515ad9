"""Which requests for nodes come first, and how their keys are kept."""

import pytest

from builders import a_pod
from fairlead.apps.run import node_request_keys
from fairlead.apps.run.node_request_keys import RequestKeys, in_turn, request_key
from fairlead.engine.node_requests import NodeRequest


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
