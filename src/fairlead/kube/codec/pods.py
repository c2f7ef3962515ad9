"""A pod from its JSON."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from fairlead.kube import dialects
from fairlead.kube.codec import pod_wire
from fairlead.kube.codec.meta import Meta
from fairlead.kube.codec.pod_requests import read_parts, request_parts
from fairlead.kube.codec.pod_status import kept_devices, unscheduled_condition, was_evicted
from fairlead.kube.codec.pod_wire import ContainerWire, PodSpecWire, PodWire
from fairlead.kube.counted_words import read_counted
from fairlead.kube.dialects.fairlead import VISIBLE
from fairlead.kube.gangs.api import PodWords
from fairlead.kube.gangs.registry import ALL, GangDialects
from fairlead.kube.pod_claims import serves_gpus
from fairlead.kube.pod_loads import read_load
from fairlead.kube.pod_selectors import OWNERS
from fairlead.kube.queues.fairlead import CHARGED
from fairlead.kube.queues.registry import ALL_QUEUES, QueueDialects
from fairlead.kube.requests import RequestParts, read_bound_asks
from fairlead.kube.run_times import read_run_time
from fairlead.kube.spelling import misspelt
from fairlead.kube.start_times import read_start_times
from fairlead.model.behaviour import KUBERNETES_1_36, Behaviour
from fairlead.model.errors import FairleadError
from fairlead.model.gangs import Membership
from fairlead.model.gpus import Grant
from fairlead.model.loads import PodLoad
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.scheduling_map import MAP
from fairlead.model.sizes import remembered

_BY_ANNOTATION, _BY_VALUE = f"['{VISIBLE}']".encode(), b'"CUDA_VISIBLE_DEVICES"'
_FINISHED = ("Succeeded", "Failed")
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
    wire = pod_wire.decode(raw)
    meta, spec, status = wire.metadata, wire.spec, wire.status
    shared = len(raw) < _LARGE_BYTES
    parts = request_parts(meta, spec)
    request, usage, scored, problem = read_parts(wire, parts, behaviour, shared=shared)
    grant, edited = _grant(wire, parts, request, shared=shared) if spec.node_name else (None, "")
    load, odd = _load(meta) if meta.annotations and not spec.node_name else (None, "")
    gang, mixed = _gang(meta, spec, gang_dialects)
    queue, unclear = queue_dialects.named(meta.labels, meta.annotations)
    if not spec.node_name:
        odd = odd or mixed or unclear
    counted, wrong = read_counted(meta.annotations, is_bound=bool(spec.node_name))
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
        kept=kept_devices(status) if status.nominated_node_name and not spec.node_name else None,
        started=status.start_time or "",
        evicted=meta.deletion_timestamp is not None and was_evicted(status.conditions or ()),
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
        problem=problem or odd or wrong,
        condition=unscheduled_condition(status.conditions or ()),
    )


def _lacks(meta: Meta, containers: Sequence[ContainerWire]) -> bool:
    """Whether nothing put in which GPUs the pod gets; with a map that is a plain value."""
    mark = _BY_VALUE if MAP in (meta.annotations or {}) else _BY_ANNOTATION
    return not all(mark in bytes(container.env) for container in containers)


def _gang(meta: Meta, spec: PodSpecWire, known: GangDialects) -> tuple[Membership | None, str]:
    """The gang of the pod, if it names one, and what is wrong with how it does."""
    group = spec.scheduling_group
    if not (
        group
        or spec.scheduler_name in known.grouped
        or known.concern(meta.labels, meta.annotations)
    ):
        return None, ""
    return known.read(
        PodWords(
            meta.namespace,
            meta.name,
            meta.labels or {},
            meta.annotations or {},
            group.pod_group_name if group else None,
            spec.scheduler_name,
            spec.priority or 0,
        )
    )


def _load(meta: Meta) -> tuple[PodLoad | None, str]:
    try:
        return read_load(meta.annotations or {}), ""
    except FairleadError as error:
        return None, f"the pod is invalid: {error}"


def _grant(
    wire: PodWire, parts: RequestParts, request: PodRequest, *, shared: bool
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


_shared_asks = remembered(8 << 20)(_bound_asks)


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


@remembered(2 << 20)
def _images_of(images: tuple[str, ...]) -> tuple[str, ...]:
    """Of containers and image volumes, named as nodes name them."""
    return tuple(name if name.rfind(":") > name.rfind("/") else f"{name}:latest" for name in images)
