"""What a pod asks for, read from the JSON of the parts that say so."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from fairlead.model import resources
from fairlead.model.errors import FairleadError
from fairlead.model.pods import (
    ANY_ADDRESS,
    Amounts,
    HostPort,
    NodeTerm,
    PodRequest,
    Toleration,
)
from fairlead.model.quantities import amount
from fairlead.model.selectors import LabelSelector, PodTerm, Requirement, SpreadRule


class ContainerParts(NamedTuple):
    name: str
    resources: bytes
    ports: bytes = b""
    sidecar: bool = False


class StatusParts(NamedTuple):
    #: Name, status.resources and status.allocatedResources of the containers that report them.
    containers: tuple[tuple[str, bytes, bytes], ...]
    #: The kubelet will never grant what the spec asks for now, so the spec does not count.
    infeasible: bool = False


@dataclass(frozen=True, slots=True)
class RequestParts:
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
    #: Whose "own namespace" is meant; empty unless one of the three above asks about pods.
    namespace: str = ""


class _Resources(msgspec.Struct, rename="camel"):
    requests: dict[str, str] | None = None


class _Port(msgspec.Struct, rename="camel"):
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default=ANY_ADDRESS, name="hostIP")


class _Toleration(msgspec.Struct, rename="camel"):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class _Requirement(msgspec.Struct, rename="camel"):
    key: str
    operator: str
    values: list[str] | None = None


class _Term(msgspec.Struct, rename="camel"):
    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


class _Selector(msgspec.Struct, rename="camel"):
    node_selector_terms: list[_Term] | None = None


class _NodeAffinity(msgspec.Struct, rename="camel"):
    required: _Selector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _LabelSelector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Requirement] | None = None


class _PodTerm(msgspec.Struct, rename="camel"):
    topology_key: str
    label_selector: _LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: _LabelSelector | None = None


class _PodAffinity(msgspec.Struct, rename="camel"):
    required: list[_PodTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _Spread(msgspec.Struct, rename="camel"):
    topology_key: str
    max_skew: int
    when_unsatisfiable: str
    label_selector: _LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


def read_request(parts: RequestParts) -> PodRequest:
    needs = _needs(parts)
    return PodRequest(
        resources=resources.total(needs),
        scored=resources.scored(needs),
        node_selector=tuple(sorted(_json(parts.node_selector, dict[str, str], {}).items())),
        node_terms=_terms(parts.node_affinity),
        tolerations=_tolerations(parts.tolerations),
        host_ports=_host_ports([*parts.containers, *(c for c in parts.init if c.sidecar)]),
        near=_pod_terms(parts.pod_affinity, parts.namespace),
        apart=_pod_terms(parts.pod_anti_affinity, parts.namespace),
        spread=_spread(parts.spread),
    )


def _pod_terms(raw: bytes, own_namespace: str) -> tuple[PodTerm, ...]:
    found = _json(raw, _PodAffinity, _PodAffinity())
    return tuple(_pod_term(term, own_namespace) for term in found.required or ())


def _pod_term(term: _PodTerm, own_namespace: str) -> PodTerm:
    namespaces = tuple(term.namespaces or ())
    if not namespaces and term.namespace_selector is None:
        namespaces = (own_namespace,)
    return PodTerm(
        term.topology_key,
        _selector(term.label_selector),
        namespaces,
        _selector(term.namespace_selector),
    )


def _spread(raw: bytes) -> tuple[SpreadRule, ...]:
    """The hard rules; matchLabelKeys are part of the selector since the API server put them in."""
    return tuple(
        SpreadRule(
            rule.topology_key,
            rule.max_skew,
            _selector(rule.label_selector),
            min_domains=rule.min_domains or 1,
            honours_affinity=rule.node_affinity_policy != "Ignore",
            honours_taints=rule.node_taints_policy == "Honor",
        )
        for rule in _json(raw, list[_Spread], [])
        if rule.when_unsatisfiable == "DoNotSchedule"
    )


def read_selector(raw: bytes) -> LabelSelector | None:
    """A label selector by itself; None, which means nothing, where there is none."""
    return _selector(_json(raw, _LabelSelector | None, None))


def _selector(found: _LabelSelector | None) -> LabelSelector | None:
    if found is None:
        return None
    equal = ((key, (value,)) for key, value in (found.match_labels or {}).items())
    lines = (Requirement(key, "In", values) for key, values in sorted(equal))
    return LabelSelector((*lines, *_requirements(found.match_expressions)))


def read_usage(parts: RequestParts, told: StatusParts) -> Amounts:
    """What a bound pod takes: for each container the larger of what it asked for and was given."""
    needs = _needs(parts)
    given = {name: (actual, allocated) for name, actual, allocated in told.containers}
    sidecars = {
        part.name: given[part.name] for part in parts.init if part.sidecar and part.name in given
    }
    grown = resources.Needs(
        containers=_grown(parts.containers, needs.containers, given, told.infeasible),
        # Only sidecars are still there to be resized.
        init=_grown(parts.init, needs.init, sidecars, told.infeasible),
        overhead=needs.overhead,
        pod_level=needs.pod_level,
    )
    return resources.total(grown)


def _grown(
    parts: Sequence[ContainerParts],
    containers: Sequence[resources.Container],
    given: Mapping[str, tuple[bytes, bytes]],
    infeasible: bool,
) -> list[resources.Container]:
    grown = []
    for part, container in zip(parts, containers, strict=True):
        told = given.get(part.name)
        if told is None:
            grown.append(container)
            continue
        actual, allocated = _requests(told[0]), _amounts(_json(told[1], dict[str, str], {}))
        asked = {} if infeasible else container.requests
        grown.append(resources.Container(_largest(asked, actual, allocated), container.sidecar))
    return grown


def _largest(*options: Mapping[str, int]) -> dict[str, int]:
    names = {name for option in options for name in option}
    return {name: max(option.get(name, 0) for option in options) for name in names}


def _needs(parts: RequestParts) -> resources.Needs:
    return resources.Needs(
        containers=[resources.Container(_requests(c.resources)) for c in parts.containers],
        init=[resources.Container(_requests(c.resources), c.sidecar) for c in parts.init],
        overhead=_amounts(_json(parts.overhead, dict[str, str], {})),
        pod_level=_requests(parts.pod_level),
    )


def _requests(raw: bytes) -> dict[str, int]:
    found = _json(raw, _Resources, _Resources())
    return _amounts(found.requests or {})


def _amounts(texts: Mapping[str, str]) -> dict[str, int]:
    counted = {name: amount(name, text) for name, text in texts.items()}
    for name, need in counted.items():
        if need < 0:
            raise FairleadError(f"it asks for {texts[name]} {name}; ask for zero or more")
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


def _terms(raw: bytes) -> tuple[NodeTerm, ...] | None:
    affinity = _json(raw, _NodeAffinity, _NodeAffinity())
    required = affinity.required
    if required is None:
        return None
    return tuple(
        NodeTerm(_requirements(term.match_expressions), _requirements(term.match_fields))
        for term in required.node_selector_terms or ()
    )


def _requirements(found: list[_Requirement] | None) -> tuple[Requirement, ...]:
    return tuple(Requirement(r.key, r.operator, tuple(r.values or ())) for r in found or ())


def _json(raw: bytes, kind: Any, absent: Any) -> Any:
    return absent if not raw or raw == b"null" else msgspec.json.decode(raw, type=kind)
