"""Pods as large as the API server stores them, from the bytes of the watch to the ledger."""

from collections.abc import Callable, Iterator
from functools import partial

from fairlead.engine.events import Event, PodSeen
from fairlead.kube.codec import decode_pod
from fairlead.kube.http.watch import LineSplitter
from fairlead.kube.mirror.changes import Change, Upserted
from fairlead.kube.mirror.feed import Feed, Stats
from fairlead.model.pods import Pod
from hostile_cluster import Made, Shape, Size, a_pod, encoded
from pods import Body

#: What a read of a TLS connection returns at most.
_PIECE = 16 * 2**10
_DEEP = '"DEEP"'


def _annotations(body: Body, each: int) -> None:
    body["metadata"]["annotations"] = {f"example.com/{n}": "v" * 20 for n in range(each // 2)}


def _managed_fields(body: Body, each: int) -> None:
    fields = {f"f:field-{number}": {} for number in range(4 * each)}
    body["metadata"]["managedFields"] = [{"manager": "m", "fieldsV1": fields}]


def _deep_fields(body: Body, each: int) -> None:
    """As deep as the API server takes it, beside as many as it takes."""
    _managed_fields(body, each)
    body["metadata"]["managedFields"].append({"manager": "m", "fieldsV1": "DEEP"})


def _environment(body: Body, each: int) -> None:
    variables = [{"name": f"VARIABLE_{n}", "value": f"{n}"} for n in range(3 * each)]
    body["spec"]["containers"][0]["env"] = variables


def _conditions(body: Body, each: int) -> None:
    body["status"] = {
        "conditions": [
            {"type": f"example.com/{n}", "status": "True", "message": "m" * 80} for n in range(each)
        ]
    }


def _resources(body: Body, each: int) -> None:
    """Each amount another one, and none a whole number."""
    amounts = {f"example.com/r{n}": f"{n}.5k" for n in range(2 * each)}
    body["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}


def _containers(body: Body, each: int) -> None:
    one = body["spec"]["containers"][0]
    body["spec"]["containers"] = [
        one | {"name": f"c{n}", "image": "i", "imagePullPolicy": "IfNotPresent"}
        for n in range(each)
    ]


def _read(change: Callable[[Body, int], None], size: Size) -> Iterator[Made]:
    body = a_pod("large", nodeName=size.node(0))
    change(body, size.each)
    told: list[Change[Pod]] = []
    feed: Feed[Pod] = Feed(decode_pod, told.append, "", Stats())
    deep = b'{"f:a":' * 9000 + b"{}" + b"}" * 9000
    for version in ("1", "2"):
        body["metadata"]["resourceVersion"] = version
        line = b'{"type":"MODIFIED","object":' + encoded(body) + b"}\n"
        yield partial(_event, line.replace(_DEEP.encode(), deep), feed, told)


def _event(line: bytes, feed: Feed[Pod], told: list[Change[Pod]]) -> Event:
    splitter = LineSplitter()
    for start in range(0, len(line), _PIECE):
        for whole in splitter.feed(line[start : start + _PIECE]):
            feed.apply(whole)
    change = told.pop()
    assert isinstance(change, Upserted), change
    return PodSeen(change.obj)


READING_SHAPES: dict[str, Shape] = {
    "read a pod of many annotations": partial(_read, _annotations),
    "read a pod of many managed fields": partial(_read, _managed_fields),
    "read a pod of deep managed fields": partial(_read, _deep_fields),
    "read a pod of many variables": partial(_read, _environment),
    "read a pod of many conditions": partial(_read, _conditions),
    "read a pod of many resources": partial(_read, _resources),
    "read a pod of many containers": partial(_read, _containers),
}
