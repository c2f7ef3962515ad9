"""From series with labels to readings of nodes: what a series means, whose it is, what to believe.

A label block names one GPU (and perhaps one slice of it, and the pod on it), so what an answer
says is collected by block first and understood by GPU then.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.model.sizes import Kept, weigh
from fairlead.telemetry.sources.api import NodeAddresses, ReadCounts, taken_s
from fairlead.telemetry.sources.exposition import Found, exactly, timestamp_s
from fairlead.telemetry.sources.formats import AGE, SUMS, ExporterFormat, Meaning, SeriesTarget
from fairlead.telemetry.sources.layout import MOST_PODS, Layout, LayoutShape, Line, layout_of

#: Rounding may push a share a little above all of it; more than this is no rounding.
_SLACK = 1.02
#: GPUs of one node that are distinguished; no machine has as many.
MOST_GPUS = 256
#: Labels of a node beyond these bytes are read line by line, and not kept.
_LARGEST_LAYOUT = 2 << 20
#: What is older than this is not used (`cluster.load`).
_OLD_S = 300.0


Values = dict[str, tuple[float, Meaning]]


@dataclass(slots=True)
class _Gpu:
    index: int | None = None
    whole: dict[str, float] = field(default_factory=dict)
    sliced: dict[str, float] = field(default_factory=dict)

    def reading(self) -> GpuReading:
        return _reading({**self.sliced, **self.whole}, self.index)


@dataclass(slots=True)
class _Node:
    taken_s: float
    age_s: float = 0.0
    gpus: dict[str, _Gpu] = field(default_factory=dict)
    pods: dict[str, list[dict[str, float]]] = field(default_factory=dict)


class ReadingCollector:
    """One answer. `asked` is the node that gave it, or None if it speaks for all nodes."""

    def __init__(
        self,
        dialect: ExporterFormat,
        memory: "SourceState",
        nodes: "NodeNames",
        asked: str | None,
    ) -> None:
        self._meaning = dialect.meanings
        self._state = memory
        self._book = dialect.book
        self._nodes = nodes
        self._asked = asked
        self._found: list[Found] = []
        self._blocks: dict[bytes, dict[bytes, bytes]] = {}
        self._times: dict[bytes, float] = {}
        self._twice = 0

    def put(self, found: list[Found]) -> None:
        self._found = self._found + found if self._found else found

    def readings(self, source: str, counts: ReadCounts, now_s: float) -> Iterator[NodeReadings]:
        """What can be believed of it; the rest is counted by why not."""
        if self._asked is None or not self._found:
            return self._read_lines(source, counts, now_s)
        names, blocks, texts, rests = zip(*self._found, strict=True)
        layout = None if any(rests) else self._layout(names, blocks)
        told = layout.readings(texts, now_s, source) if layout else None
        if told is None:
            return self._read_lines(source, counts, now_s)
        counts.believed += len(texts)
        return iter((told,))

    def _layout(self, names: tuple[bytes, ...], blocks: tuple[bytes, ...]) -> Layout | None:
        assert self._asked is not None
        known = self._state.layouts.get(self._asked)
        if known is not None and known[0] == names and known[1] == blocks:
            return known[2]
        # The same bytes stand in every line of a GPU, and are kept once.
        kept = {block: block for block in blocks}
        layout = self._new_layout(names, blocks)
        if sum(map(len, kept)) <= _LARGEST_LAYOUT:
            known = names, tuple(kept[block] for block in blocks), layout
            self._state.layouts[self._asked] = known
        return layout

    def _new_layout(self, names: Sequence[bytes], blocks: Sequence[bytes]) -> Layout | None:
        assert self._asked is not None
        if len(set(zip(names, blocks, strict=True))) < len(names):
            return None
        lines: list[Line] = []
        for name, block in zip(names, blocks, strict=True):
            whose, meaning = self._book.of(block), self._meaning[name]
            if whose is None or self._nodes.of(whose.node, self._asked) is None:
                return None
            useless = whose.part < 1.0 and not meaning.of_slices
            lines.append(None if useless else (whose, meaning))
        layout = layout_of(self._asked, lines, self._state.shapes)
        return layout if layout and len(layout.gpus) <= MOST_GPUS else None

    def _sort(self) -> None:
        blocks = self._blocks
        for line in self._found:
            name, block, value, rest = exactly(line) if b"} " in line[1] else line
            told = blocks.get(block)
            if told is None:
                told = blocks[block] = {}
            if name in told:
                self._twice += 1
                continue
            told[name] = value
            if rest:
                at_s = timestamp_s(rest)
                if at_s is not None:
                    self._times[block] = at_s

    def _read_lines(self, source: str, counts: ReadCounts, now_s: float) -> Iterator[NodeReadings]:
        self._sort()
        if self._twice:
            counts.rejected["twice"] += self._twice
        gathered: dict[str, _Node] = {}
        for block, told in self._blocks.items():
            whose = self._book.of(block)
            if whose is None:
                counts.rejected["labels"] += len(told)
                continue
            node = self._nodes.of(whose.node, self._asked)
            if node is None:
                counts.rejected["another node" if self._asked else "unknown node"] += len(told)
                continue
            self._gather(gathered, node, whose, block, told, counts, now_s)
        for name, found in gathered.items():
            yield _told(name, found, source)

    def _gather(
        self,
        gathered: dict[str, _Node],
        node: str,
        whose: SeriesTarget,
        block: bytes,
        told: dict[bytes, bytes],
        counts: ReadCounts,
        now_s: float,
    ) -> None:
        at_s = now_s if block not in self._times else taken_s(self._times[block])
        if now_s - at_s >= _OLD_S:
            counts.rejected["old"] += len(told)
            return
        there = gathered.get(node)
        if there is None:
            there = gathered[node] = _Node(at_s)
        there.taken_s = min(there.taken_s, at_s)
        values = self._values(told, whose, block, counts, at_s)
        if AGE in values:
            there.age_s = values.pop(AGE)[0]
        if whose.pod and values:
            parts = {name: value for name, (value, _) in values.items()}
            _add_pod(there, whose.pod, parts, counts)
        if whose.gpu not in there.gpus and len(there.gpus) >= MOST_GPUS:
            counts.rejected["too many GPUs"] += len(told)
        elif whose.gpu:
            _add(there.gpus.setdefault(whose.gpu, _Gpu(whose.index)), whose.part, values, counts)

    def _values(
        self,
        told: dict[bytes, bytes],
        whose: SeriesTarget,
        block: bytes,
        counts: ReadCounts,
        at_s: float,
    ) -> Values:
        """By reading: what the best series for it says, in our unit."""
        values: Values = {}
        for name, text in told.items():
            meaning = self._meaning[name]
            if whose.part < 1.0 and not meaning.of_slices:
                continue
            value = believed(text, meaning, counts)
            if value is not None and meaning.grows:
                value = self._state.rate((name, block), value, at_s)
            if value is None:
                continue
            before = values.get(meaning.reading)
            if before is None or meaning.rank > before[1].rank:
                values[meaning.reading] = value, meaning
            elif meaning.adds and meaning.rank == before[1].rank:
                values[meaning.reading] = value + before[0], meaning
        return values


class SourceState:
    """What a source keeps from one take to the next: how nodes speak, and what counters said."""

    def __init__(self) -> None:
        self.layouts: dict[str, tuple[tuple[bytes, ...], tuple[bytes, ...], Layout | None]] = {}
        self.shapes: dict[object, LayoutShape] = {}
        self._counters: Kept[tuple[bytes, bytes], tuple[float, float]] = Kept(_COUNTER_BYTES)

    def keep_nodes(self, nodes: Collection[str]) -> None:
        """Forgets how nodes spoke that are gone."""
        for gone in self.layouts.keys() - nodes:
            del self.layouts[gone]
        if len(self.shapes) > _MOST_SHAPES:
            self.shapes.clear()

    def rate(self, counter: tuple[bytes, bytes], value: float, at_s: float) -> float | None:
        """By how much it grew a second; None at first, and after a restart."""
        before = self._counters.get(counter)
        if before is None:
            self._counters.keep(counter, (value, at_s), weigh(counter))
        else:
            self._counters[counter] = value, at_s
        if before is None or value < before[0] or at_s <= before[1]:
            return None
        return (value - before[0]) / (at_s - before[1])


_COUNTER_BYTES = 128 << 20
_MOST_SHAPES = 4096


class NodeNames:
    """Finds the node that a label means: by name, by address, by the first part of either."""

    def __init__(self, nodes: NodeAddresses) -> None:
        self._names = {address: name for name, address in nodes.items() if address}
        self._names |= {name.partition(".")[0]: name for name in nodes}
        self._names |= {name: name for name in nodes}

    def find(self, said: str) -> str | None:
        found = self._names.get(said)
        if found is None and said:
            host = said.rpartition(":")[0] if said.count(":") == 1 else said
            found = self._names.get(host) or self._names.get(host.partition(".")[0])
        return found

    def of(self, said: str, asked: str | None) -> str | None:
        """Who was asked by an address of its own can speak for itself alone.

        A label that names no node is the name of the exporter's pod, as older ones have it.
        """
        if asked is None:
            return self.find(said)
        if not said or said == asked:
            return asked
        return asked if self.find(said) in (None, asked) else None


def believed(text: bytes, meaning: Meaning, counts: ReadCounts) -> float | None:
    """The value in our unit, if a GPU can have it."""
    try:
        value = float(text) * meaning.scale
    except ValueError:
        counts.rejected["not a number"] += 1
        return None
    most = meaning.most
    if 0.0 <= value <= most:
        counts.believed += 1
        return value
    if most < value <= most * _SLACK:
        counts.believed += 1
        return most
    counts.rejected[_why_not(value)] += 1
    return None


def _why_not(value: float) -> str:
    if math.isnan(value):
        return "not a number"
    return "negative" if value < 0 else "too much"


def _add_pod(node: _Node, pod: str, parts: dict[str, float], counts: ReadCounts) -> None:
    if pod not in node.pods and len(node.pods) >= MOST_PODS:
        counts.rejected["too many pods"] += len(parts)
        return
    node.pods.setdefault(pod, []).append(parts)


def _add(gpu: _Gpu, part: float, values: Values, counts: ReadCounts) -> None:
    """Slices add up to their GPU; of a whole GPU the first word counts."""
    for name, (value, meaning) in values.items():
        if meaning.of_pod:
            continue
        if part < 1.0:
            weight = 1.0 if name in SUMS else part
            gpu.sliced[name] = gpu.sliced.get(name, 0.0) + weight * value
        elif name not in gpu.whole:
            gpu.whole[name] = value
        elif meaning.adds:
            gpu.whole[name] = min(gpu.whole[name] + value, meaning.most)
        else:
            counts.rejected["twice"] += 1


def _told(name: str, found: _Node, source: str) -> NodeReadings:
    gpus = {key: gpu.reading() for key, gpu in found.gpus.items() if gpu.whole or gpu.sliced}
    pods = {pod: _together(parts) for pod, parts in found.pods.items()}
    return NodeReadings(name, found.taken_s - found.age_s, gpus, pods, source)


def _together(parts: Iterable[Mapping[str, float]]) -> GpuReading:
    """Several GPUs of one pod: amounts add up, shares are the mean."""
    lists: dict[str, list[float]] = {}
    for part in parts:
        for name, value in part.items():
            lists.setdefault(name, []).append(value)
    return _reading(
        {
            name: sum(values) if name in SUMS else sum(values) / len(values)
            for name, values in lists.items()
        }
    )


def _reading(values: Mapping[str, float], index: int | None = None) -> GpuReading:
    return GpuReading(**values, place=index)  # type: ignore[arg-type]  # none says `cyclic`
