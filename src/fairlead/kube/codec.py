"""Kubernetes JSON to the model's words, cheaply.

Only the fields that placing needs are decoded. The parts that make up a pod's request are kept as
the bytes they came in, and pods whose bytes are equal share one `PodRequest`: the API server
writes equal objects equally, so a thousand replicas are understood once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
from msgspec import Raw

from fairlead.kube import dialects
from fairlead.kube.counted_words import read_counted
from fairlead.kube.dialects.fairlead import MEMORY_LIMIT, SHARE, VISIBLE
from fairlead.kube.gangs.api import PodWords
from fairlead.kube.gangs.registry import ALL, GangDialects
from fairlead.kube.kept_records import DEVICES_KEPT, read_kept
from fairlead.kube.limits import beyond_limits, within_limits
from fairlead.kube.pod_claims import read_pod_claims, serves_gpus
from fairlead.kube.pod_loads import read_load
from fairlead.kube.pod_selectors import OWNERS
from fairlead.kube.pod_volumes import PodVolume, read_volumes
from fairlead.kube.queues.fairlead import CHARGED
from fairlead.kube.queues.registry import ALL_QUEUES, QueueDialects
from fairlead.kube.requests import (
    ContainerParts,
    RequestParts,
    read_bound_asks,
    read_request,
    tensor_parallel_size,
)
from fairlead.kube.run_times import read_run_time
from fairlead.kube.spelling import misspelt
from fairlead.kube.start_times import read_start_times
from fairlead.kube.usage import ContainerReport, StatusParts, read_usage
from fairlead.model.behaviour import KUBERNETES_1_36, Behaviour
from fairlead.model.capacity_types import CAPACITY_TYPE
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.errors import FairleadError, QuantityError
from fairlead.model.gangs import Membership
from fairlead.model.gpus import Grant
from fairlead.model.kept_record import KeptRecord
from fairlead.model.loads import PodLoad
from fairlead.model.nodes import Image, Node
from fairlead.model.pods import Amounts, Pod, PodRequest, Taint
from fairlead.model.quantities import amount
from fairlead.model.rules import NODE_RULE
from fairlead.model.scheduling_map import MAP
from fairlead.model.sizes import remembered


class _Owner(msgspec.Struct, rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class Meta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _Container(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    resources: Raw = Raw()
    ports: Raw = Raw()
    env: Raw = Raw()
    args: Raw = Raw()
    restart_policy: str | None = None
    image: str = ""
    restart_policy_rules: Raw = Raw()


class _Gate(msgspec.Struct, rename="camel", gc=False):
    name: str = ""


class _SchedulingGroup(msgspec.Struct, rename="camel", gc=False):
    pod_group_name: str = ""


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
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduling_gates: list[_Gate] | None = None
    node_selector: Raw = Raw()
    tolerations: Raw = Raw()
    affinity: _Affinity | None = None
    overhead: Raw = Raw()
    resources: Raw = Raw()
    topology_spread_constraints: Raw = Raw()
    resource_claims: Raw = Raw()
    volumes: list[PodVolume] | None = None
    host_network: bool | None = None
    host_users: bool | None = None
    scheduling_group: _SchedulingGroup | None = None
    active_deadline_seconds: int | None = None


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
    resources: Raw = Raw()
    allocated_resources: Raw = Raw()
    resource_claim_statuses: Raw = Raw()
    extended_resource_claim_status: Raw = Raw()


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
    provider_id: str = msgspec.field(default="", name="providerID")


class _Address(msgspec.Struct, gc=False):
    type: str = ""
    address: str = ""


class _NodeStatus(msgspec.Struct, rename="camel", gc=False):
    addresses: list[_Address] | None = None
    allocatable: Raw = Raw()
    images: list[Raw] | None = None
    declared_features: list[str] | None = None
    conditions: list[_Condition] | None = None


class _Node(msgspec.Struct, rename="camel", gc=False):
    metadata: Meta
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class _RestartRule(msgspec.Struct, rename="camel", gc=False):
    action: str = ""


class _Image(msgspec.Struct, rename="camel", gc=False):
    names: list[str] | None = None
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Namespace:
    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    #: The key of the queue of its pods that name none.
    queue: str = ""

    @property
    def key(self) -> str:
        return self.name


class _Namespace(msgspec.Struct, gc=False):
    metadata: Meta


_namespaces = msgspec.json.Decoder(_Namespace)
_pods = msgspec.json.Decoder(_Pod)
_nodes = msgspec.json.Decoder(_Node)
_amounts = msgspec.json.Decoder(dict[str, str])
_restart_rules = msgspec.json.Decoder(list[_RestartRule] | None)
_images = msgspec.json.Decoder(_Image)

_BY_ANNOTATION, _BY_VALUE = f"['{VISIBLE}']".encode(), b'"CUDA_VISIBLE_DEVICES"'
_BY_MPS = f"['{MEMORY_LIMIT}']".encode()
_FINISHED = ("Succeeded", "Failed")
_NOTHING_TOLD = StatusParts(())
# A pod below it has room for all that a bind writes: its JSON is longer than its annotations.
_ROOMY_BYTES = 128 << 10
# Larger pods are rare, and understood each for itself: a few thousand of them would fill memory.
_LARGE_BYTES = 1 << 15


def decode_pod(
    raw: bytes | Raw,
    behaviour: Behaviour = KUBERNETES_1_36,
    gang_dialects: GangDialects = ALL,
    queue_dialects: QueueDialects = ALL_QUEUES,
) -> Pod:
    """A pod whose request cannot be understood comes back with a `problem`, not an exception.

    What a bound pod takes is counted as kube-scheduler of that behaviour counts it.
    """
    wire = _pods.decode(raw)
    meta, spec, status = wire.metadata, wire.spec, wire.status
    shared = len(raw) < _LARGE_BYTES
    parts = _request_parts(meta, spec)
    request, usage, scored, problem = _understand(wire, parts, behaviour, shared=shared)
    grant, edited = _grant(wire, parts, request, shared=shared) if spec.node_name else (None, "")
    load, odd = _load(meta) if meta.annotations and not spec.node_name else (None, "")
    gang: Membership | None = None
    if (
        spec.scheduling_group
        or spec.scheduler_name in gang_dialects.grouped
        or gang_dialects.concern(meta.labels, meta.annotations)
    ):
        gang, mixed = gang_dialects.read(_gang_words(meta, spec))
        odd = odd or ("" if spec.node_name else mixed)
    queue, unclear = queue_dialects.named(meta.labels, meta.annotations)
    if unclear and not spec.node_name:
        odd = odd or unclear
    counted, wrong = read_counted(meta.annotations, is_bound=bool(spec.node_name))
    odd = odd or wrong
    if len(raw) > _ROOMY_BYTES and not spec.node_name:
        problem = problem or dialects.too_large_with(meta.annotations or {}, request.gpu_request)
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    mounted = (volume.image.reference for volume in spec.volumes or () if volume.image)
    images = _images_of((*(c.image for c in containers), *mounted))
    return Pod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        scheduler=spec.scheduler_name,
        node=spec.node_name,
        priority=spec.priority or 0,
        priority_class=spec.priority_class_name,
        created=meta.creation_timestamp or "",
        preempts=spec.preemption_policy != "Never",
        nominated=status.nominated_node_name,
        kept=_kept(status) if status.nominated_node_name and not spec.node_name else None,
        started=status.start_time or "",
        evicted=meta.deletion_timestamp is not None and _was_evicted(status.conditions or ()),
        finished=status.phase in _FINISHED,
        failed=status.phase == "Failed",
        deleting=meta.deletion_timestamp is not None,
        gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        request=request,
        usage=usage,
        usage_scored=scored,
        owner=None if spec.node_name else _owner(meta),
        controller=_controller(meta) if grant or request.gpu_request else "",
        images=images,
        containers=len(images if behaviour.counts_image_volumes else containers),
        grant=grant,
        gpus_by_claim=bool(spec.node_name)
        and serves_gpus(bytes(status.extended_resource_claim_status)),
        edited=edited,
        misspelt="" if spec.node_name or not meta.annotations else misspelt(meta.annotations),
        uninjected=not spec.node_name
        and request.gpu_request is not None
        and _lacks(meta, containers),
        load=load,
        run_time=read_run_time(meta.labels, meta.annotations, spec.active_deadline_seconds),
        start=read_start_times(meta.annotations, meta.creation_timestamp or ""),
        gang=gang,
        queue=queue,
        # What it is counted for stays, whatever its labels say now.
        charged_queue=(meta.annotations or {}).get(CHARGED, "") if spec.node_name else "",
        counted=counted,
        problem=problem or odd,
        condition=_unscheduled(status.conditions or ()),
    )


def _lacks(meta: Meta, containers: Sequence[_Container]) -> bool:
    """Whether nothing put in which GPUs the pod gets; with a map that is a plain value."""
    mark = _BY_VALUE if MAP in (meta.annotations or {}) else _BY_ANNOTATION
    return not all(mark in bytes(container.env) for container in containers)


def _gang_words(meta: Meta, spec: _PodSpec) -> PodWords:
    group = spec.scheduling_group
    return PodWords(
        meta.namespace,
        meta.name,
        meta.labels or {},
        meta.annotations or {},
        group.pod_group_name if group else None,
        spec.scheduler_name,
        spec.priority or 0,
    )


def _load(meta: Meta) -> tuple[PodLoad | None, str]:
    try:
        return read_load(meta.annotations or {}), ""
    except FairleadError as error:
        return None, f"the pod is invalid: {error}"


def _grant(
    wire: _Pod, parts: RequestParts, request: PodRequest, *, shared: bool
) -> tuple[Grant | None, str]:
    """What a bound pod holds, and how its annotations differ from that, if they do."""
    meta, status = wire.metadata, wire.status
    said, labels = meta.annotations or {}, meta.labels or {}
    if not said and request.gpu_request is None:
        return None, ""
    asks = dialects.BoundAsks(request.gpu_request, request.gpu_request)
    if parts.gpu_words:
        asks = _shared_asks(parts) if shared else _bound_asks(parts)
    # A kubelet that took the pod on has called the device plugin.
    started = status.start_time is not None or status.phase == "Running"
    grant = dialects.read_grant(said, labels, asks, started=started)
    told = grant is not None and dialects.is_assigned(said)
    return grant, dialects.difference(grant, asks, said) if grant and told else ""


def _bound_asks(parts: RequestParts) -> dialects.BoundAsks:
    try:
        return read_bound_asks(parts)
    except (FairleadError, msgspec.DecodeError):
        return dialects.BoundAsks()  # its node is distrusted


def decode_node(raw: bytes | Raw) -> Node:
    wire = _nodes.decode(raw)
    meta, spec = wire.metadata, wire.spec
    allocatable = _allocatable(bytes(wire.status.allocatable))
    gpus, problem = dialects.read_inventory(_offering(wire, allocatable))
    return Node(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        allocatable=allocatable,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        taints=tuple(Taint(t.key, t.value, t.effect) for t in spec.taints or ()),
        unschedulable=spec.unschedulable,
        provider_id=spec.provider_id,
        images=tuple(_image(bytes(image)) for image in wire.status.images or ()),
        features=tuple(wire.status.declared_features or ()),
        inventory=gpus,
        gpu_problem=problem,
        reservable=dialects.reservable(_offering(wire, allocatable), gpus),
        address=_internal_address(wire.status.addresses or ()),
    )


def _internal_address(addresses: Sequence[_Address]) -> str:
    return next((each.address for each in addresses if each.type == "InternalIP"), "")


def _offering(wire: _Node, allocatable: Amounts) -> dialects.NodeDeclaration:
    meta = wire.metadata
    true = (c.type for c in wire.status.conditions or () if c.status == "True")
    return dialects.NodeDeclaration(
        meta.name, meta.labels or {}, meta.annotations or {}, dict(allocatable), frozenset(true)
    )


def decode_namespace(raw: bytes | Raw, queue_dialects: QueueDialects = ALL_QUEUES) -> Namespace:
    meta = _namespaces.decode(raw).metadata
    queue = queue_dialects.of_namespace(meta.labels, meta.annotations)
    return Namespace(meta.name, meta.uid, meta.resource_version, meta.labels or {}, queue)


def _owner(meta: Meta) -> tuple[str, str] | None:
    """The controller, if it is of a kind whose selector says which pods belong together."""
    for owner in meta.owner_references or ():
        if owner.controller:
            known = (owner.api_version, owner.kind) in OWNERS
            return (owner.kind, owner.name) if known else None
    return None


def _controller(meta: Meta) -> str:
    owners = (owner for owner in meta.owner_references or () if owner.controller)
    return next((f"{owner.kind}/{owner.name}" for owner in owners), "")


def _understand(
    wire: _Pod, parts: RequestParts, behaviour: Behaviour, *, shared: bool
) -> tuple[PodRequest, Amounts, tuple[int, int] | None, str]:
    spec = wire.spec
    try:
        request = _shared_request(parts) if shared else _heard_request(parts)
        if spec.resource_claims and bytes(spec.resource_claims) != b"null":
            request = replace(request, claims=_claims(wire))
        told = _status_parts(wire.status) if spec.node_name else None
        if told or parts.pod_level:
            largest_total = behaviour.takes_largest_total
            usage = _shared_usage if shared else read_usage
            taken = usage(parts, told or _NOTHING_TOLD, largest_total)
            return request, *taken, _beyond_us(spec, request, shared=shared)
    except (FairleadError, msgspec.DecodeError) as error:
        return PodRequest(), (), None, f"the pod is invalid: {error}"
    return request, request.resources, None, _beyond_us(spec, request, shared=shared)


def _claims(wire: _Pod) -> tuple[ClaimUse, ...]:
    meta, said = wire.metadata, bytes(wire.spec.resource_claims)
    statuses = bytes(wire.status.resource_claim_statuses)
    group = wire.spec.scheduling_group
    name = group.pod_group_name if group else None
    return read_pod_claims(meta.namespace, meta.name, meta.uid, said, statuses, name)


def _beyond_us(spec: _PodSpec, request: PodRequest, *, shared: bool) -> str:
    """What we cannot honour: better to wait with a reason than to be misplaced."""
    if spec.node_name:
        return ""
    return _shared_limits(request) if shared else beyond_limits(request)


def _request_parts(meta: Meta, spec: _PodSpec) -> RequestParts:
    affinity = spec.affinity or _NO_AFFINITY
    gpu_words = dialects.request_annotations(meta.annotations or {})
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
        features=_features(spec),
        volumes=read_volumes(meta.namespace, meta.name, meta.uid, spec.volumes),
        namespace=meta.namespace if about_pods else "",
        overhead=bytes(spec.overhead),
        pod_level=bytes(spec.resources),
        gpu_words=gpu_words,
        identity=_identity(meta, bound=bool(spec.node_name)),
        # An invalid request is refused, but a pod that holds GPUs keeps them.
        bound=bool(spec.node_name),
        as_one=_as_one(spec.containers or ()),
        mps_injected=bool(gpu_words) and _mps_injected(meta, spec),
        capacity=(meta.annotations or {}).get(CAPACITY_TYPE, ""),
        node_rule=(meta.annotations or {}).get(NODE_RULE, ""),
    )


def _mps_injected(meta: Meta, spec: _PodSpec) -> bool:
    """Whether the limits reach every container; a share is what can be limited."""
    if SHARE not in (meta.annotations or {}):
        return False
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    return all(_BY_MPS in bytes(container.env) for container in containers)


def _identity(meta: Meta, *, bound: bool) -> dialects.PodIdentity | None:
    if not dialects.has_scheduling_map(meta.annotations or {}):
        return None
    owners = (owner for owner in meta.owner_references or () if owner.controller)
    owner = next(((owner.kind, owner.name) for owner in owners), ("", ""))
    labels, annotations = meta.labels or {}, meta.annotations or {}
    return dialects.identity(meta.namespace, meta.name, owner, labels, annotations, bound)


def _as_one(containers: Sequence[_Container]) -> int:
    """The tensor-parallel size, if it says one; only pods with GPUs are looked at."""
    if not any(b"gpu" in bytes(each.resources) for each in containers):
        return 0
    return tensor_parallel_size(
        [bytes(each.env) for each in containers], bytes(containers[0].args)
    )  # fmt: skip


def _features(spec: _PodSpec) -> tuple[str, ...]:
    """The features that the node must declare, from what the pod uses (1.36)."""
    needed = []
    if any(
        _restarts_all(bytes(container.restart_policy_rules))
        for container in (*(spec.init_containers or ()), *(spec.containers or ()))
        if container.restart_policy_rules
    ):
        needed.append("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        needed.append("UserNamespacesHostNetworkSupport")
    return tuple(needed)


@remembered(1 << 20)
def _restarts_all(rules: bytes) -> bool:
    found = _restart_rules.decode(rules) or ()
    return any(rule.action == "RestartAllContainers" for rule in found)


@remembered(2 << 20)
def _images_of(images: tuple[str, ...]) -> tuple[str, ...]:
    """Of containers and image volumes, named as nodes name them."""
    return tuple(name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in images)


@remembered(4 << 20)
def _image(raw: bytes) -> Image:
    """Nodes share what they have in common: a cluster has few images, on many nodes."""
    found = _images.decode(raw)
    return Image(tuple(found.names or ()), found.size_bytes)


def _container(wire: _Container) -> ContainerParts:
    sidecar = wire.restart_policy == "Always"
    return ContainerParts(wire.name, bytes(wire.resources), bytes(wire.ports), sidecar)


def _status_parts(status: _PodStatus) -> StatusParts | None:
    """What the kubelet allocated, if the status shows it; it may differ from the spec."""
    told = StatusParts(
        containers=tuple(
            ContainerReport(one.name, bytes(one.resources), bytes(one.allocated_resources))
            for one in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
            if one.resources or one.allocated_resources
        ),
        infeasible=_resize_is_infeasible(status),
        resources=bytes(status.resources),
        allocated=bytes(status.allocated_resources),
    )
    return told if any(told) else None


def _resize_is_infeasible(status: _PodStatus) -> bool:
    return any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible"
        for condition in status.conditions or ()
    )


def _heard_request(parts: RequestParts) -> PodRequest:
    request = read_request(parts)
    return within_limits(request) if parts.bound else request


_shared_request = remembered(32 << 20)(_heard_request)
_shared_asks = remembered(8 << 20)(_bound_asks)
_shared_limits = remembered(16 << 20)(beyond_limits)
_shared_usage = remembered(16 << 20)(read_usage)


@remembered(4 << 20)
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


def _kept(status: _PodStatus) -> KeptRecord | None:
    said = (each.message for each in status.conditions or () if each.type == DEVICES_KEPT)
    return read_kept(next(said, ""))


def _unscheduled(conditions: list[_Condition] | tuple[()]) -> tuple[str, str]:
    for condition in conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.reason, condition.message
    return "", ""
