"""What a pod asks for, read from the JSON of the parts that say so."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from fairlead.kube import dialects
from fairlead.kube.capacity_terms import read_capacity_terms
from fairlead.kube.node_rules import read_node_rule
from fairlead.model import resources
from fairlead.model.errors import FairleadError
from fairlead.model.extended import ContainerAsk, may_have_class
from fairlead.model.gpus import GpuRequest
from fairlead.model.pods import (
    ANY_ADDRESS,
    HostPort,
    NodeTerm,
    PodRequest,
    PreferredTerm,
    Toleration,
)
from fairlead.model.quantities import amount
from fairlead.model.selectors import LabelSelector, PodTerm, Requirement, SpreadRule
from fairlead.model.volumes import PodVolumes

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HARD, _SOFT = "DoNotSchedule", "ScheduleAnyway"


class ContainerParts(NamedTuple):
    name: str
    resources: bytes
    ports: bytes = b""
    sidecar: bool = False


class RequestParts(NamedTuple):
    """The raw JSON of everything that makes up a request. Equal parts mean equal requests."""

    containers: tuple[ContainerParts, ...]
    init: tuple[ContainerParts, ...] = ()
    node_selector: bytes = b""
    tolerations: bytes = b""
    node_affinity: bytes = b""
    overhead: bytes = b""
    pod_level: bytes = b""
    pod_affinity: bytes = b""
    pod_anti_affinity: bytes = b""
    spread: bytes = b""
    features: tuple[str, ...] = ()
    volumes: PodVolumes | None = None
    #: Whose "own namespace" is meant; empty unless one of the three above asks about pods.
    namespace: str = ""
    #: Annotations that say something about GPUs.
    gpu_words: tuple[tuple[str, str], ...] = ()
    #: Which pod it is, if that matters to how it asks for GPUs.
    identity: dialects.PodIdentity | None = None
    #: It is on a node already: a scheduler has accepted it.
    bound: bool = False
    #: How many GPUs work as one, if it says so.
    as_one: int = 0
    #: All containers have the variables of an MPS client.
    mps_injected: bool = False
    #: Which capacity it accepts, as its annotation says.
    capacity: str = ""
    #: The rule of its author about its nodes.
    node_rule: str = ""


class _Resources(msgspec.Struct, rename="camel"):
    requests: dict[str, str] | None = None


_SIZE_VARIABLE, _SIZE_ARGUMENT = "TENSOR_PARALLEL_SIZE", "--tensor-parallel-size"
_VARIABLE_BYTES, _ARGUMENT_BYTES = _SIZE_VARIABLE.encode(), _SIZE_ARGUMENT.encode()


class _Variable(msgspec.Struct):
    name: str = ""
    value: str = ""


class _Port(msgspec.Struct, rename="camel"):
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default=ANY_ADDRESS, name="hostIP")


class _Toleration(msgspec.Struct, rename="camel"):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class RequirementWire(msgspec.Struct, rename="camel"):
    key: str
    operator: str
    values: list[str] | None = None


class TermWire(msgspec.Struct, rename="camel"):
    match_expressions: list[RequirementWire] | None = None
    match_fields: list[RequirementWire] | None = None


class NodeSelectorWire(msgspec.Struct, rename="camel"):
    node_selector_terms: list[TermWire] | None = None


class _PreferredTerm(msgspec.Struct, rename="camel"):
    preference: TermWire = msgspec.field(default_factory=TermWire)
    weight: int = 0


class _NodeAffinity(msgspec.Struct, rename="camel"):
    required: NodeSelectorWire | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: list[_PreferredTerm] | None = msgspec.field(default=None, name=_PREFERRED)


class LabelSelectorWire(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[RequirementWire] | None = None


class _PodTerm(msgspec.Struct, rename="camel"):
    topology_key: str
    label_selector: LabelSelectorWire | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelectorWire | None = None


class _WeightedPodTerm(msgspec.Struct, rename="camel"):
    pod_affinity_term: _PodTerm
    weight: int = 0


class _PodAffinity(msgspec.Struct, rename="camel"):
    required: list[_PodTerm] | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: list[_WeightedPodTerm] | None = msgspec.field(default=None, name=_PREFERRED)


class _Spread(msgspec.Struct, rename="camel"):
    topology_key: str
    max_skew: int
    when_unsatisfiable: str
    label_selector: LabelSelectorWire | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


def read_request(parts: RequestParts) -> PodRequest:
    pod_resources = read_pod_resources(parts)
    node_affinity = _json(parts.node_affinity, _NodeAffinity, _NodeAffinity())
    pod_affinity = _json(parts.pod_affinity, _PodAffinity, _PodAffinity())
    anti_affinity = _json(parts.pod_anti_affinity, _PodAffinity, _PodAffinity())
    return PodRequest(
        resources=resources.total(pod_resources),
        gpu_request=_together(
            _gpus(_asking(parts, pod_resources), bound=parts.bound), parts.as_one
        ),
        scored=resources.scored(pod_resources),
        node_selector=tuple(sorted(_json(parts.node_selector, dict[str, str], {}).items())),
        node_terms=_terms(node_affinity.required),
        tolerations=_tolerations(parts.tolerations),
        host_ports=_host_ports([*parts.containers, *(c for c in parts.init if c.sidecar)]),
        required_affinity=tuple(
            _pod_term(term, parts.namespace) for term in pod_affinity.required or ()
        ),
        anti_affinity=tuple(
            _pod_term(term, parts.namespace) for term in anti_affinity.required or ()
        ),
        spread=_spread(parts.spread, _HARD),
        preferred=_preferred(node_affinity.preferred),
        soft_spread=_spread(parts.spread, _SOFT),
        preferred_affinity=(
            *_preferred_pods(pod_affinity.preferred, +1, parts.namespace),
            *_preferred_pods(anti_affinity.preferred, -1, parts.namespace),
        ),
        features=parts.features,
        volumes=parts.volumes,
        capacity=read_capacity_terms(parts.capacity, bound=parts.bound) if parts.capacity else None,
        node_rule=read_node_rule(parts.node_rule) if parts.node_rule and not parts.bound else "",
        extended=_extended(parts, pod_resources),
    )


def _extended(
    parts: RequestParts, pod_resources: resources.PodResources
) -> tuple[ContainerAsk, ...]:  # fmt: skip
    """The containers that ask for extended resources."""
    asked = [*pod_resources.init, *pod_resources.containers]
    found = []
    for index, part in enumerate((*parts.init, *parts.containers)):
        names = sorted(asked[index].requests)
        mine = (
            (name, place, asked[index].requests[name])
            for place, name in enumerate(names)
            if may_have_class(name)
        )
        if extended := tuple(each for each in mine if each[2]):
            is_brief = index < len(parts.init) and not part.sidecar
            found.append(ContainerAsk(part.name, index, is_brief, extended))
    return tuple(found)


def _asking(parts: RequestParts, pod_resources: resources.PodResources) -> dialects.GpuSpec:
    init = [
        dialects.Part(part.name, need.requests, brief=not part.sidecar, init=True)
        for part, need in zip(parts.init, pod_resources.init, strict=True)
    ]
    running = [
        dialects.Part(part.name, need.requests)
        for part, need in zip(parts.containers, pod_resources.containers, strict=True)
    ]
    return dialects.GpuSpec(
        [*init, *running], dict(parts.gpu_words), parts.identity, parts.mps_injected
    )


def read_bound_asks(parts: RequestParts) -> dialects.BoundAsks:
    """What a bound pod asks of GPUs, with its annotations and without them."""
    return dialects.read_asks_of_bound(_asking(parts, read_pod_resources(parts)))


def _gpus(gpu_spec: dialects.GpuSpec, *, bound: bool) -> GpuRequest | None:
    return dialects.read_asks_of_bound(gpu_spec).now if bound else dialects.read_ask(gpu_spec)


def _together(ask: GpuRequest | None, as_one: int) -> GpuRequest | None:
    """Whole GPUs work as one unless the pod says in which groups."""
    if ask is None or not ask.whole or ask.gpus < 2:
        return ask
    return replace(ask, together=min(as_one or ask.gpus, ask.gpus))


def tensor_parallel_size(environments: Iterable[bytes], args: bytes) -> int:
    """As for model servers: a variable of any container, or an argument of the first one.

    0 where nothing is said, or no number: that is between the pod and its program.
    """
    for env in environments:
        if _VARIABLE_BYTES in env:
            for each in _json(env, list[_Variable], []):
                if each.name == _SIZE_VARIABLE and (size := _size(each.value)):
                    return size
    if _ARGUMENT_BYTES not in args:
        return 0
    # `--flag=4` or `--flag 4`: both are words in a row.
    words = [word for arg in _json(args, list[str], []) for word in arg.split("=", 1)]
    return next((_size(after) for word, after in pairwise(words) if word == _SIZE_ARGUMENT), 0)


def _size(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0


def _preferred_pods(
    found: list[_WeightedPodTerm] | None, sign: int, own_namespace: str
) -> Iterable[tuple[PodTerm, int]]:
    for weighted in found or ():
        yield _pod_term(weighted.pod_affinity_term, own_namespace), sign * weighted.weight


def _preferred(found: list[_PreferredTerm] | None) -> tuple[PreferredTerm, ...]:
    return tuple(PreferredTerm(p.weight, _term(p.preference)) for p in found or ())


def _pod_term(term: _PodTerm, own_namespace: str) -> PodTerm:
    namespaces = tuple(term.namespaces or ())
    if not namespaces and term.namespace_selector is None:
        namespaces = (own_namespace,)
    return PodTerm(
        term.topology_key,
        read_selector(term.label_selector),
        namespaces,
        read_selector(term.namespace_selector),
    )


def _spread(raw: bytes, unsatisfiable: str) -> tuple[SpreadRule, ...]:
    """The hard or the soft ones. The API server has put matchLabelKeys into the selectors."""
    return tuple(
        SpreadRule(
            rule.topology_key,
            rule.max_skew,
            read_selector(rule.label_selector),
            min_domains=rule.min_domains or 1,
            honours_affinity=rule.node_affinity_policy != "Ignore",
            honours_taints=rule.node_taints_policy == "Honor",
        )
        for rule in _json(raw, list[_Spread], [])
        if rule.when_unsatisfiable == unsatisfiable
    )


def decode_selector(raw: bytes, *, labels_only: bool = False) -> LabelSelector | None:
    """The selector of a Service, a workload or a budget; None for one that is absent."""
    if labels_only:
        labels = _json(raw, dict[str, str], None)
        return None if labels is None else read_selector(LabelSelectorWire(match_labels=labels))
    return read_selector(_json(raw, LabelSelectorWire, None))


def read_selector(found: LabelSelectorWire | None) -> LabelSelector | None:
    if found is None:
        return None
    equal = ((key, (value,)) for key, value in (found.match_labels or {}).items())
    lines = (Requirement(key, "In", values) for key, values in sorted(equal))
    return LabelSelector((*lines, *read_requirements(found.match_expressions)))


def read_pod_resources(parts: RequestParts) -> resources.PodResources:
    return resources.PodResources(
        containers=[resources.Container(requested(c.resources)) for c in parts.containers],
        init=[resources.Container(requested(c.resources), c.sidecar) for c in parts.init],
        overhead=amounts(parts.overhead),
        pod_level=requested(parts.pod_level),
    )


def requested(raw: bytes) -> dict[str, int]:
    """The requests in the JSON of a container's, or a pod's, resources."""
    found = _json(raw, _Resources, _Resources())
    return _amounts(found.requests or {})


def amounts(raw: bytes) -> dict[str, int]:
    """Amounts by resource name, from their JSON."""
    return _amounts(_json(raw, dict[str, str], {}))


def _amounts(texts: Mapping[str, str]) -> dict[str, int]:
    counted = {name: amount(name, text) for name, text in texts.items()}
    for name, need in counted.items():
        if need < 0:
            raise FairleadError(f"it requests {texts[name]} {name}; request zero or more")
    return counted


def _host_ports(containers: Iterable[ContainerParts]) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(port.host_port, port.protocol, port.host_ip or ANY_ADDRESS)
        for container in containers
        for port in _json(container.ports, list[_Port], [])
        if port.host_port > 0
    )


def _tolerations(raw: bytes) -> tuple[Toleration, ...]:
    found = _json(raw, list[_Toleration], [])
    return tuple(Toleration(t.key, t.operator, t.value, t.effect) for t in found)


def _terms(required: NodeSelectorWire | None) -> tuple[NodeTerm, ...] | None:
    if required is None:
        return None
    return read_terms(required)


def read_terms(found: NodeSelectorWire) -> tuple[NodeTerm, ...]:
    return tuple(_term(term) for term in found.node_selector_terms or ())


def _term(term: TermWire) -> NodeTerm:
    return NodeTerm(read_requirements(term.match_expressions), read_requirements(term.match_fields))


def read_requirements(found: list[RequirementWire] | None) -> tuple[Requirement, ...]:
    return tuple(Requirement(r.key, r.operator, tuple(r.values or ())) for r in found or ())


def _json(raw: bytes, kind: Any, absent: Any) -> Any:
    return absent if not raw or raw == b"null" else msgspec.json.decode(raw, type=kind)
