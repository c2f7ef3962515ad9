"""The scheduling map: a table on a pod that says which node and which GPUs each index gets.

    metadata:
      annotations:
        gpu-scheduling-map: |
          0=node1:0,1
          1=node2:GPU-8f3a
          2=node3:

The scheduler and admission read it with the same code:

    parse(text)                                            the map; it never raises
    parse(text).line(index)                                its line, or MapError with what to write
    index_of(labels, annotations, name, owner_kind)        the pod's index, None if it has none
    literal_for(labels, annotations, name, owner_kind)     what CUDA_VISIBLE_DEVICES gets, or None

An index comes from the label `apps.kubernetes.io/pod-index`, else from the annotation or label
`batch.kubernetes.io/job-completion-index`, else from the last part of the name, unless the kind of
the owner gives names that end by chance. Pods of a ReplicaSet have none of these: the scheduler
gives them the first free one (`Seat.index` is None until then).
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from fairlead.model.errors import FairleadError

MAP = "gpu-scheduling-map"
NODE_LABEL = "gpu-node-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
JOB_INDEX = "batch.kubernetes.io/job-completion-index"
TEMPLATE_HASH = "pod-template-hash"

#: Every card of the node.
ALL = "all"
_HIDDEN = frozenset({"-1", "none", "void", "NoDevFiles"})
_NODE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?", re.ASCII)
_MOST_LINES = 4096
_LONGEST_VALUE = 1024
#: Kinds whose pods are alike: any index will do.
ALIKE = frozenset({"ReplicaSet", "ReplicationController"})
_RANDOM_NAMES = ALIKE | {"Job", "DaemonSet"}


class MapError(FairleadError):
    """The map says nothing about the pod, or nothing that can be followed."""


@dataclass(frozen=True, slots=True)
class Line:
    index: int
    #: The value of its label `gpu-node-name`, or its real name.
    node: str
    #: What CUDA_VISIBLE_DEVICES gets, to the letter; empty hides all GPUs.
    value: str

    @property
    def devices(self) -> tuple[str, ...]:
        """The cards that the value names: by index or uuid, or `all`; each once."""
        found = dict.fromkeys(part.strip() for part in self.value.split(","))
        return tuple(name for name in found if name and name not in _HIDDEN)


@dataclass(frozen=True, slots=True)
class SchedulingMap:
    """Lines by index, and why others could not be read, the reason that matters most first."""

    lines: tuple[Line, ...]
    faults: tuple[str, ...] = ()

    def line(self, index: int) -> Line:
        """The line of an index. Raises MapError with what to write if it cannot be followed."""
        found = next((line for line in self.lines if line.index == index), None)
        if found is None:
            why = f" ({self.faults[0]})" if self.faults else ""
            raise MapError(f"{MAP} has no line for index {index}; add {index}=<node>:<GPUs>{why}")
        if not _NODE.fullmatch(found.node):
            raise MapError(
                f"{MAP} names {found.node[:40]!r} for index {index}, which is no node; write "
                f"{index}=<node>:<GPUs>, with the node's name or its label {NODE_LABEL}"
            )
        if not found.value.isprintable() or len(found.value) > _LONGEST_VALUE:
            raise MapError(
                f"{MAP} has GPUs for index {index} that cannot be passed on; write at most "
                f"{_LONGEST_VALUE} printable characters, such as {index}={found.node}:0,1"
            )
        return found


@lru_cache(maxsize=256)
def parse(text: str) -> SchedulingMap:
    """Reads as its inventor does: other lines are passed over, a bad index ends the reading.

    The last of several lines for one index counts.
    """
    lines: dict[int, Line] = {}
    skipped: list[str] = []
    for number, raw in enumerate(text.split("\n"), start=1):
        said = raw.strip()
        if not said:
            continue
        if "=" not in said or ":" not in said:
            skipped.append(f"line {number}, {said[:40]!r}, is passed over: {_FORM}")
            continue
        index, _, rest = said.partition("=")
        try:
            key = int(index)
        except ValueError:
            stop = f"line {number}, {said[:40]!r}, ends the map: {_FORM}, with a number as index"
            return _map(lines, [stop, *skipped])
        node, _, value = rest.partition(":")
        lines[key] = Line(key, node.strip(), value.strip())
        if len(lines) > _MOST_LINES:
            return _map(lines, [f"line {number} ends the map: write at most {_MOST_LINES} lines"])
    return _map(lines, skipped)


_FORM = "write <index>=<node>:<GPUs>"


def _map(lines: dict[int, Line], faults: list[str]) -> SchedulingMap:
    return SchedulingMap(tuple(lines[index] for index in sorted(lines)), tuple(faults[:1]))


def index_of(
    labels: Mapping[str, str], annotations: Mapping[str, str], name: str, owner_kind: str
) -> int | None:
    """The pod's index; None if it says none. `owner_kind` is empty for a pod without a controller.

    At admission the name may still be missing; then only labels and annotations tell.
    """
    for said in (labels.get(POD_INDEX), annotations.get(JOB_INDEX), labels.get(JOB_INDEX)):
        if (index := _number(said or "")) is not None:
            return index
    _, dash, last = name.rpartition("-")
    return _number(last) if dash and owner_kind not in _RANDOM_NAMES else None


def literal_for(
    labels: Mapping[str, str], annotations: Mapping[str, str], name: str, owner_kind: str
) -> str | None:
    """What CUDA_VISIBLE_DEVICES gets; None without a map, an index, or a line for it."""
    text, index = annotations.get(MAP), index_of(labels, annotations, name, owner_kind)
    if text is None or index is None:
        return None
    try:
        return parse(text).line(index).value
    except MapError:
        return None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


@dataclass(frozen=True, slots=True)
class Member:
    """One pod of those that follow a map together: they may share cards, if the map says so."""

    workload: str
    index: int


@dataclass(frozen=True, slots=True)
class Seat:
    """Where its map puts a pod. Without an index: on the first seat that is free."""

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

    def at(self, index: int) -> "Seat":
        """The seat with this index, and what others get of the same node."""
        settled = replace(self, index=index)
        own = settled.line
        near = tuple(line for line in self.lines if own is not None and line.node == own.node)
        return replace(settled, lines=near)


def workload_of(
    namespace: str, labels: Mapping[str, str], owner: tuple[str, str], text: str
) -> str:  # fmt: skip
    """Whose map it is: of the controller; of the Deployment behind a ReplicaSet, so that its
    pods hand on their seats in an update; of all with the same map where there is no controller.
    """
    kind, name = owner
    if not kind:
        return f"{namespace}/{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]}"
    suffix = f"-{labels[TEMPLATE_HASH]}" if TEMPLATE_HASH in labels else ""
    if kind == "ReplicaSet" and suffix and name.endswith(suffix):
        kind, name = "Deployment", name.removesuffix(suffix)
    return f"{namespace}/{kind}/{name}"


def seat_of(
    namespace: str, name: str, labels: Mapping[str, str], annotations: Mapping[str, str],
    owner: tuple[str, str],
) -> Seat:  # fmt: skip
    """Where the map among its annotations puts the pod. Raises MapError with what to write."""
    text = annotations[MAP]
    found, index = parse(text), index_of(labels, annotations, name, owner[0])
    seat = Seat(workload_of(namespace, labels, owner, text), found.lines)
    if index is not None:
        found.line(index)
        return seat.at(index)
    if owner[0] not in ALIKE:
        raise MapError(f"it has a {MAP}, but no index in it; {_NO_INDEX.get(owner[0], _NAME_IT)}")
    if not found.lines:
        why = f" ({found.faults[0]})" if found.faults else ""
        raise MapError(f"{MAP} has no line at all; {_FORM}{why}")
    for line in found.lines:
        found.line(line.index)
    return seat


_NAME_IT = f"give it a name that ends in a number, like web-0, or the label {POD_INDEX}"
_NO_INDEX = {
    "Job": "write completionMode: Indexed in its Job",
    "DaemonSet": "use a StatefulSet, since the pods of a DaemonSet have their nodes already",
}
