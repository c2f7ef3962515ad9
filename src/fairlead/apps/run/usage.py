"""Adds up what pods do with their GPUs while the scheduler works, and serves it.

Going through all pods takes longer than a decision may wait. So it is done a few pods at a time.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import field, replace
from itertools import islice
from typing import TypeVar

import msgspec

from fairlead.cluster.claimed_grants import claimed_grants, with_claimed
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.engine import events
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.readings import NodeReadings
from fairlead.telemetry import reporting
from fairlead.telemetry.latest import LatestReadings, ReadingStore
from fairlead.telemetry.report import HOUR_S, GpuRow, HeldRow, PodRow, UsageReport
from fairlead.telemetry.rightsizing import ENOUGH_S
from fairlead.telemetry.sampling import holds_gpus, sample
from fairlead.telemetry.usage import UsageBook

EVERY_S = 10.0
#: For each pod, which takes about 12 µs.
_REST_S = 0.0006
#: Namespaces and schedulers that are added up apart.
_MOST_SUMS = 10_000
_NONE = (0.0, 0.0, 0.0, 0.0)
#: Pods or GPUs between two looks at the network.
_SLICE = 100

#: Namespaces and schedulers that are listed; what is beyond is added up under one name.
MOST_SUMS = 4096
OTHERS = ("(others)", "(others)")

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ReportScope:
    """What a report shows: pods of these namespaces (None: of all), and nodes with their GPUs."""

    namespaces: frozenset[str] | None = None
    nodes: bool = True
    #: What is left out, in words.
    notes: tuple[str, ...] = ()

    def shows(self, pod: Pod) -> bool:
        return self.namespaces is None or pod.namespace in self.namespaces


EVERYTHING = ReportScope()


@dataclass(slots=True)
class HeldTotals:
    """What the pods of one namespace and scheduler have in GPUs, and since we began in seconds."""

    held: float = 0.0
    measured: float = 0.0
    used: float = 0.0
    wasted: float = 0.0
    held_s: float = 0.0
    used_s: float = 0.0
    wasted_s: float = 0.0
    idle_s: float = 0.0

    def restarted(self) -> "HeldTotals":
        """What is had now is counted again; what was added up stays."""
        return HeldTotals(
            held_s=self.held_s, used_s=self.used_s, wasted_s=self.wasted_s, idle_s=self.idle_s
        )


@dataclass(slots=True)
class Usage:
    """Holds the book. `run` keeps it while a scheduler runs."""

    cluster: Cluster
    clock: Callable[[], float] = time.monotonic
    #: How often to look, and for how long before advice is given.
    every_s: float = EVERY_S
    enough_s: float = ENOUGH_S
    latest: ReadingStore = field(default_factory=ReadingStore)
    book: UsageBook = field(default_factory=UsageBook)
    #: By namespace and scheduler, as of the last look.
    sums: dict[tuple[str, str], HeldTotals] = field(default_factory=dict)
    since_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.since_s = self.clock()

    def note(self, event: events.Event) -> None:
        if isinstance(event, events.ReadingsTaken):
            self.latest.note(map(self._of_pods_there, event.readings))

    def _of_pods_there(self, readings: NodeReadings) -> NodeReadings:
        """Whatever a source names, only pods that hold GPUs of the node are remembered."""
        if not readings.pods:
            return readings
        held_there = self.cluster.held_on(readings.node)
        there = [held.pod for held in held_there if held.grant or held.pod.request.claims]
        names = (name for pod in there for name in (pod.key, pod.uid))
        pods = {name: readings.pods[name] for name in names if name in readings.pods}
        return replace(readings, pods=pods)

    async def run(self) -> None:
        """Looks less often where there is more to look at: it is worth a fiftieth of the time."""
        while True:
            await asyncio.sleep(max(self.every_s, _REST_S * len(self.book.uses)))
            await self.look()

    async def look(self, there: Callable[[Pod], bool] = lambda _: True) -> None:
        """At every pod that holds GPUs and was there, a few at a time."""
        sums = {name: held.restarted() for name, held in self._some_sums()}
        uids, told = set(), dict[str, LatestReadings]()
        claimed = claimed_grants(self.cluster)
        async for each in _unhurried(list(self.cluster.holdings.values())):
            held = with_claimed(each, claimed)
            if holds_gpus(held) and held.node in self.cluster.row_of and there(held.pod):
                uids.add(held.pod.uid)
                if held.node not in told:
                    told[held.node] = self.latest.on(held.node, self.clock())
                whose = held.pod.namespace, held.pod.scheduler
                if whose not in sums and len(sums) >= MOST_SUMS:
                    whose = OTHERS
                self._add(held, told[held.node], sums.setdefault(whose, HeldTotals()))
        async for uid in _unhurried(list(self.book.uses)):
            if uid not in uids:
                del self.book.uses[uid]
        self.sums = _most_of(sums)
        self.latest.forget_all_but(self.cluster.row_of)

    @property
    def namespaces(self) -> frozenset[str]:
        """Those whose pods were seen to hold GPUs."""
        return frozenset(namespace for namespace, _ in self.sums)

    def _some_sums(self) -> list[tuple[tuple[str, str], HeldTotals]]:
        """All, or where they are too many only those of pods that are there."""
        if len(self.sums) < MOST_SUMS:
            return list(self.sums.items())
        return [(name, held) for name, held in self.sums.items() if held.held or name == OTHERS]

    def _add(self, held: Holding, told: LatestReadings, total: HeldTotals) -> None:
        now_s, before = self.clock(), self.book.uses.get(held.pod.uid)
        was = (before.held_s, before.wasted_s, before.idle_s, before.used_s) if before else _NONE
        seen = sample(held, self.cluster, told)
        use = self.book.add(held.pod.uid, seen, now_s)
        total.held += seen.held
        total.measured += seen.measured
        total.used += seen.used
        total.wasted += max(0.0, seen.measured - seen.used)
        total.held_s += use.held_s - was[0]
        total.wasted_s += use.wasted_s - was[1]
        total.idle_s += use.idle_s - was[2]
        total.used_s += use.used_s - was[3]

    async def report(self) -> UsageReport:
        now_s = self.clock()
        return UsageReport(
            since_s=now_s - self.since_s,
            gpus=[row async for row in _unhurried(self._gpus(EVERYTHING, now_s))],
            pods=[row async for row in _unhurried(self._pods(EVERYTHING, now_s))],
            held=self._held(EVERYTHING),
        )

    async def pieces(self, seen: ReportScope) -> AsyncIterator[bytes]:
        """A report of what may be seen as JSON, bit by bit: that of a large cluster is long."""
        now_s = self.clock()
        notes, held = _encode(seen.notes), _encode(self._held(seen))
        yield b'{"sinceS":%f,"notes":%b,"held":%b,"gpus":[' % (now_s - self.since_s, notes, held)
        async for piece in _encoded(self._gpus(seen, now_s)):
            yield piece
        yield b'],"pods":['
        async for piece in _encoded(self._pods(seen, now_s)):
            yield piece
        yield b"]}"

    def _held(self, seen: ReportScope) -> list[HeldRow]:
        """By namespace, pods that have ended included."""
        found = dict[str, HeldRow]()
        for (namespace, _), held in self.sums.items():
            if seen.namespaces is None or namespace in seen.namespaces:
                found[namespace] = _row(namespace, held, found.get(namespace))
        return list(found.values())

    def _gpus(self, seen: ReportScope, now_s: float) -> Iterator[GpuRow]:
        if seen.nodes:
            yield from reporting.gpu_rows(self.cluster, self.latest, now_s, seen.shows)

    def _pods(self, seen: ReportScope, now_s: float) -> Iterator[PodRow]:
        rows = reporting.pod_rows(self.cluster, self.book, now_s, self.enough_s, seen.shows)
        for row in rows:
            yield row if seen.nodes else msgspec.structs.replace(row, node="")


def _row(namespace: str, held: HeldTotals, before: HeldRow | None) -> HeldRow:
    """One more scheduler's part of a namespace."""
    seconds = held.held_s, held.used_s, held.idle_s, held.wasted_s
    hours = [each / HOUR_S for each in seconds]
    if before is not None:
        had = before.held_hours, before.used_hours, before.idle_hours, before.wasted_hours
        hours = [one + other for one, other in zip(hours, had, strict=True)]
    return HeldRow(namespace, *hours)


def _most_of(sums: dict[tuple[str, str], HeldTotals]) -> dict[tuple[str, str], HeldTotals]:
    """Namespaces come and go; of too many, those that have nothing now are forgotten."""
    over = len(sums) - _MOST_SUMS
    idle = [name for name, held in sums.items() if not held.held]
    for name in idle[: max(0, over)]:
        del sums[name]
    return sums


async def _encoded(rows: Iterator[msgspec.Struct]) -> AsyncIterator[bytes]:
    comma = b""
    while piece := b",".join(map(_encode, islice(rows, _SLICE))):
        yield comma + piece
        comma = b","
        await asyncio.sleep(0)


async def _unhurried(rows: Iterable[T]) -> AsyncIterator[T]:
    """All of them, with time for others now and then."""
    source: Iterator[T] = iter(rows)
    while slice_ := list(islice(source, _SLICE)):
        for row in slice_:
            yield row
        await asyncio.sleep(0)
