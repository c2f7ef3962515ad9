"""What a scheduling map assigns to one pod: index, node and GPUs."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.scheduling_map import (
    ALIKE,
    FORM,
    MAP,
    POD_INDEX,
    Line,
    MapError,
    index_of,
    parse,
)

TEMPLATE_HASH = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class Member:
    """One pod of those that follow a map together: they may share GPUs, if the map says so."""

    workload: str
    index: int


@dataclass(frozen=True, slots=True)
class MapSlot:
    """What its map assigns to a pod. Without an index: the first free line."""

    workload: str
    #: Those that matter to the pod, its own among them.
    lines: tuple[Line, ...]
    index: int | None = None

    @property
    def member(self) -> Member | None:
        return None if self.index is None else Member(self.workload, self.index)

    @property
    def line(self) -> Line | None:
        return None if self.index is None else self.line_of(self.index)

    def line_of(self, index: int) -> Line | None:
        return next((line for line in self.lines if line.index == index), None)

    def at(self, index: int) -> "MapSlot":
        """The slot with this index, and the lines of other pods on the same node."""
        settled = replace(self, index=index)
        own = settled.line
        same_node = tuple(line for line in self.lines if own is not None and line.node == own.node)
        return replace(settled, lines=same_node)


def workload_of(
    namespace: str, labels: Mapping[str, str], owner: tuple[str, str], text: str
) -> str:  # fmt: skip
    """Whose map it is: of the controller; of the Deployment behind a ReplicaSet, so that its
    pods keep their slots in an update; of all with the same map where there is no controller.
    """
    kind, name = owner
    if not kind:
        return f"{namespace}/{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]}"
    suffix = f"-{labels[TEMPLATE_HASH]}" if TEMPLATE_HASH in labels else ""
    if kind == "ReplicaSet" and suffix and name.endswith(suffix):
        kind, name = "Deployment", name.removesuffix(suffix)
    return f"{namespace}/{kind}/{name}"


def map_slot_of(
    namespace: str, name: str, labels: Mapping[str, str], annotations: Mapping[str, str],
    owner: tuple[str, str],
) -> MapSlot:  # fmt: skip
    """Where the map among its annotations puts the pod. Raises MapError with what to write."""
    text = annotations[MAP]
    found, index = parse(text), index_of(labels, annotations, name, owner[0])
    map_slot = MapSlot(workload_of(namespace, labels, owner, text), found.lines)
    if index is not None:
        found.line(index)
        return map_slot.at(index)
    if owner[0] not in ALIKE:
        raise MapError(f"it has a {MAP}, but no index in it; {_NO_INDEX.get(owner[0], _NAME_IT)}")
    if not found.lines:
        raise MapError(f"{MAP} has no lines; {found.and_fault(FORM)}")
    for line in found.lines:
        found.line(line.index)
    return map_slot


_NAME_IT = f"give it a name that ends in a number, like web-0, or the label {POD_INDEX}"
_NO_INDEX = {
    "Job": "write completionMode: Indexed in its Job",
    "DaemonSet": "use a StatefulSet, since the pods of a DaemonSet have their nodes already",
}
