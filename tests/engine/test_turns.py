"""No object holds the loop: what a turn costs is counted, for objects that cost much.

Each shape of `bench/hostile_shapes.py` is tried on a small cluster and on one of twice the size,
with objects of twice the size. Lines of Python that ran are counted, and what `Work` counts. The
longest turn may take at most twice as much then, and what follows from that for 5,000 nodes and
38,000 pods must fit into a quarter of a second: that is about 2.5 million lines.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest

from fairlead.cluster import free_volumes
from fairlead.engine import requeuer
from fairlead.engine.engine import Engine
from fairlead.engine.events import Decide, Event
from fairlead.placement import preempt
from hostile_cluster import Shape, Size, a_full_cluster
from hostile_shapes import SHAPES

MOST_LINES = 2_500_000
MOST_WORK = 250_000
PERCENT = (1, 2)
#: What keeps a turn short must be as small as the cluster, or it would not be met.
BOUNDS = [
    (room, name, getattr(room, name))
    for room, name in (
        (preempt, "_TRY_ALL"),
        (preempt, "_MOST_WORK"),
        (preempt, "_MOST_LESSER"),
        (preempt, "_MOST_COMPARED"),
        (free_volumes, "MOST_SPENT"),
        (requeuer, "_SLICE"),
        (requeuer, "_RECLASSIFIED"),
    )
]


@dataclass
class Counted:
    lines: int = 0


@contextmanager
def counting() -> Iterator[Counted]:
    counted = Counted()

    def trace(_frame: FrameType, event: str, _arg: Any) -> Callable[..., Any]:
        if event == "line":
            counted.lines += 1
        return trace

    sys.settrace(trace)
    try:
        yield counted
    finally:
        sys.settrace(None)


def turn(engine: Engine, made: Callable[[], Event]) -> tuple[int, int]:
    """Lines and work."""
    start = engine.cluster.work.spent
    with counting() as counted:
        engine.handle(made(), now=1.0)
    return counted.lines, engine.cluster.work.spent - start


def longest(shape: Shape, size: Size) -> tuple[int, int]:
    """Of all turns the most lines, and the most work."""
    engine = a_full_cluster(size)
    lines = work = 0
    for made in shape(size):
        found = [turn(engine, made)]
        while engine.queue.has_active() or engine.wake_at_s() == 0.0:
            found.append(turn(engine, Decide))
        lines = max(lines, *(each[0] for each in found))
        work = max(work, *(each[1] for each in found))
    return lines, work


@pytest.mark.parametrize("name", SHAPES)
def test_no_object_holds_the_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for percent in PERCENT:
        for room, name_, whole in BOUNDS:
            monkeypatch.setattr(room, name_, whole * percent // 100)
        seen.append(longest(SHAPES[name], Size.percent(percent)))
    for what, most, small, large in zip(
        ("lines", "work"), (MOST_LINES, MOST_WORK), *seen, strict=True
    ):
        whole = small + (large - small) * (100 - PERCENT[0]) // (PERCENT[1] - PERCENT[0])
        print(f"{name}: {what} {small}, {large}, at full size {whole}")
        assert large <= 2.2 * small + 15_000, f"{what} grow from {small} to {large}"
        assert whole <= most, f"{what}: {whole} at full size"
