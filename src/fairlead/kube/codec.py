"""Kubernetes JSON to the model's words, cheaply.

Only the fields that placing needs are decoded. The parts that make up a pod's request are kept as
the bytes they came in, and pods whose bytes are equal share one `PodRequest`: the API server
writes equal objects equally, so a thousand replicas are understood once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec
from msgspec import Raw

from fairlead.kube.requests import (
    ContainerParts,
    RequestParts,
    StatusParts,
    read_request,
    read_usage,
)
from fairlead.model.errors import FairleadError, QuantityError
from fairlead.model.nodes import Node
from fairlead.model.pods import Amounts, Pod, PodRequest, Taint
from fairlead.model.quantities import amount


class Meta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Container(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    resources: Raw = Raw()
    ports: Raw = Raw()
    restart_policy: str | None = None


class _Gate(msgspec.Struct, rename="camel", gc=False):
    name: str = ""


class _Affinity(msgspec.Struct, rename="camel", gc=False):
    node_affinity: Raw = Raw()
    pod_affinity: Raw = Raw()
    pod_anti_affinity: Raw = Raw()


_NO_AFFINITY = _Affinity()


class _PodSpec(msgspec.Struct, rename="camel", gc=False):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    scheduling_gates: list[_Gate] | None = None
    node_selector: Raw = Raw()
    tolerations: Raw = Raw()
    affinity: _Affinity | None = None
    overhead: Raw = Raw()
    resources: Raw = Raw()
    topology_spread_constraints: Raw = Raw()
    resource_claims: Raw = Raw()


class _Condition(msgspec.Struct, rename="camel", gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _ContainerStatus(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    resources: Raw = Raw()
    allocated_resources: Raw = Raw()


class _PodStatus(msgspec.Struct, rename="camel", gc=False):
    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class _Pod(msgspec.Struct, rename="camel", gc=False):
    metadata: Meta
    spec: _PodSpec
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _Taint(msgspec.Struct, rename="camel", gc=False):
    key: str
    effect: str
    value: str = ""


class _NodeSpec(msgspec.Struct, rename="camel", gc=False):
    unschedulable: bool = False
    taints: list[_Taint] | None = None


class _NodeStatus(msgspec.Struct, rename="camel", gc=False):
    allocatable: Raw = Raw()


class _Node(msgspec.Struct, rename="camel", gc=False):
    metadata: Meta
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


@dataclass(frozen=True, slots=True)
class Namespace:
    name: str
    uid: str
    version: str
    labels: Mapping[str, str]

    @property
    def key(self) -> str:
        return self.name


class _Namespace(msgspec.Struct, gc=False):
    metadata: Meta


_namespaces = msgspec.json.Decoder(_Namespace)
_pods = msgspec.json.Decoder(_Pod)
_nodes = msgspec.json.Decoder(_Node)
_amounts = msgspec.json.Decoder(dict[str, str])

_FINISHED = ("Succeeded", "Failed")


def decode_pod(raw: bytes | Raw) -> Pod:
    """A pod whose request cannot be understood comes back with a `problem`, not an exception."""
    wire = _pods.decode(raw)
    meta, spec, status = wire.metadata, wire.spec, wire.status
    request, usage, problem = _understand(meta.namespace, spec, status)
    return Pod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        scheduler=spec.scheduler_name,
        node=spec.node_name,
        priority=spec.priority or 0,
        preempts=spec.preemption_policy != "Never",
        nominated=status.nominated_node_name,
        started=status.start_time or "",
        evicted=meta.deletion_timestamp is not None and _was_evicted(status.conditions or ()),
        finished=status.phase in _FINISHED,
        deleting=meta.deletion_timestamp is not None,
        gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        request=request,
        usage=usage,
        problem=problem,
        condition=_unscheduled(status.conditions or ()),
    )


def decode_node(raw: bytes | Raw) -> Node:
    wire = _nodes.decode(raw)
    meta, spec = wire.metadata, wire.spec
    return Node(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        allocatable=_allocatable(bytes(wire.status.allocatable)),
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        taints=tuple(Taint(t.key, t.value, t.effect) for t in spec.taints or ()),
        unschedulable=spec.unschedulable,
    )


def decode_namespace(raw: bytes | Raw) -> Namespace:
    meta = _namespaces.decode(raw).metadata
    return Namespace(meta.name, meta.uid, meta.resource_version, meta.labels or {})


def _understand(
    namespace: str, spec: _PodSpec, status: _PodStatus
) -> tuple[PodRequest, Amounts, str]:
    parts = _request_parts(namespace, spec)
    try:
        request = _shared_request(parts)
        if spec.node_name and (told := _status_parts(status)):
            return request, _shared_usage(parts, told), ""
    except (FairleadError, msgspec.DecodeError) as error:
        return PodRequest(), (), f"the pod cannot be understood: {error}"
    beyond = "" if spec.node_name else _beyond_us(spec)
    return request, request.resources, beyond


def _beyond_us(spec: _PodSpec) -> str:
    """Hard rules that we do not know yet: better to wait with a reason than to be misplaced."""
    if len(bytes(spec.resource_claims)) > len(b"null"):
        return "the pod asks for resource claims, which Fairlead cannot honour yet"
    return ""


def _request_parts(namespace: str, spec: _PodSpec) -> RequestParts:
    affinity = spec.affinity or _NO_AFFINITY
    about_pods = affinity.pod_affinity or affinity.pod_anti_affinity
    return RequestParts(
        containers=tuple(_container(c) for c in spec.containers or ()),
        init=tuple(_container(c) for c in spec.init_containers or ()),
        node_selector=bytes(spec.node_selector),
        tolerations=bytes(spec.tolerations),
        node_affinity=bytes(affinity.node_affinity),
        pod_affinity=bytes(affinity.pod_affinity),
        pod_anti_affinity=bytes(affinity.pod_anti_affinity),
        spread=bytes(spec.topology_spread_constraints),
        namespace=namespace if about_pods else "",
        overhead=bytes(spec.overhead),
        pod_level=bytes(spec.resources),
    )


def _container(wire: _Container) -> ContainerParts:
    sidecar = wire.restart_policy == "Always"
    return ContainerParts(wire.name, bytes(wire.resources), bytes(wire.ports), sidecar)


def _status_parts(status: _PodStatus) -> StatusParts | None:
    """What a kubelet says its containers were given, if it says so: it may differ from the spec."""
    told = tuple(
        (container.name, bytes(container.resources), bytes(container.allocated_resources))
        for container in (
            *(status.init_container_statuses or ()),
            *(status.container_statuses or ()),
        )
        if container.resources
    )
    return StatusParts(told, _resize_is_infeasible(status)) if told else None


def _resize_is_infeasible(status: _PodStatus) -> bool:
    return any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible"
        for condition in status.conditions or ()
    )


# The keys are bytes, so these hold what they hold: a few kilobytes an entry at most.
_shared_request = lru_cache(maxsize=8192)(read_request)
_shared_usage = lru_cache(maxsize=8192)(read_usage)


@lru_cache(maxsize=4096)
def _allocatable(raw: bytes) -> Amounts:
    found = _amounts.decode(raw) if raw and raw != b"null" else {}
    try:
        return tuple(sorted((name, amount(name, text)) for name, text in found.items()))
    except QuantityError as error:
        raise QuantityError(f"status.allocatable: {error}") from error


def _was_evicted(conditions: list[_Condition] | tuple[()]) -> bool:
    return any(
        (condition.type, condition.status, condition.reason)
        == ("DisruptionTarget", "True", "PreemptionByScheduler")
        for condition in conditions
    )


def _unscheduled(conditions: list[_Condition] | tuple[()]) -> tuple[str, str]:
    for condition in conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message
    return "", ""
