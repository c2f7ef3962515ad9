"""JSON that is nested more deeply than can be read: the object is read, and no other is delayed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.kube import nesting
from fairlead.kube.admission.admission_handler import AdmissionHandler
from fairlead.kube.claims.claims import decode_claim
from fairlead.kube.codec import decode_pod
from fairlead.kube.extender.extender_handler import ExtenderHandler
from fairlead.kube.extender.wire import read_bind, read_nodes, read_victims
from fairlead.kube.mirror.changes import Change, Deleted, Undecodable, Upserted
from fairlead.kube.mirror.feed import Feed, Stats
from fairlead.kube.mirror.mirror import Snapshot
from fairlead.kube.mirror.wire import read_identity, read_page
from fairlead.kube.nesting import TOO_DEEP, flattened
from fairlead.kube.writes.settling import _read_pod
from fairlead.model.pods import Pod

texts = st.text(st.sampled_from('a\\"[]{}:,\n é'), max_size=4)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
)


def cut(value: Any, depth: int = 1) -> Any:
    if not isinstance(value, list | dict):
        return value
    if depth > nesting.DEEPEST:
        return TOO_DEEP
    if isinstance(value, list):
        return [cut(each, depth + 1) for each in value]
    return {key: cut(each, depth + 1) for key, each in value.items()}


@given(values, st.booleans(), st.integers(1, 9), st.integers(0, 3))
def test_what_is_too_deep_is_cut_and_nothing_else(
    value: Any, escapes: bool, step: int, deepest: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting, "_STEP", step)
        patch.setattr(nesting, "DEEPEST", deepest)
        raw = json.dumps(value, ensure_ascii=escapes).encode()
        assert json.loads(flattened(raw)) == cut(value)


@given(st.binary())
def test_what_is_no_json_does_no_harm(raw: bytes) -> None:
    assert isinstance(flattened(raw), bytes)


def a_pod(depth: int, version: str = "7") -> bytes:
    fields = b'{"f:a":' * depth + b"{}" + b"}" * depth
    return (
        b'{"kind":"Pod","metadata":{"managedFields":[{"fieldsV1":' + fields + b'}],"name":"p",'
        b'"namespace":"n","uid":"u","resourceVersion":"' + version.encode() + b'"},'
        b'"spec":{"nodeName":"x","containers":[{"name":"c"}]}}'
    )


QUEUE = b'"group":"fairlead.dev","version":"v1","kind":"Queue"'
# As deep as the API server takes it, and what is just beyond what can be read here.
DEPTHS = (*range(900, 1010, 7), 9000)


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_pod_of_any_depth_is_followed(depth: int) -> None:
    told: list[Change[Pod]] = []
    feed: Feed[Pod] = Feed(decode_pod, told.append, "Pod", Stats())
    feed.apply(b'{"type":"ADDED","object":' + a_pod(depth) + b"}")
    feed.apply(b'{"type":"DELETED","object":' + a_pod(depth, "8") + b"}")
    assert [type(change) for change in told] == [Upserted, Deleted]
    assert feed.position.resume == "8"


def test_an_object_that_is_nothing_but_depth_cannot_be_read_and_the_rest_goes_on() -> None:
    told: list[Change[Pod]] = []
    feed: Feed[Pod] = Feed(decode_pod, told.append, "Pod", Stats())
    feed.apply(b'{"type":"ADDED","object":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    feed.apply(b'{"type":"ADDED","object":' + a_pod(1) + b"}")
    assert [type(change) for change in told] == [Undecodable, Upserted]


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_pod_of_any_depth_is_listed(depth: int) -> None:
    page = read_page(b'{"metadata":{"resourceVersion":"7"},"items":[' + a_pod(depth) + b"]}")
    assert page.items is not None
    snapshot = Snapshot[Pod]()
    feed: Feed[Pod] = Feed(decode_pod, lambda _: None, "Pod", Stats())
    feed.add(bytes(page.items[0]), snapshot)
    assert [pod.node for pod in snapshot.objects.values()] == ["x"]
    assert read_identity(page.items[0]).key == "n/p"


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_outcome_of_a_bind_is_read_from_a_pod_of_any_depth(depth: int) -> None:
    """Else it is asked for again and again, and the place of the bind is lost."""
    assert _read_pod(a_pod(depth)).spec.node_name == "x"


def test_parameters_of_drivers_are_not_passed_on_where_they_were_cut() -> None:
    deep = b"[" * 50_000 + b"]" * 50_000  # more than any version of Python reads
    config = b'{"opaque":{"driver":"d","parameters":{"a":' + deep + b"}}}"
    raw = (
        b'{"metadata":{"name":"c","namespace":"n","uid":"u","resourceVersion":"7"},"spec":{"devices":'
        b'{"requests":[{"name":"r","exactly":{"deviceClassName":"x"}}],"config":['
        + config
        + b"]}}}"
    )
    claim = nesting.of_any_depth(decode_claim)(raw)
    assert "its parameters for d are nested too deeply" in claim.problem


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_pod_of_any_depth_is_reviewed(depth: int) -> None:
    """A webhook that cannot read a pod can be passed over, and then it gets no variable."""
    handler = AdmissionHandler(frozenset({"gpu-scheduler"}))
    spec = b'"spec":{"schedulerName":"gpu-scheduler",'
    body = (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",'
        b'"kind":{"group":"","version":"v1","kind":"Pod"},"operation":"CREATE","object":'
        + a_pod(depth).replace(b'"spec":{', spec)
        + b"}}"
    )
    assert handler.mutate(body).outcome == "injected"
    assert handler.validate(body).outcome == "allowed"
    debugged = body.replace(b'"CREATE"', b'"UPDATE","subResource":"ephemeralcontainers"')
    debugged = debugged[:-2] + b',"oldObject":' + a_pod(depth) + b"}}"
    assert handler.mutate(debugged).outcome == "untouched"
    queue = body.replace(b'"group":"","version":"v1","kind":"Pod"', QUEUE)
    assert handler.validate(queue).outcome == "allowed"


@pytest.mark.parametrize("small", [True, False], ids=["any case", "exact names"])
@pytest.mark.parametrize("depth", DEPTHS)
def test_pods_and_nodes_of_any_depth_are_sent_to_the_extender(depth: int, small: bool) -> None:
    """Else one of them among the victims, or the nodes, ends the requests for all pods."""
    pad = b'"Pad":"' + b"x" * (0 if small else 200_000) + b'",'
    deep, plain = a_pod(depth), a_pod(1)
    victims = b'{"x":{"Pods":[' + deep + b'],"NumPDBViolations":0}}'
    asked = read_victims(b"{" + pad + b'"Pod":' + plain + b',"NodeNameToVictims":' + victims + b"}")
    assert asked.offered["x"].uids == ("u",)
    nodes = read_nodes(
        b"{" + pad + b'"Pod":' + deep + b',"Nodes":{"items":[' + deep + b"," + plain + b"]}}"
    )
    assert nodes.names == ["p", "p"]
    names = b'"PodNamespace":"n","PodName":"p","PodUID":"u","Node":"x"}'
    assert read_bind(b'{"Odd":' + deep + b"," + names).key == "n/p"


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_pod_of_any_depth_is_answered_by_the_extender(depth: int) -> None:
    handler = ExtenderHandler(Engine({}, built_in("gpu-scheduler")))
    asked = b'{"Pod":' + a_pod(depth) + b',"NodeNames":["x"]}'
    assert [each["Host"] for each in json.loads(handler.prioritize(asked))] == ["x"]
    assert handler.filter(asked).pod.name == "p"
