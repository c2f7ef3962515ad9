"""What a pod requests, and what it takes of its node: equal bytes are understood once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from fairlead.kube import dialects
from fairlead.kube.codec.meta import Meta
from fairlead.kube.codec.pod_status import status_parts
from fairlead.kube.codec.pod_wire import ContainerWire, PodAffinityWire, PodSpecWire, PodWire
from fairlead.kube.dialects.fairlead import MEMORY_LIMIT, SHARE
from fairlead.kube.limits import beyond_limits, within_limits
from fairlead.kube.pod_claims import read_pod_claims
from fairlead.kube.pod_volumes import read_volumes
from fairlead.kube.requests import (
    ContainerParts,
    RequestParts,
    read_request,
    tensor_parallel_size,
)
from fairlead.kube.usage import StatusParts, read_usage
from fairlead.model.behaviour import Behaviour
from fairlead.model.capacity_types import CAPACITY_TYPE
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.errors import FairleadError
from fairlead.model.pods import Amounts, PodRequest
from fairlead.model.rules import NODE_RULE
from fairlead.model.sizes import remembered

_NO_AFFINITY = PodAffinityWire()
_NO_STATUS = StatusParts(())
_NO_WORDS: Mapping[str, str] = {}
_BY_MPS = f"['{MEMORY_LIMIT}']".encode()


class _RestartRule(msgspec.Struct, rename="camel", gc=False):
    action: str = ""


_restart_rules = msgspec.json.Decoder(list[_RestartRule] | None)


def read_parts(
    wire: PodWire, parts: RequestParts, behaviour: Behaviour, *, shared: bool
) -> tuple[PodRequest, Amounts, tuple[int, int] | None, str]:
    spec = wire.spec
    try:
        request = _shared_request(parts) if shared else _heard_request(parts)
        if spec.resource_claims and bytes(spec.resource_claims) != b"null":
            request = replace(request, claims=_claims(wire))
        told = status_parts(wire.status) if spec.node_name else None
        if told or parts.pod_level:
            largest_total = behaviour.takes_largest_total
            usage = _shared_usage if shared else read_usage
            taken = usage(parts, told or _NO_STATUS, largest_total)
            return request, *taken, _beyond_us(spec, request, shared=shared)
    except (FairleadError, msgspec.DecodeError) as error:
        return PodRequest(), (), None, f"the pod is invalid: {error}"
    return request, request.resources, None, _beyond_us(spec, request, shared=shared)


def _claims(wire: PodWire) -> tuple[ClaimUse, ...]:
    meta, said = wire.metadata, bytes(wire.spec.resource_claims)
    statuses = bytes(wire.status.resource_claim_statuses)
    group = wire.spec.scheduling_group
    name = group.pod_group_name if group else None
    return read_pod_claims(meta.namespace, meta.name, meta.uid, said, statuses, name)


def _beyond_us(spec: PodSpecWire, request: PodRequest, *, shared: bool) -> str:
    """What we cannot honour: better to wait with a reason than to be misplaced."""
    if spec.node_name:
        return ""
    return _shared_limits(request) if shared else beyond_limits(request)


def request_parts(meta: Meta, spec: PodSpecWire) -> RequestParts:
    affinity, annotations = spec.affinity or _NO_AFFINITY, meta.annotations or _NO_WORDS
    gpu_words = dialects.request_annotations(annotations) if annotations else ()
    about_pods = affinity.pod_affinity or affinity.pod_anti_affinity
    return RequestParts(
        containers=tuple(map(_container, spec.containers or ())),
        init=tuple(map(_container, spec.init_containers or ())),
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
        identity=_identity(meta, bound=bool(spec.node_name)) if annotations else None,
        # An invalid request is refused, but a pod that holds GPUs keeps them.
        bound=bool(spec.node_name),
        as_one=_as_one(spec.containers or ()),
        mps_injected=bool(gpu_words) and _mps_injected(meta, spec),
        capacity=annotations.get(CAPACITY_TYPE, ""),
        node_rule=annotations.get(NODE_RULE, ""),
    )


def _mps_injected(meta: Meta, spec: PodSpecWire) -> bool:
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


def _as_one(containers: Sequence[ContainerWire]) -> int:
    """The tensor-parallel size, if it says one; only pods with GPUs are looked at."""
    for container in containers:
        if b"gpu" in bytes(container.resources):
            environments = [bytes(each.env) for each in containers if each.env]
            return tensor_parallel_size(environments, bytes(containers[0].args))
    return 0


def _features(spec: PodSpecWire) -> tuple[str, ...]:
    """The features that the node must declare, from what the pod uses (1.36)."""
    needed: tuple[str, ...] = ()
    for container in (*(spec.init_containers or ()), *(spec.containers or ())):
        rules = container.restart_policy_rules
        if rules and _restarts_all(bytes(rules)):
            needed = ("RestartAllContainersOnContainerExits",)
            break
    if spec.host_network and spec.host_users is False:
        needed = (*needed, "UserNamespacesHostNetworkSupport")
    return needed


@remembered(1 << 20)
def _restarts_all(rules: bytes) -> bool:
    found = _restart_rules.decode(rules) or ()
    return any(rule.action == "RestartAllContainers" for rule in found)


def _container(wire: ContainerWire) -> ContainerParts:
    sidecar = wire.restart_policy == "Always"
    return ContainerParts(wire.name, bytes(wire.resources), bytes(wire.ports), sidecar)


def _heard_request(parts: RequestParts) -> PodRequest:
    request = read_request(parts)
    return within_limits(request) if parts.bound else request


_shared_request = remembered(32 << 20)(_heard_request)
_shared_limits = remembered(16 << 20)(beyond_limits)
_shared_usage = remembered(16 << 20)(read_usage)
