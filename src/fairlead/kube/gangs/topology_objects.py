"""Objects that describe the topology of the cluster: Topology of KAI and of Kueue, and HyperNode.

The first two list node labels, the widest level first. A HyperNode is a set of nodes, by name,
pattern or label, with a tier; labels of nodes do not show it.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from fairlead.base.names import label_name_problems
from fairlead.kube.gangs.api import GangKind, ObjectWire
from fairlead.kube.http.reply import UNREADABLE
from fairlead.model.errors import FairleadError
from fairlead.model.hyper_nodes import HyperNode
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.name_patterns import NamePattern, PatternError
from fairlead.model.selectors import LabelSelector, Requirement
from fairlead.model.topology import HOSTNAME, MOST_LEVELS, Topology, TopologyLevel

#: Members of one HyperNode, and those of them that are patterns or label selectors.
MOST_NODES = 20_000
MOST_PATTERNS = 16
MOST_SELECTORS = 16
#: Lines of all label selectors of one HyperNode.
MOST_LINES = 64
_HIGHEST_TIER = 1_000_000
_REMEDY = "install its CustomResourceDefinition"

VOLCANO = "volcano"
#: By the first part of the keys of their objects.
KINDS: Mapping[str, GangKind] = {
    "kai": GangKind("kai.scheduler", ("v1alpha1",), "topologies", "Topology", _REMEDY),
    "kueue": GangKind(
        "kueue.x-k8s.io", ("v1beta2", "v1beta1", "v1alpha1"), "topologies", "Topology", _REMEDY
    ),
    VOLCANO: GangKind("topology.volcano.sh", ("v1alpha1",), "hypernodes", "HyperNode", _REMEDY),
}


@dataclass(frozen=True, slots=True)
class TopologyObject:
    """One of them, as it was last seen. One that makes no sense says so and describes nothing."""

    name: str
    uid: str
    version: str
    described: Topology | HyperNode | None
    problem: str = ""

    @property
    def key(self) -> str:
        return self.name


class _Level(msgspec.Struct, rename="camel", gc=False):
    node_label: str = ""


class _Levels(msgspec.Struct, rename="camel", gc=False):
    levels: list[_Level] | None = None


class _Exact(msgspec.Struct, gc=False):
    name: str = ""


class _Pattern(msgspec.Struct, gc=False):
    pattern: str = ""


class _Line(msgspec.Struct, gc=False):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Labels(msgspec.Struct, rename="camel", gc=False):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Line] | None = None


class _Selector(msgspec.Struct, rename="camel", gc=False):
    exact_match: _Exact | None = None
    regex_match: _Pattern | None = None
    label_match: _Labels | None = None


class _Member(msgspec.Struct, gc=False):
    type: str = ""
    selector: _Selector | None = None


class _HyperNode(msgspec.Struct, rename="camel", gc=False):
    tier: int = 0
    tier_name: str = ""
    members: list[_Member] | None = None


_objects = msgspec.json.Decoder(ObjectWire)
_levels = msgspec.json.Decoder(_Levels)
_hyper_nodes = msgspec.json.Decoder(_HyperNode)


def decode_topology(dialect: str, raw: bytes | msgspec.Raw) -> TopologyObject:
    """An object of the kind of this dialect."""
    wire = _objects.decode(raw)
    meta, spec = wire.metadata, bytes(wire.spec)
    read: Callable[[str, bytes], Topology | HyperNode]
    read = _read_hyper_node if dialect == VOLCANO else _read_levels
    try:
        return TopologyObject(meta.name, meta.uid, meta.resource_version, read(meta.name, spec))
    except (FairleadError, *UNREADABLE) as error:
        return TopologyObject(meta.name, meta.uid, meta.resource_version, None, str(error))


def _read_levels(_: str, spec: bytes) -> Topology:
    labels = [level.node_label for level in _levels.decode(spec).levels or ()]
    if not labels or len(labels) > MOST_LEVELS:
        raise FairleadError(f"spec.levels has {len(labels)} levels; write 1 to {MOST_LEVELS}")
    for label in labels:
        if problems := label_name_problems(label[:512]):
            raise FairleadError(f"spec.levels has {label[:64]!r}, which is no label: {problems[0]}")
    if len(set(labels)) < len(labels):
        raise FairleadError("spec.levels has one label twice; write each level once")
    if HOSTNAME in labels[:-1]:
        raise FairleadError(f"spec.levels has {HOSTNAME}, which must be the last level")
    # Single nodes are always the last level.
    return Topology(tuple(TopologyLevel(label) for label in labels if label != HOSTNAME))


def _read_hyper_node(name: str, spec: bytes) -> HyperNode:
    wire = _hyper_nodes.decode(spec)
    members = wire.members or []
    if not 0 <= wire.tier <= _HIGHEST_TIER:
        raise FairleadError(f"spec.tier is {wire.tier}; write 0 to {_HIGHEST_TIER}")
    _limit("spec.members", len(members), MOST_NODES)
    nodes = [each.selector or _Selector() for each in members if each.type == "Node"]
    inner = [each.selector or _Selector() for each in members if each.type == "HyperNode"]
    if len(nodes) + len(inner) < len(members):
        raise FairleadError("a member has another type than Node or HyperNode")
    if any(each.exact_match is None for each in inner):
        raise FairleadError("a member of type HyperNode has no exactMatch; write its name there")
    return HyperNode(
        name,
        wire.tier,
        wire.tier_name[:253],
        _names(nodes),
        _patterns(nodes),
        _selectors(nodes),
        tuple(sorted(_names(inner))),
    )


def _names(found: Iterable[_Selector]) -> frozenset[str]:
    named = (each.exact_match.name for each in found if each.exact_match)
    return frozenset(name for name in named if name)


def _patterns(found: Iterable[_Selector]) -> tuple[NamePattern, ...]:
    texts = [each.regex_match.pattern for each in found if each.regex_match]
    _limit("regexMatch", len(texts), MOST_PATTERNS)
    try:
        return tuple(map(NamePattern, texts))
    except PatternError as error:
        raise FairleadError(f"a regexMatch.pattern cannot be used: {error}") from error


def _selectors(found: Iterable[_Selector]) -> tuple[LabelSelector, ...]:
    wires = [each.label_match for each in found if each.label_match]
    _limit("labelMatch", len(wires), MOST_SELECTORS)
    count = sum(len(each.match_labels or ()) + len(each.match_expressions or ()) for each in wires)
    _limit("the lines of labelMatch", count, MOST_LINES)
    lines = (tuple(_lines(wire)) for wire in wires)
    return tuple(LabelSelector(each) for each in lines if each)


def _lines(wire: _Labels) -> Iterable[Requirement]:
    labels, lines = wire.match_labels or {}, wire.match_expressions or []
    for key, value in sorted(labels.items()):
        yield Requirement(key, "In", (value,))
    for line in lines:
        yield Requirement(line.key, line.operator, tuple(line.values or ()))


def _limit(what: str, count: int, most: int) -> None:
    if count > most:
        raise FairleadError(f"it has {count} of {what}; the limit is {most}")
