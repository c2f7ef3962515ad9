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
from functools import partial
from types import FrameType
from typing import Any

import pytest

from fairlead.apps.config.profiles import built_in
from fairlead.claims import columns, turn_limit
from fairlead.cluster import claim_search, counted_books, free_volumes
from fairlead.engine import (
    claim_gates,
    extended_resources,
    gang_flights,
    gang_trials,
    gang_views,
    requeuer,
)
from fairlead.engine.engine import Engine
from fairlead.engine.extender_queries import ExtenderQueries
from fairlead.kube.codec import decode_pod
from fairlead.placement import preempt
from fairlead.placement.place import Placement
from fairlead.plugins import rule_expressions
from fairlead.queue import long_waits, queue
from hostile_cluster import Later, Made, Size, a_full_cluster, a_pod, encoded
from hostile_shapes import SHAPES, a_cluster_for
from pods import HOST, Body

MOST_LINES = 2_500_000
MOST_WORK = 250_000
#: At one percent, the pod of many containers still fits without a search for victims.
SLACK = 1000
PERCENT = (1, 2)
#: What keeps a turn short must be as small as the cluster, or it would not be met.
BOUNDS = [
    (room, name, getattr(room, name))
    for room, name in (
        (preempt, "_TRY_ALL"),
        (preempt, "_MOST_WORK"),
        (preempt, "_MOST_EVICTABLE"),
        (preempt, "_MOST_COMPARED"),
        (free_volumes, "MOST_SPENT"),
        (requeuer, "_SLICE"),
        (requeuer, "_RECLASSIFIED"),
        (long_waits, "_SLICE"),
        (queue, "_MOVED"),
        (gang_flights, "SLICE"),
        (gang_flights, "SLICE_WORK"),
        (gang_views, "WORK"),
        (gang_trials, "_MOST_WORK"),
        (turn_limit, "_STEPS"),
        (columns, "ROWS_AT_ONCE"),
        (claim_search, "_MOST_STEPS"),
        (claim_gates, "_SLICE"),
        (counted_books, "_SLICE"),
        (extended_resources, "_SLICE"),
        (rule_expressions, "USER_COST"),
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


def turn(engine: Engine, made: Made | None, now: float) -> tuple[int, int]:
    """Lines and work of one event, or of one attempt."""
    start = engine.cluster.work.spent
    with counting() as counted:
        engine.handle(made(), now=now) if made else engine.decide(now=now)
    return counted.lines, engine.cluster.work.spent - start


def longest(name: str, size: Size) -> tuple[int, int]:
    """Of all turns the most lines, and the most work."""
    engine = a_cluster_for(name, size)
    lines = work = 0
    now = 1.0
    for made in SHAPES[name](size):
        if isinstance(made, Later):
            now += made.seconds
        found = [turn(engine, None if isinstance(made, Later) else made, now)]
        while engine.queue.has_active() or engine.wake_at_s() == 0.0:
            found.append(turn(engine, None, now))
        lines = max(lines, *(each[0] for each in found))
        work = max(work, *(each[1] for each in found))
    return lines, work


def asked_by_kube_scheduler(verb: str, size: Size) -> tuple[int, int]:
    """Lines and work of an extender's answer about all nodes, where every pod is offered."""
    cluster = a_full_cluster(size).cluster
    queries = ExtenderQueries(Placement(built_in("gpu-scheduler"), cluster), cluster)
    pod = decode_pod(encoded(hostile_pod()))
    nodes = list(cluster.row_of)
    offered = {node: [each.uid for each in cluster.pods_on(node)] for node in nodes}
    asked = {
        "filter": lambda: queries.filter_nodes(pod, nodes),
        "prioritize": lambda: queries.prioritize(pod, nodes),
        "preempt": lambda: queries.preempt(pod, offered),
    }
    start = cluster.work.spent
    with counting() as counted:
        asked[verb]()
    return counted.lines, cluster.work.spent - start


def hostile_pod() -> Body:
    line = {"key": "app", "operator": "Exists"}
    term = {"topologyKey": HOST, "labelSelector": {"matchExpressions": [line]}}
    terms = [{**term, "namespaces": [f"team-{number}"]} for number in range(60)]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return a_pod("h", gpus=8, priority=10, affinity={"podAntiAffinity": {required: terms}})


@pytest.mark.parametrize("name", SHAPES)
def test_no_object_holds_the_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_growth(name, partial(longest, name), monkeypatch)


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
def test_no_question_of_kube_scheduler_holds_the_loop(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_growth(verb, partial(asked_by_kube_scheduler, verb), monkeypatch)


def check_growth(
    name: str, measured: Callable[[Size], tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for percent in PERCENT:
        for room, name_, whole in BOUNDS:
            monkeypatch.setattr(room, name_, whole * percent // 100)
        seen.append(measured(Size.percent(percent)))
    for what, most, small, large in zip(
        ("lines", "work"), (MOST_LINES, MOST_WORK), *seen, strict=True
    ):
        whole = small + (large - small) * (100 - PERCENT[0]) // (PERCENT[1] - PERCENT[0])
        print(f"{name}: {what} {small}, {large}, at full size {whole}")
        assert large <= 2.2 * small + SLACK, f"{what} grow from {small} to {large}"
        assert whole <= most, f"{what}: {whole} at full size"
