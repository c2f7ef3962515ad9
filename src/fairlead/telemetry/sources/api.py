"""The contract of every source of readings, and its input.

A source knows nothing of the scheduler: it is given the nodes that there are, and yields what their
GPUs do. The caller decides how often, and whether it is used (`guard`).
"""

import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import field
from typing import Protocol

from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.readings import NodeReadings

#: The nodes there are: their addresses by name, "" where a node has none.
NodeAddresses = Mapping[str, str]

#: Beyond these a GPU is not a GPU: the largest of 2026 has 0.3 TiB and 1.4 kW.
MOST_MEMORY_MIB = 16 * 2**20
MOST_POWER_W = 10_000.0
MOST_CELSIUS = 200.0
#: One second of every lane of the fastest announced link, many times over.
MOST_NVLINK_BYTES_S = 1e14


class SourceFault(FairleadError):
    """A source gave nothing that can be used. Its text says why, for the log."""


@dataclass(slots=True)
class ReadCounts:
    """What became of one take. The source counts here while it yields."""

    #: Addresses asked, and those of them that gave nothing.
    asked: int = 0
    failed: int = 0
    #: Values that were believed, and those that were not, by why.
    believed: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    #: The last thing that went wrong, in words.
    problem: str = ""

    def fail(self, problem: str, why: str = "unreachable") -> None:
        self.failed += 1
        self.rejected[why] += 1
        self.problem = problem


class Source(Protocol):
    @property
    def name(self) -> str:
        """What metrics and logs call it."""
        ...

    def take(self, nodes: NodeAddresses, counts: ReadCounts) -> AsyncIterator[NodeReadings]:
        """What GPUs do now, each node as soon as it is known.

        Raises SourceFault if nothing can be read; errors of single nodes are in the tally.
        """
        ...


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """One source as it was configured."""

    kind: str
    name: str
    #: With `{address}` or `{node}` in it, each node is asked; else this one address is.
    url: str = ""
    every_s: float = 15.0
    timeout_s: float = 5.0
    #: Nodes asked at the same time.
    at_once: int = 64
    #: PromQL by reading, for a Prometheus server.
    queries: Mapping[str, str] = field(default_factory=dict)
    #: Only what a scheduler goes by: of thousands of nodes, every line counts.
    brief: bool = False
    #: Whether to keep connections for the next take; for programs that ask until they end.
    keeps: bool = False
    token_file: str = ""
    ca_file: str = ""

    @property
    def per_node(self) -> bool:
        return "{address}" in self.url or "{node}" in self.url


def taken_s(sample_s: float | None = None) -> float:
    """A time since 1970, or now, by the engine's clock; what is to come counts as now.

    That clock is the machine's monotonic one, which all processes of a machine share.
    """
    if sample_s is None:
        return time.monotonic()
    return time.monotonic() - max(0.0, time.time() - sample_s)
