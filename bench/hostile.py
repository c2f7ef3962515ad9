"""The longest turn of the engine for objects that cost as much as they can: one line a shape.

python bench/hostile.py [--nodes 5000] [--pods 38000] [--only WORDS]

A turn is one event, read from JSON where a user writes it, one Decide, or one pass of Python's
garbage collector between turns. Work is counted as `fairlead.cluster.work` does it, and is the most
of any turn.
"""

import argparse
import gc
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from fairlead.apps.collection import GarbageCollection, spare_the_collector
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceFailure, Instruction
from hostile_cluster import Later, Made, Size
from hostile_shapes import SHAPES, a_cluster_for

#: A shape ends when this many Decides in a row had nothing more to do, or after so many in all.
_MOST_DECIDES = 80_000


@dataclass(slots=True)
class Longest:
    cpu_s: float = 0.0
    what: str = ""
    #: The most of any turn, as `Work.spent` counts it.
    work: int = 0

    def note(self, cpu_s: float, work: int, what: str) -> None:
        self.work = max(self.work, work)
        if cpu_s > self.cpu_s:
            self.cpu_s, self.what = cpu_s, what


class Clock:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.collection = GarbageCollection(lambda: True, lambda: False)
        self.longest = Longest()
        self.turns = 0
        self.told: list[str] = []
        self.now_s = 1.0

    def turn(self, made: Made) -> None:
        work, started = self.engine.cluster.work.spent, time.process_time()
        event = made()
        steps = self.engine.handle(event, now=self.now_s)
        self._note(type(event).__name__, steps, work, started)

    def attempt(self) -> bool:
        """Whether there was a pod to try."""
        work, started = self.engine.cluster.work.spent, time.process_time()
        attempt = self.engine.decide(now=self.now_s)
        self._note("Decide", attempt.instructions if attempt else (), work, started)
        return attempt is not None

    def tend(self) -> None:
        work, started = self.engine.cluster.work.spent, time.process_time()
        self._note("tend", self.engine.tend(now=self.now_s), work, started)

    def _note(self, what: str, steps: Sequence[Instruction], work: int, started: float) -> None:
        cpu_s = time.process_time() - started
        self.longest.note(cpu_s, self.engine.cluster.work.spent - work, what)
        started = time.process_time()
        self.collection.look(0.0, time.process_time())
        self.longest.note(time.process_time() - started, 0, "collection")
        self.turns += 1
        self.told += [step.message for step in steps if isinstance(step, AnnounceFailure)]

    def drain(self) -> None:
        for _ in range(_MOST_DECIDES):
            self.tend()
            due = self.engine.wake_at_s()
            if not self.attempt() and (due is None or due > self.now_s):
                return


def measure(name: str, size: Size) -> Clock:
    clock = Clock(a_cluster_for(name, size))
    gc.freeze()  # as `fairlead run` does when everything is listed
    for made in SHAPES[name](size):
        if isinstance(made, Later):
            clock.now_s += made.seconds
        else:
            clock.turn(made)
        if isinstance(made, Later) or clock.engine.queue.has_active():
            clock.drain()
    clock.drain()
    return clock


@dataclass(slots=True)
class Measured:
    longest: Longest
    turns: int
    told: list[str]


def _apart(name: str, size: Size) -> Measured:
    """In a process of its own: the garbage collector would walk what earlier shapes left."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_measured, name, size).result()


def _measured(name: str, size: Size) -> Measured:
    spare_the_collector()  # as `fairlead run` does
    clock = measure(name, size)
    return Measured(clock.longest, clock.turns, clock.told[-1:])


def main() -> None:
    options = _options()
    size = Size(options.nodes, options.pods, options.many)
    print(f"{size.nodes} nodes, {size.pods} pods", flush=True)
    for name in SHAPES:
        if not any(word in name for word in options.only or [name]):
            continue
        found = _apart(name, size)
        longest = found.longest
        print(f"{name:32} {1000 * longest.cpu_s:9.1f} ms {longest.what:14}"
              f"{longest.work:9} work {found.turns:7} turns", flush=True)  # fmt: skip
        if options.told:
            print(f"    {(found.told or ['placed'])[-1][:300]}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=38_000)
    parser.add_argument("--many", type=int, default=4000, help="of objects that come in numbers")
    parser.add_argument("--only", nargs="+", help="only shapes with one of these words")
    parser.add_argument("--told", action="store_true", help="print what the last pod was told")
    return parser.parse_args()


if __name__ == "__main__":
    main()
