"""The extender protocol: what kube-scheduler sends is read, and what it reads is sent."""

import json
import tracemalloc

import pytest

from fairlead.engine.extender_queries import ExtenderFilterResult
from fairlead.kube.extender.wire import (
    BadExtenderArgs,
    ExtenderBindingArgs,
    OfferedVictims,
    encode_binding_result,
    encode_filter_result,
    encode_priorities,
    encode_victims,
    read_bind,
    read_nodes,
    read_victims,
)

POD = {"metadata": {"name": "p", "namespace": "d", "uid": "u"}}


def body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def node(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "status": {"odd": 1.50, "unknown": ["x"]}}


def test_names_are_answered_with_names() -> None:
    asked = read_nodes(body(Pod=POD, Nodes=None, NodeNames=["a", "b"]))
    assert (json.loads(asked.pod), asked.names, asked.objects) == (POD, ["a", "b"], None)
    assert json.loads(encode_filter_result(asked, ExtenderFilterResult(["b"], {"a": "full"}))) == {
        "Nodes": None,
        "NodeNames": ["b"],
        "FailedNodes": {"a": "full"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_nodes_in_full_come_back_byte_for_byte() -> None:
    text = json.dumps(node("b"), indent=3)
    sent = f'{{"Pod": {{}}, "Nodes": {{"items": [{{"metadata": {{"name": "a"}}}}, {text}]}}}}'
    asked = read_nodes(sent.encode())
    assert asked.names == ["a", "b"]
    answer = encode_filter_result(asked, ExtenderFilterResult(["b"], {}, {"a": "never"}))
    assert text.encode() in answer
    assert json.loads(answer) == {
        "Nodes": {"metadata": {}, "items": [node("b")]},
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"a": "never"},
        "Error": "",
    }


@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
def test_the_case_of_names_does_not_matter(case) -> None:
    asked = read_nodes(body(**{case("pod"): POD, case("nodenames"): ["a"]}))
    assert asked.names == ["a"]


def test_no_nodes_at_all_are_a_question_like_any_other() -> None:
    assert read_nodes(body(Pod=POD, NodeNames=[])).names == []
    assert read_nodes(body(Pod=POD, Nodes={"items": None})).names == []


def test_victims_come_in_full_or_by_uid() -> None:
    in_full = {"n": {"Pods": [POD], "NumPDBViolations": 1}}
    by_uid = {"n": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}, "m": {"Pods": None}}
    one = read_victims(body(Pod=POD, NodeNameToVictims=in_full, NodeNameToMetaVictims=None))
    two = read_victims(body(Pod=POD, NodeNameToVictims=None, NodeNameToMetaVictims=by_uid))
    assert one.offered == {"n": OfferedVictims(("u",), 1)}
    assert two.offered == {"n": OfferedVictims(("u",), 1), "m": OfferedVictims(())}
    assert json.loads(encode_victims(one.offered)) == {
        "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}}
    }


def test_a_large_request_makes_nothing_of_what_it_does_not_know() -> None:
    """Millions of other names took ten seconds to be remembered, and their case changed."""
    others = {f"other-{number}": number for number in range(10_000)}
    sent = body(**others, Pod=POD, NodeNames=["a"])
    tracemalloc.start()
    asked = read_nodes(sent)
    taken_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert asked.names == ["a"]
    assert taken_bytes < len(sent)
    with pytest.raises(BadExtenderArgs, match="neither NodeNames nor Nodes"):
        read_nodes(body(**others, pod=POD, nodenames=["a"]))


def test_scores_and_binds() -> None:
    assert json.loads(encode_priorities(["a", "b"], [0, 10])) == [
        {"Host": "a", "Score": 0},
        {"Host": "b", "Score": 10},
    ]
    asked = read_bind(body(PodName="p", PodNamespace="d", PodUID="u", Node="a"))
    assert asked == ExtenderBindingArgs("d", "p", "u", "a")
    assert (encode_binding_result(""), encode_binding_result("no")) == (
        b'{"Error":""}',
        b'{"Error":"no"}',
    )


@pytest.mark.parametrize(
    ("read", "sent", "said"),
    [
        (read_nodes, b"[", "the body cannot be read"),
        (read_nodes, b"[" * 100_000, "the body cannot be read"),
        (read_nodes, b'"\xff"', "the body cannot be read"),
        (read_nodes, body(Pod=POD), "neither NodeNames nor Nodes"),
        (read_nodes, body(NodeNames=["a"]), "the request has no Pod"),
        (read_nodes, body(Pod=POD, NodeNames="a"), "NodeNames cannot be read"),
        (read_nodes, body(Pod=POD, Nodes={"items": [3]}), "one of Nodes cannot be read"),
        (read_victims, body(Pod=POD, NodeNameToVictims={"n": 3}), "NodeNameToVictims cannot be"),
        (
            read_victims,
            body(Pod=POD, NodeNameToVictims={"n": {"Pods": [3]}}),
            "NodeNameToVictims cannot be",
        ),
        (read_bind, body(PodName="p", Node="a"), "PodNamespace, PodUID must not be empty"),
        (read_bind, body(PodName=3), "PodName cannot be read"),
        (read_nodes, body(Pod=POD, NodeNames=["a"] * 50_001), "NodeNames is too large"),
        (read_nodes, b'{"Nodes":{"items":[' + b"{}," * 2_000_000 + b"{}]}}", "Nodes is too large"),
        (
            read_victims,
            b'{"NodeNameToVictims":{"n":{"Pods":[' + b"{}," * 2_000_000 + b"{}]}}}",
            "NodeNameToVictims is too large",
        ),
        (
            read_nodes,
            b'{"Nodes":{"items":[' + b'{"metadata":{}},' * 50_000 + b'{"metadata":{}}]}}',
            "Nodes is too large",
        ),
        (
            read_victims,
            b'{"NodeNameToMetaVictims":{"n":{"Pods":[' + b"{}," * 100_000 + b"{}]}}}",
            "NodeNameToMetaVictims is too large",
        ),
        (
            read_victims,
            body(Pod=POD, NodeNameToMetaVictims={str(n): {} for n in range(10_001)}),
            "victims are offered on more than 10000 nodes",
        ),
    ],
)
def test_what_makes_no_sense_is_told_in_a_sentence(read, sent: bytes, said: str) -> None:
    with pytest.raises(BadExtenderArgs, match=said) as caught:
        read(sent)
    assert len(str(caught.value)) < 200
