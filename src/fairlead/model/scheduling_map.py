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

An index comes from the label `apps.kubernetes.io/pod-index`, else from the annotation or label
`batch.kubernetes.io/job-completion-index`, else from the last part of the name, unless the kind of
the owner gives names that end by chance. Pods of a ReplicaSet have none of these: the scheduler
gives them the first free one (`model.map_slots`), so at admission there is no literal for them.
"""

import re
from collections.abc import Mapping

from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.limits import MOST_GPUS
from fairlead.model.sizes import remembered

MAP = "gpu-scheduling-map"
NODE_LABEL = "gpu-node-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
JOB_INDEX = "batch.kubernetes.io/job-completion-index"

FORM = "write <index>=<node>:<GPUs>"
#: Every GPU of the node.
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
        """The GPUs that the value names: by index or uuid, or `all`; each once."""
        found = dict.fromkeys(part.strip() for part in self.value.split(","))
        return tuple(name for name in found if name and name not in _HIDDEN)


@dataclass(frozen=True, slots=True)
class ParsedMap:
    """Lines by index, and why others, if there are any, could not be read."""

    lines: tuple[Line, ...]
    fault: str = ""

    def line(self, index: int) -> Line:
        """The line of an index. Raises MapError with what to write if it cannot be followed."""
        found = next((line for line in self.lines if line.index == index), None)
        if found is None:
            wrong = self.and_fault(f"add {index}=<node>:<GPUs>")
            raise MapError(f"{MAP} has no line for index {index}; {wrong}")
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
        if len(found.devices) > MOST_GPUS:
            raise MapError(
                f"{MAP} names {len(found.devices)} GPUs for index {index}; "
                f"write at most {MOST_GPUS}, or {ALL}"
            )
        return found

    def and_fault(self, advice: str) -> str:
        """The advice, and what could not be read, if anything."""
        return f"{advice} ({self.fault})" if self.fault else advice


@remembered(4 << 20)
def parse(text: str) -> ParsedMap:
    """Reads as its inventor does: other lines are passed over, a bad index ends the reading.

    The last of several lines for one index counts.
    """
    lines: dict[int, Line] = {}
    passed_over = ""
    for number, raw in enumerate(text.split("\n"), start=1):
        said = raw.strip()
        if not said:
            continue
        where = f"line {number}, {said[:40]!r},"
        if "=" not in said or ":" not in said:
            passed_over = passed_over or f"{where} is ignored: {FORM}"
            continue
        line = _read(said)
        if line is None:
            return _map(lines, f"{where} ends the map: {FORM}, with a number as index")
        lines[line.index] = line
        if len(lines) == _MOST_LINES:
            return _map(lines, f"{where} ends the map: write at most {_MOST_LINES} lines")
    return _map(lines, passed_over)


def _read(said: str) -> Line | None:
    index, _, rest = said.partition("=")
    node, _, value = rest.partition(":")
    try:
        return Line(int(index), node.strip(), value.strip())
    except ValueError:
        return None


def _map(lines: dict[int, Line], fault: str) -> ParsedMap:
    return ParsedMap(tuple(lines[index] for index in sorted(lines)), fault)


def index_of(
    labels: Mapping[str, str], annotations: Mapping[str, str], name: str, owner_kind: str
) -> int | None:
    """The pod's index; None if it says none. `owner_kind` is empty for a pod without a controller.

    At admission the name may still be missing; then only labels and annotations are used.
    """
    for said in (labels.get(POD_INDEX), annotations.get(JOB_INDEX), labels.get(JOB_INDEX)):
        if (index := _number(said or "")) is not None:
            return index
    _, dash, last = name.rpartition("-")
    return _number(last) if dash and owner_kind not in _RANDOM_NAMES else None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
