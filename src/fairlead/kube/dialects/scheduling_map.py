"""The scheduling map: an annotation that names the node and the GPUs of each pod by its index.

    gpu-scheduling-map: |
      0=node1:0,1
      1=node2:3

The answer is `fairlead.dev/gpus` with the GPUs to the letter of the map, and the index that the pod
has, so that a pod whose index was chosen keeps it when the scheduler starts again.
"""

from collections.abc import Mapping
from typing import ClassVar

from fairlead.kube.dialects.api import Assignment, Bound, DialectDefaults, GpuSpec, PodIdentity
from fairlead.kube.dialects.fairlead import PREFIX, VISIBLE
from fairlead.kube.dialects.nvidia import Nvidia
from fairlead.model.gpus import GpuRequest, GpuUse, Grant, GrantSource
from fairlead.model.map_slots import TEMPLATE_HASH, MapSlot, map_slot_of, workload_of
from fairlead.model.scheduling_map import JOB_INDEX, MAP, POD_INDEX, Line

INDEX = PREFIX + "map-index"
#: Labels and annotations that give the index or the workload of a pod.
_IDENTITY_LABELS = (POD_INDEX, JOB_INDEX, TEMPLATE_HASH)
_IDENTITY_ANNOTATIONS = (JOB_INDEX, INDEX, VISIBLE)


def has_scheduling_map(annotations: Mapping[str, str]) -> bool:
    """Whether the request depends on which pod it is."""
    return MAP in annotations


def identity(
    namespace: str,
    name: str,
    owner: tuple[str, str],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    bound: bool,
) -> PodIdentity:
    """Which pod it is, as far as its place in a map is concerned."""
    pod_labels = tuple((key, labels[key]) for key in _IDENTITY_LABELS if key in labels)
    said = tuple((key, annotations[key]) for key in _IDENTITY_ANNOTATIONS if key in annotations)
    return PodIdentity(namespace, name, owner, pod_labels, said, bound)


class Mapped(DialectDefaults):
    name: ClassVar[str] = "scheduling-map"
    annotation_keys: ClassVar[tuple[str, ...]] = (MAP,)

    def ask(self, gpu_spec: GpuSpec) -> GpuRequest | None:
        """GPUs that it asks for as a resource as well are counted by the node."""
        pod = gpu_spec.identity
        if MAP not in gpu_spec.annotations or pod is None:
            return None
        plain = Nvidia().ask(gpu_spec)
        map_slot = _assigned_slot(pod, gpu_spec.annotations[MAP]) or _requested_slot(
            pod, gpu_spec.annotations
        )
        return GpuRequest(plain.gpus if plain else 0, dialect=self.name, map_slot=map_slot)

    def grant(self, bound: Bound) -> Grant | None:
        """For a pod that another scheduler placed by its map."""
        map_slot = bound.ask.map_slot if bound.ask else None
        if map_slot is None or map_slot.line is None:
            return None
        uses = tuple(GpuUse(device) for device in map_slot.line.devices)
        return Grant(uses, self.name, member=map_slot.member, source=GrantSource.ASKED)

    def annotations_for(self, assignment: Assignment) -> Mapping[str, str]:
        ask, member = assignment.pod.request.gpu_request, assignment.grant.member
        line = ask.map_slot.line_of(member.index) if ask and ask.map_slot and member else None
        return {} if line is None else {VISIBLE: line.value, INDEX: str(line.index)}


def _requested_slot(pod: PodIdentity, annotations: Mapping[str, str]) -> MapSlot:
    said = {**annotations, **dict(pod.annotations)}
    return map_slot_of(pod.namespace, pod.name, dict(pod.labels), said, pod.owner)


def _assigned_slot(pod: PodIdentity, text: str) -> MapSlot | None:
    """What was assigned to a bound pod, whatever its map says now."""
    said = dict(pod.annotations)
    index = said.get(INDEX, "")
    if not pod.bound or VISIBLE not in said or not (index.isascii() and index.isdigit()):
        return None
    line = Line(int(index[:9]), "", said[VISIBLE])
    workload = workload_of(pod.namespace, dict(pod.labels), pod.owner, text)
    return MapSlot(workload, (line,), line.index)
