"""Requests and replies of the extender's four verbs, as JSON.

Names are those of Go's fields, in whatever case: kube-scheduler reads and writes them so. Pods and
nodes inside are ordinary Kubernetes objects. Nodes in full come back as they were sent, byte for
byte.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec import Raw

from fairlead.engine.extender_queries import ExtenderFilterResult
from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.errors import FairleadError

T = TypeVar("T")
_SHOWN_CHARS = 120
#: Kubernetes is made for 5,000 nodes.
MOST_NODES = 50_000
#: JSON objects in nodes or victims. 64 MiB of nodes as kubelets write them have 1.6 million.
MOST_OBJECTS = 2_000_000


class BadExtenderArgs(FairleadError):
    """The request cannot be read."""


@dataclass(frozen=True, slots=True)
class ExtenderArgs:
    """One pod and its candidate nodes; `objects` has them in full if they were sent so."""

    pod: bytes
    names: list[str]
    objects: list[Raw] | None = None


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods to evict on a node, by uid, and how many of them a budget protects."""

    uids: tuple[str, ...]
    violations: int = 0


@dataclass(frozen=True, slots=True)
class ExtenderPreemptionArgs:
    pod: bytes
    offered: Mapping[str, Victims]


class ExtenderBindingArgs(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    node: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


# -- requests ------------------------------------------------------------------------------------


class _Meta(msgspec.Struct, gc=False):
    name: str = ""
    uid: str = ""


class _Object(msgspec.Struct, gc=False):
    metadata: _Meta


class _NodeList(msgspec.Struct):
    items: list[Raw] | None = None


def read_nodes(body: bytes) -> ExtenderArgs:
    """The request of filter and prioritize. Raises BadQuestion with a sentence."""
    fields = _fields(body)
    _limit(fields, "NodeNames", b'"', 2 * MOST_NODES)
    _limit(fields, "Nodes", b"{", MOST_OBJECTS)
    names = _read(fields, "NodeNames", list[str])
    if names is not None:
        return ExtenderArgs(_pod(fields), names)
    listed = _read(fields, "Nodes", _NodeList)
    if listed is None:
        raise BadExtenderArgs("the request has neither NodeNames nor Nodes; send one of them")
    objects = listed.items or []
    return ExtenderArgs(_pod(fields), [_name(each) for each in objects], objects)


def read_victims(body: bytes) -> ExtenderPreemptionArgs:
    """The request of preempt. Raises BadQuestion with a sentence."""
    fields = _fields(body)
    # Which of the two is sent goes by nodeCacheCapable; the other is null.
    for key in ("NodeNameToVictims", "NodeNameToMetaVictims"):
        _limit(fields, key, b"{", MOST_OBJECTS)
    found = {
        **(_read(fields, "NodeNameToVictims", dict[str, Raw]) or {}),
        **(_read(fields, "NodeNameToMetaVictims", dict[str, Raw]) or {}),
    }
    return ExtenderPreemptionArgs(
        _pod(fields), {node: _victims(node, raw) for node, raw in found.items()}
    )


def read_bind(body: bytes) -> ExtenderBindingArgs:
    """The request of bind. Raises BadQuestion with a sentence."""
    fields = _fields(body)
    keys = ("PodNamespace", "PodName", "PodUID", "Node")
    said = [_read(fields, key, str) or "" for key in keys]
    missing = [key for key, value in zip(keys, said, strict=True) if not value]
    if missing:
        raise BadExtenderArgs(f"{', '.join(missing)} must not be empty")
    return ExtenderBindingArgs(*said)


def _limit(fields: Mapping[str, Raw], key: str, mark: bytes, most: int) -> None:
    """Counts bytes before anything is decoded."""
    if bytes(fields.get(key.lower(), b"")).count(mark) > most:
        raise BadExtenderArgs(f"{key} is too large: it has more than {most} {mark.decode()}")


def _victims(node: str, raw: Raw) -> Victims:
    fields = _fields(bytes(raw), f"what is said of {node}")
    pods = _read(fields, "Pods", list[Raw]) or []
    violations = _read(fields, "NumPDBViolations", int) or 0
    return Victims(tuple(map(_uid, pods)), violations)


def _uid(raw: Raw) -> str:
    """Of a pod in full, or of one that is given by its UID."""
    fields = _fields(bytes(raw), "a victim")
    if "uid" in fields:
        return _read(fields, "UID", str) or ""
    return _decoded(bytes(raw), _Object, "a victim").metadata.uid


def _fields(body: bytes, what: str = "the body") -> dict[str, Raw]:
    found = _decoded(body, dict[str, Raw], what)
    return {name.lower(): value for name, value in found.items()}


def _pod(fields: Mapping[str, Raw]) -> bytes:
    raw = bytes(fields.get("pod", b"null"))
    if raw == b"null":
        raise BadExtenderArgs("the request has no Pod")
    return raw


def _name(node: Raw) -> str:
    return _decoded(bytes(node), _Object, "one of Nodes").metadata.name


def _read(fields: Mapping[str, Raw], key: str, kind: type[T]) -> T | None:
    raw = bytes(fields.get(key.lower(), b"null"))
    return None if raw == b"null" else _decoded(raw, kind, key)


def _decoded(raw: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except UNREADABLE as error:
        raise BadExtenderArgs(f"{what} cannot be read: {str(error)[:_SHOWN_CHARS]}") from error


# -- replies -------------------------------------------------------------------------------------

_encode = msgspec.json.Encoder().encode


def encode_filter_result(asked: ExtenderArgs, result: ExtenderFilterResult) -> bytes:
    """The reply of filter: names for names, nodes in full for nodes in full."""
    answer: dict[str, object] = {
        "Nodes": None,
        "NodeNames": result.passed,
        "FailedNodes": result.refused,
        "FailedAndUnresolvableNodes": result.unresolvable,
        "Error": "",
    }
    if asked.objects is not None:
        by_name = dict(zip(asked.names, asked.objects, strict=True))
        items = [by_name[name] for name in result.passed]
        answer |= {"Nodes": {"metadata": {}, "items": items}, "NodeNames": None}
    return _encode(answer)


def encode_priorities(nodes: Sequence[str], scores: Sequence[int]) -> bytes:
    """The reply of prioritize."""
    pairs = zip(nodes, scores, strict=True)
    return _encode([{"Host": node, "Score": score} for node, score in pairs])


def encode_victims(found: Mapping[str, Victims]) -> bytes:
    """The reply of preempt."""
    victims_by_node = {
        node: {
            "Pods": [{"UID": uid} for uid in victims.uids],
            "NumPDBViolations": victims.violations,
        }
        for node, victims in found.items()
    }
    return _encode({"NodeNameToMetaVictims": victims_by_node})


def encode_binding_result(problem: str) -> bytes:
    """The reply of bind; without a problem, the pod is bound."""
    return _encode({"Error": problem})
