"""Requests and replies of the extender's four verbs, as JSON.

Names are those of Go's fields, as kube-scheduler writes them; in small requests, in any case. Pods
and nodes inside are ordinary Kubernetes objects. Nodes in full come back as they were sent, byte
for byte, except for what is nested too deeply to be read. Whatever could take long is counted
before it is decoded.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw

from fairlead.engine.extender_queries import ExtenderFilterResult
from fairlead.kube.http.reply import UNREADABLE
from fairlead.kube.nesting import flattened
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass

T = TypeVar("T")
_SHOWN_CHARS = 120
#: Kubernetes is made for 5,000 nodes.
MOST_NODES = 50_000
#: JSON objects in nodes. 64 MiB of them as kubelets write them have 1.6 million.
MOST_OBJECTS = 2_000_000
#: Nodes with victims: kube-scheduler offers a tenth of its nodes, or a hundred.
MOST_OFFERED = 10_000
#: JSON objects in victims in full.
MOST_VICTIM_OBJECTS = 400_000
#: Victims by uid, and the nodes that they are on.
MOST_META_OBJECTS = 100_000
#: Up to this size, requests may write names in any case: unknown names cost a microsecond each.
_ANY_CASE_BYTES = 128 * 2**10


class BadExtenderArgs(FairleadError):
    """The request cannot be read."""


@dataclass(frozen=True, slots=True)
class ExtenderArgs:
    """One pod and its candidate nodes; `objects` has them in full if they were sent so."""

    pod: bytes
    names: list[str]
    objects: list[Raw] | None = None


@dataclass(frozen=True, slots=True)
class OfferedVictims:
    """The pods to evict on a node, by uid, and how many of them a budget protects."""

    uids: tuple[str, ...]
    violations: int = 0


@dataclass(frozen=True, slots=True)
class ExtenderPreemptionArgs:
    pod: bytes
    offered: Mapping[str, OfferedVictims]


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


class _Victim(msgspec.Struct, gc=False):
    """A pod in full, or one that is given by its UID."""

    upper: str = msgspec.field(name="UID", default="")
    lower: str = msgspec.field(name="uid", default="")
    metadata: _Meta | None = None

    @property
    def uid(self) -> str:
        return self.upper or self.lower or (self.metadata.uid if self.metadata else "")


class _Victims(msgspec.Struct, gc=False):
    upper: list[_Victim] | None = msgspec.field(name="Pods", default=None)
    lower: list[_Victim] | None = msgspec.field(name="pods", default=None)
    violations: int | None = msgspec.field(name="NumPDBViolations", default=None)


class _Fields(msgspec.Struct, rename="pascal"):
    """Of any request. Other fields are skipped, which costs no memory."""

    pod: Raw | msgspec.UnsetType = msgspec.UNSET
    nodes: Raw | msgspec.UnsetType = msgspec.UNSET
    node_names: Raw | msgspec.UnsetType = msgspec.UNSET
    node_name_to_victims: Raw | msgspec.UnsetType = msgspec.UNSET
    node_name_to_meta_victims: Raw | msgspec.UnsetType = msgspec.UNSET


def read_nodes(body: bytes) -> ExtenderArgs:
    """The request of filter and prioritize. Raises BadExtenderArgs with a sentence."""
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
    if len(objects) > MOST_NODES:
        raise BadExtenderArgs(f"Nodes is too large: it has more than {MOST_NODES} nodes")
    return ExtenderArgs(_pod(fields), [_name(each) for each in objects], objects)


def read_victims(body: bytes) -> ExtenderPreemptionArgs:
    """The request of preempt. Raises BadExtenderArgs with a sentence."""
    fields = _fields(body)
    # Which of the two is sent goes by nodeCacheCapable; the other is null.
    in_full, by_uid = "NodeNameToVictims", "NodeNameToMetaVictims"
    _limit(fields, in_full, b"{", MOST_VICTIM_OBJECTS)
    _limit(fields, by_uid, b"{", MOST_META_OBJECTS)
    found = {
        **(_read(fields, in_full, dict[str, _Victims]) or {}),
        **(_read(fields, by_uid, dict[str, _Victims]) or {}),
    }
    if len(found) > MOST_OFFERED:
        raise BadExtenderArgs(f"victims are offered on more than {MOST_OFFERED} nodes")
    return ExtenderPreemptionArgs(
        _pod(fields), {node: _offered(victims) for node, victims in found.items()}
    )


def _offered(victims: _Victims) -> OfferedVictims:
    pods = victims.upper or victims.lower or ()
    return OfferedVictims(tuple(pod.uid for pod in pods), victims.violations or 0)


def read_bind(body: bytes) -> ExtenderBindingArgs:
    """The request of bind. Raises BadExtenderArgs with a sentence."""
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


def _fields(body: bytes) -> dict[str, Raw]:
    """By their names in small letters."""
    if len(body) <= _ANY_CASE_BYTES:
        found = _decoded(body, dict[str, Raw], "the body")
        return {name.lower(): value for name, value in found.items()}
    known = _decoded(body, _Fields, "the body")
    every = zip(_Fields.__struct_fields__, msgspec.structs.astuple(known), strict=True)
    return {name.replace("_", ""): raw for name, raw in every if raw is not msgspec.UNSET}


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
        try:  # costs nothing for each node, unlike one more call
            return msgspec.json.decode(raw, type=kind)
        except RecursionError:
            return msgspec.json.decode(flattened(raw), type=kind)
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


def encode_victims(found: Mapping[str, OfferedVictims]) -> bytes:
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
