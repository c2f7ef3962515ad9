"""The pods of a node, and the GPUs that each was assigned."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from fairlead.apps.agent.picked import by_name
from fairlead.apps.agent.unassigned_processes import AssignedGpus, NodePod, PodsByUid
from fairlead.model.gpus import FAIRLEAD, GpuUse, Grant, instance_id
from fairlead.model.pods import Pod
from fairlead.telemetry.nvml.facts import GpuFacts

#: A static pod's processes go by the hash of its manifest, and not by the uid of its mirror.
_HASH = "kubernetes.io/config.hash"
_MIRROR = "kubernetes.io/config.mirror"
_HASH_FORM = re.compile(r"[0-9a-f]{32}")
_NOTHING: AssignedGpus = {}


def pods_by_uid(
    pods: Iterable[Pod],
    gpus: Iterable[GpuFacts],
    picked: Mapping[str, frozenset[str]] | None = None,
) -> PodsByUid:
    """By each uid that a pod's processes may go by; `picked` is what device plugins chose, by uid.

    The API server chooses the uid of a pod, so one pod has it. The hash of a static pod is an
    annotation of its mirror, so several pods may claim it.
    """
    names = by_name(gpus)
    found: dict[str, list[NodePod]] = defaultdict(list)
    for pod in pods:
        assigned = assigned_gpus(pod, names)
        if assigned is None and picked:
            assigned = _picked(picked.get(pod.uid), names)
        shown = NodePod(pod.namespace, pod.name, pod.uid, pod.version, assigned, over=pod.finished)
        found[pod.uid].append(shown)
        if claimed := _static_hash(pod):
            found[claimed].append(shown)
    return {uid: tuple(claims) for uid, claims in found.items()}


def _picked(devices: frozenset[str] | None, gpus: Mapping[str, GpuFacts]) -> AssignedGpus | None:
    """None where the kubelet lists no devices of the pod, or one that is not a GPU, as a slice."""
    if not devices or not devices <= gpus.keys():
        return None
    return {gpus[device].uuid: None for device in devices}


def _static_hash(pod: Pod) -> str:
    """What the processes of a static pod go by, if this is the mirror of one; else empty.

    Only a pod that was created as a mirror, with its node, can be one: the API server lets no one
    add that annotation later. It does let users create such a pod, so this proves nothing. A hash
    never has the form of a uid, so no other pod can be claimed by it.
    """
    claimed = pod.annotations.get(_HASH, "")
    mirror = pod.annotations.get(_MIRROR) == claimed and _HASH_FORM.fullmatch(claimed)
    return claimed if mirror else ""


def assigned_gpus(pod: Pod, gpus: Mapping[str, GpuFacts]) -> AssignedGpus | None:
    """None where a device plugin chose the GPUs, or they are named in a way we do not know."""
    if pod.problem or (pod.grant is None and pod.request.gpu_request is not None):
        return None
    if pod.grant is None:
        return _NOTHING
    return _assigned(pod.grant, gpus)


def _assigned(grant: Grant, gpus: Mapping[str, GpuFacts]) -> AssignedGpus | None:
    assigned: dict[str, frozenset[int] | None] = {}
    for use in grant.uses:
        gpu = gpus.get(use.uuid)
        if gpu is None and grant.dialect == FAIRLEAD:
            continue  # the scheduler names a GPU of this node with the bind, or gives none
        if gpu is None:
            return None
        instances = _instances(use, gpu)
        before = assigned.get(gpu.uuid, frozenset())
        both = None if instances is None or before is None else instances | before
        assigned[gpu.uuid] = both
    return assigned


def _instances(use: GpuUse, gpu: GpuFacts) -> frozenset[int] | None:
    slots = max((cut.size for cut in gpu.cuts), default=0)
    if not use.slices or slots < use.slices:
        return None
    return frozenset({instance_id(use.start, use.slices, slots)})
