"""Alnair's profiler: annotations of nodes, and the exporter of its later versions.

Annotations are what Python prints of a dict, so they are read as a literal, within limits, and
never evaluated. They come with the nodes that are watched anyway. Nothing in them says when they
were written, and they are written on change only: one that changes on a node shows that its
profiler lives, and vouches for the others there.
"""

import ast
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.telemetry.sources.api import MOST_MEMORY_MIB, NodeAddresses, ReadCounts, taken_s
from fairlead.telemetry.sources.exposition import Labels, book_of
from fairlead.telemetry.sources.formats import (
    ExporterFormat,
    Meaning,
    SeriesTarget,
    parse_gpu_index,
)

PREFIX = "ai.centaurus.io/"
_NOTES = PREFIX + "gpu-"

_GPU = re.compile(rf"{re.escape(PREFIX)}gpu-(\d{{1,3}})", re.ASCII)
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]i?B)", re.ASCII)
_MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
#: A GPU with a hundred processes needs less; more is no annotation of a profiler.
_LONGEST = 16 * 2**10
_DEEPEST = 8
_BRACKET = re.compile(r"[()\[\]{}]")
#: A chain of signs is as deep as it is long.
_SIGNS = re.compile(r"(?:[-+~]\s*){4}")
#: An annotation that was not updated for so long says nothing of now.
LASTS_S = 600.0


def gpu_reading(text: str) -> GpuReading | None:
    """What `ai.centaurus.io/gpu-<i>` says of its GPU; None if it cannot be read."""
    told = _literal(text)
    if not isinstance(told, dict):
        return None
    # Its fourth version renamed the second.
    memory_busy = told.get("max_mem_bw_util", told.get("max_mem_util"))
    cyclic = told.get("cyclic_pattern")
    return GpuReading(
        utilisation=_percent(told.get("max_gpu_util")),
        memory_busy=_percent(memory_busy),
        memory_used_mib=_state(told),
        cyclic=cyclic if isinstance(cyclic, bool) else None,
    )


def node_gpus(annotations: Mapping[str, str], counts: ReadCounts) -> dict[str, GpuReading]:
    """By index, what a node's annotations say."""
    gpus: dict[str, GpuReading] = {}
    for key, text in annotations.items():
        found = _GPU.fullmatch(key)
        if found is None:
            continue
        reading = gpu_reading(text)
        if reading is None:
            counts.rejected["unreadable"] += 1
            continue
        counts.believed += 1
        gpus[str(int(found[1]))] = reading
    return gpus


def notes(annotations: Mapping[str, str]) -> dict[str, str]:
    """Of a node's annotations, those that this is about."""
    return {key: text for key, text in annotations.items() if key.startswith(_NOTES)}


class Annotations:
    """The annotations of the nodes that are watched, as a source. The watch of nodes puts them."""

    def __init__(self, name: str = "alnair", clock: Callable[[], float] = taken_s) -> None:
        self.name = name
        self._clock = clock
        self._told: dict[str, tuple[Mapping[str, str], float]] = {}

    def put(self, node: str, annotations: Mapping[str, str]) -> None:
        gpus = notes(annotations)
        before = self._told.get(node)
        if not gpus:
            self._told.pop(node, None)
        elif before is None or before[0] != gpus:
            self._told[node] = gpus, self._clock()

    async def take(self, nodes: NodeAddresses, counts: ReadCounts) -> AsyncIterator[NodeReadings]:
        """A node whose profiler has been silent for long is left to fade."""
        now_s = self._clock()
        for node, (told, changed_s) in list(self._told.items()):
            if node not in nodes:
                del self._told[node]
            elif now_s - changed_s < LASTS_S:
                yield NodeReadings(node, now_s, node_gpus(told, counts), source=self.name)


# -- its exporter --------------------------------------------------------------------------------


def whose(labels: Labels) -> SeriesTarget | None:
    """Its series are about processes: those of one GPU add up."""
    gpu = labels.get("gpu_uuid") or labels.get("gpu_idx", "")
    return SeriesTarget(
        gpu, labels.get("nodeName", ""), index=parse_gpu_index(labels.get("gpu_idx", ""))
    )


SERIES = {
    "alnair_gpu_util": Meaning("utilisation", 0.01, adds=True),
    "alnair_gpu_mem_util": Meaning("memory_busy", 0.01, adds=True),
}
ALNAIR = ExporterFormat(SERIES, book_of(whose))
DEFAULT_URL = "http://{address}:9876/metrics"


# -- literals ------------------------------------------------------------------------------------


def _literal(text: str) -> object:
    """The literal that a text is; None if it is none, too long or too deep."""
    if len(text) > _LONGEST or _SIGNS.search(text) or _depth(text) > _DEEPEST:
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _depth(text: str) -> int:
    """At most so deep are brackets nested, those within strings among them: it is only a limit."""
    deepest = depth = 0
    for found in _BRACKET.finditer(text):
        depth += 1 if found[0] in "([{" else -1
        deepest = max(deepest, depth)
    return deepest


def _state(told: Mapping[Any, Any]) -> float | None:
    """By process where it is known, to the MiB; else rounded up to GiB."""
    processes = told.get("pid-mem")
    if isinstance(processes, list) and processes:
        amounts = [
            _mib(each[1]) for each in processes if isinstance(each, tuple) and len(each) == 2
        ]
        if len(amounts) == len(processes) and None not in amounts:
            return min(sum(filter(None, amounts)), float(MOST_MEMORY_MIB))
    return _mib(told.get("mem_used"))


def _mib(text: object) -> float | None:
    found = _AMOUNT.fullmatch(text.strip()) if isinstance(text, str) else None
    return float(found[1]) * _MIB[found[2][0]] if found else None


def _percent(value: object) -> float | None:
    if isinstance(value, str):
        value = _number(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value / 100 if 0 <= value <= 100 else None


def _number(text: str) -> float | None:
    try:
        return float(text[:32].rstrip("% "))
    except ValueError:
        return None
