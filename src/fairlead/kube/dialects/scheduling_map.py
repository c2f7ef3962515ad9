"""The scheduling map: an annotation that names the node and the GPUs of each pod by its index.

    gpu-scheduling-map: |
      0=node1:0,1
      1=node2:3

The answer is `fairlead.dev/gpus` with the GPUs to the letter of the map, and the index that the pod
has, so that a pod whose index was chosen keeps it when the scheduler starts again.
"""

from collections.abc import Mapping
from typing import ClassVar

from fairlead.kube.dialects.api import Asking, Bound, Identity, Silent, Telling
from fairlead.kube.dialects.nvidia import Nvidia
from fairlead.kube.dialects.ours import PREFIX, VISIBLE
from fairlead.model.gpus import CardUse, GpuAsk, Grant, Said
from fairlead.model.map_slots import TEMPLATE_HASH, MapSlot, map_slot_of, workload_of
from fairlead.model.scheduling_map import JOB_INDEX, MAP, POD_INDEX, Line

INDEX = PREFIX + "map-index"
#: Labels and annotations that tell an index or whose pod it is.
_TELLING_LABELS = (POD_INDEX, JOB_INDEX, TEMPLATE_HASH)
_TELLING_ANNOTATIONS = (JOB_INDEX, INDEX, VISIBLE)


def tells_pods_apart(annotations: Mapping[str, str]) -> bool:
    """Whether it matters which pod it is that asks so."""
    return MAP in annotations


def identity(
    namespace: str,
    name: str,
    owner: tuple[str, str],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    bound: bool,
) -> Identity:
    """Which pod it is, as far as its place in a map is concerned."""
    told = tuple((key, labels[key]) for key in _TELLING_LABELS if key in labels)
    said = tuple((key, annotations[key]) for key in _TELLING_ANNOTATIONS if key in annotations)
    return Identity(namespace, name, owner, told, said, bound)


class Mapped(Silent):
    name: ClassVar[str] = "scheduling-map"
    words: ClassVar[tuple[str, ...]] = (MAP,)

    def ask(self, asking: Asking) -> GpuAsk | None:
        """Cards that it asks for as a resource as well are counted by the node."""
        pod = asking.identity
        if MAP not in asking.annotations or pod is None:
            return None
        plain = Nvidia().ask(asking)
        map_slot = _assigned_slot(pod, asking.annotations[MAP]) or _requested_slot(
            pod, asking.annotations
        )
        return GpuAsk(plain.cards if plain else 0, dialect=self.name, map_slot=map_slot)

    def grant(self, bound: Bound) -> Grant | None:
        """For a pod that somebody else placed by its map."""
        map_slot = bound.ask.map_slot if bound.ask else None
        if map_slot is None or map_slot.line is None:
            return None
        uses = tuple(CardUse(device) for device in map_slot.line.devices)
        return Grant(uses, self.name, member=map_slot.member, said=Said.ASKED)

    def tell(self, telling: Telling) -> Mapping[str, str]:
        ask, member = telling.pod.request.gpus, telling.grant.member
        line = ask.map_slot.line_of(member.index) if ask and ask.map_slot and member else None
        return {} if line is None else {VISIBLE: line.value, INDEX: str(line.index)}


def _requested_slot(pod: Identity, annotations: Mapping[str, str]) -> MapSlot:
    said = {**annotations, **dict(pod.annotations)}
    return map_slot_of(pod.namespace, pod.name, dict(pod.labels), said, pod.owner)


def _assigned_slot(pod: Identity, text: str) -> MapSlot | None:
    """What a bound pod was told, whatever its map says meanwhile."""
    said = dict(pod.annotations)
    index = said.get(INDEX, "")
    if not pod.bound or VISIBLE not in said or not (index.isascii() and index.isdigit()):
        return None
    line = Line(int(index[:9]), "", said[VISIBLE])
    workload = workload_of(pod.namespace, dict(pod.labels), pod.owner, text)
    return MapSlot(workload, (line,), line.index)
