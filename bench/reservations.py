"""The longest turn of an engine with many Reservations on a large cluster.

    python bench/reservations.py [--nodes 5000] [--pods 38000] [--reservations 2000]

Reservations ask for GPUs of any node, one after the other in time or all at once, for more than
there are, for single GPUs of nodes, or select nodes by label. CPU milliseconds of the longest call
of `handle`, `tend` and `decide`, and of `tend` in a second when all have been looked at; one line
of JSON each.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial

from fairlead.apps.config.profiles import built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import AdvanceSeen, NodeSeen, PodSeen
from fairlead.model.advance import AdvanceReservation
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.run_times import ANNOTATION, RunTime

_SCHEDULER = "gpu-scheduler"
_ROOM = (("cpu", 128_000), ("memory", 1 << 40), ("pods", 110), (GPU, 8))


def filled(nodes: int, pods: int) -> Engine:
    engine = Engine({_SCHEDULER: built_in(_SCHEDULER)})
    for number in range(nodes):
        labels = {"rack": f"r{number % 100}"}
        node = Node(f"n{number}", uid=f"n{number}", labels=labels, allocatable=_ROOM)
        engine.handle(NodeSeen(node), now=0.0)
    for number in range(pods):
        engine.handle(PodSeen(_pod(number, node=f"n{number % nodes}")), now=0.0)
    return engine


def _pod(number: int, node: str = "") -> Pod:
    known = RunTime(600.0 + number % 5000, None, ANNOTATION) if number % 2 else None
    request = PodRequest(resources=(("cpu", 1000), (GPU, 1)))
    name = f"p{number}"
    started = "1970-01-01T00:00:00Z" if node else ""
    return Pod("team", name, name, scheduler=_SCHEDULER, request=request, node=node,
               usage=request.resources, run_time=known, started=started)  # fmt: skip


def in_turn(count: int) -> Iterator[AdvanceReservation]:
    for number in range(count):
        start_s = 3600.0 * (number + 1)
        yield AdvanceReservation(f"a{number}", start_s, start_s + 3600.0, gpus=64)


def at_once(count: int) -> Iterator[AdvanceReservation]:
    for number in range(count):
        yield AdvanceReservation(f"a{number}", 7200.0, 10_800.0, gpus=8)


def too_many(count: int) -> Iterator[AdvanceReservation]:
    for number in range(count):
        yield AdvanceReservation(f"a{number}", 7200.0, 10_800.0, gpus=10_000_000)


def by_label(count: int) -> Iterator[AdvanceReservation]:
    for number in range(count):
        chosen = (("rack", f"r{number % 100}"),)
        yield AdvanceReservation(f"a{number}", 7200.0, 10_800.0, chosen)


def by_gpu(count: int) -> Iterator[AdvanceReservation]:
    """Single GPUs: of free ones first, then of those that will be, more than there may be."""
    for number in range(count):
        yield AdvanceReservation(f"a{number}", 7200.0, 10_800.0, gpus=64, gpus_per_node=1)


def by_gpu_in_turn(count: int) -> Iterator[AdvanceReservation]:
    for number in range(count):
        start_s = 3600.0 * (number + 1)
        yield AdvanceReservation(f"a{number}", start_s, start_s + 3600.0, gpus=64, gpus_per_node=2)


class Longest:
    """Of calls, by name."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}

    def __call__(self, name: str, call: Callable[[], object]) -> None:
        began_s = time.process_time()
        call()
        took_ms = 1000 * (time.process_time() - began_s)
        self.ms[name] = max(self.ms.get(name, 0.0), took_ms)


def measured(nodes: int, pods: int, specs: Iterator[AdvanceReservation]) -> dict[str, float]:
    engine, longest, now = filled(nodes, pods), Longest(), 1.0
    for spec in specs:
        longest("seen", partial(engine.handle, AdvanceSeen(spec), now=now))
    for turn in range(1500):
        longest("tend", partial(engine.tend, now=now + turn / 100))
    now, began_s = now + 60.0, time.process_time()
    for turn in range(1000):
        engine.tend(now=now + turn / 100)
    longest.ms["tend per second"] = 100 * (time.process_time() - began_s)
    now += 10.0
    for number in range(pods, pods + 20):
        longest("pod seen", partial(engine.handle, PodSeen(_pod(number)), now=now))
        longest("decide", partial(engine.decide, now=now))
    again = Node("n0", uid="n0", labels={"rack": "r1"}, allocatable=_ROOM)
    longest("node seen", partial(engine.handle, NodeSeen(again), now=now))
    return {name: round(ms, 1) for name, ms in longest.ms.items()}


_SHAPES = (in_turn, at_once, too_many, by_label, by_gpu, by_gpu_in_turn)


def main(nodes: int, pods: int, count: int, only: str) -> None:
    for make in _SHAPES if not only else (globals()[only],):
        figures = measured(nodes, pods, make(count))
        print(json.dumps({"reservations": make.__name__, "longest_ms": figures}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=38_000)
    parser.add_argument("--reservations", type=int, default=2000)
    parser.add_argument("--only", default="", choices=["", *(make.__name__ for make in _SHAPES)])
    chosen = parser.parse_args()
    main(chosen.nodes, chosen.pods, chosen.reservations, chosen.only)
