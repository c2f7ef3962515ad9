"""No object holds the loop: what a turn costs is counted, for objects that cost much.

Each shape of `bench/hostile_shapes.py` is tried on a small cluster and on one of twice the size,
with objects of twice the size. Lines of Python that ran are counted, what `Work` counts, and bytes
that numpy went through (`turn_costs.py`). The longest turn may take at most twice as much then, and
what follows from that for 5,000 nodes and 38,000 pods must fit into a quarter of a second: that is
about 2.5 million lines, or a gigabyte.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeAlias

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from fairlead.apps.config.profiles import built_in
from fairlead.claims import inventory, turn_limit
from fairlead.cluster import claim_search, counted_books, crowded, free_volumes
from fairlead.engine import (
    advance,
    advance_choice,
    claim_gates,
    counted_statuses,
    extended_resources,
    gang_flights,
    gang_trials,
    gang_views,
    goal_waits,
    kept_records,
    later_alternatives,
    plans,
    requeuer,
    service_goals,
    start_windows,
)
from fairlead.engine.backfill import attempts, ends, made_plans, planner, trial_parts
from fairlead.engine.engine import Engine
from fairlead.engine.extender_queries import ExtenderQueries
from fairlead.kube.codec import decode_pod
from fairlead.placement import gang_topology, preempt
from fairlead.placement.place import Placement
from fairlead.plugins import rule_expressions
from fairlead.queue import long_waits, queue
from hostile_cluster import Later, Made, Size, a_full_cluster, a_pod, encoded
from hostile_evictions import EVICTION_SHAPES
from hostile_shapes import SHAPES, a_cluster_for
from pods import HOST, Body
from turn_costs import Counted, counting, counting_lines

MOST_LINES = 2_500_000
MOST_WORK = 250_000
MOST_BYTES = 1_000_000_000
#: Of searches for devices: they are counted at their most expensive.
MOST_DEVICE_WORK = 300_000
#: At one percent, the pod of many containers still fits without a search for victims.
SLACK = 1000
#: Of memory: lists and dicts grow by leaps.
SLACK_BYTES = 1_000_000
LIMITS = (
    ("lines", MOST_LINES, SLACK),
    ("work", MOST_WORK, SLACK),
    ("bytes", MOST_BYTES, SLACK_BYTES),
)
#: Where pods that end are taken away together: one by one they would count for more.
LESS_WORK = dict.fromkeys((name for name in SHAPES if "planned gangs" in name), 150_000)
PERCENT = (1, 2)
#: A member with claims costs the same in a cluster of any size. In smaller ones, with bounds that
#: are as small as the cluster, its gang would not be planned.
LARGER = {
    "planned claims, easy": (2, 4),
    "planned claims, many": (8, 16),
    # At one percent, a gang has four pods and is divided over turns; at two, its eight are not.
    "gang for the solver": (4, 8),
    "gang beyond the solver": (4, 8),
}
#: Shapes that numpy works for, one of each kind: to count bytes takes four times as long.
IN_ARRAYS = frozenset(
    {
        "anti-affinity by node",
        "node affinity",
        "node affinity, many keys",
        "term of many namespaces",
        "tolerations",
        "host ports",
        "many resources",
        "preemption",
        "node with resources",
        "gang of different pods",
        "gang of different pods, one zone",
        "local volumes",
        "storage capacities",
        "claim, selector of each device",
        "reservations",
        "counted GPUs",
        "counted on layers by label",
        "counted on deep trees",
        "rules of users",
        "gang with five goals",
        "gang of slices, zones and goals",
        "gang of shares, zones and goals",
        "planned gangs, conservative",
        "tenants relabelled",
    }
)
#: Those that take the most CPU: only `make test-all` tries them. Of each kind, others remain.
LONG = frozenset(
    {
        "HyperNodes with patterns",
        "anti-affinity by node",
        "beside a large planned gang",
        "beside planned gangs, many",
        "claim of many pods",
        "claim, expensive selector",
        "claim, many alternatives",
        "claim, many constraints",
        "claim, selector of each device",
        "claims that change",
        "claims, dynamic MIG",
        "claims, many",
        "claims, many kinds of requests",
        "class for plain pods",
        "counted GPUs",
        "counted on layers by label",
        "counted, many resources",
        "devices kept for many pods",
        "devices of zones",
        "devices with nodes of their own",
        "gang beyond the solver",
        "gang for devices of others",
        "gang for devices, alternatives",
        "gang for one device each",
        "gang of claims",
        "gang of claims with pairs",
        "gang of different pods",
        "gang of different pods, one zone",
        "gang of shares, zones and goals",
        "gang of slices, zones and goals",
        "gang of too many pods",
        "gangs, many alternatives of claims",
        "kinds in one queue",
        "node affinity, many keys",
        "nominated pods",
        "planned claims, easy",
        "planned claims, large gangs",
        "planned claims, many",
        "planned gangs, conservative",
        "queues, many",
        "reservations",
        "rules of users",
        "short first",
        "slices of one pool",
        "slices published again",
        "taint rule for all devices",
        "taint rules, many",
        "tenants relabelled",
        "volumes",
        "waiting for long",
        "waiting for long in queues",
        "waiting, with priorities",
    }
)
#: What keeps a turn short must be as small as the cluster, or it would not be met.
BOUNDS = [
    (room, name, getattr(room, name))
    for room, name in (
        (preempt, "_TRY_ALL"),
        (preempt, "_MOST_WORK"),
        (preempt, "_MOST_EVICTABLE"),
        (preempt, "_MOST_COMPARED"),
        (free_volumes, "MOST_SPENT"),
        (crowded, "MOST_WEIGHT"),
        (requeuer, "_SLICE"),
        (requeuer, "_RECLASSIFIED"),
        (long_waits, "_SLICE"),
        (queue, "_MOVED"),
        (gang_flights, "SLICE"),
        (gang_flights, "SLICE_WORK"),
        (gang_views, "WORK"),
        (gang_trials, "_MOST_WORK"),
        (gang_trials, "_MOST_CLAIM_WORK"),
        (gang_topology, "MOST_WORK"),
        (later_alternatives, "_TURN_WORK"),
        (kept_records, "_MOST_IN_TURN"),
        (turn_limit, "_STEPS"),
        (inventory, "FEW_DEVICES"),
        (claim_search, "_MOST_STEPS"),
        (claim_gates, "_SLICE"),
        (counted_books, "_SLICE"),
        (counted_statuses, "_LAYERS_OF_TURN"),
        (extended_resources, "_SLICE"),
        (rule_expressions, "USER_COST"),
        (ends, "_MOST_LOOKS"),
        (ends, "_FEW_LOOKS"),
        (planner, "_MOST_WORK"),
        (planner, "_MOST_FREED"),
        (planner, "_MOST_FREED_CLAIMS"),
        (planner, "_MOST_CLAIMING"),
        (planner, "_MOST_BESIDE"),
        (planner, "_MORE_ROWS"),
        (trial_parts, "_PART_WORK"),
        (trial_parts, "_TURN_WORK"),
        (made_plans, "MOST_WORK"),
        (made_plans, "MANY_PODS"),
        (made_plans, "_MANY_MEMBERS"),
        (made_plans, "_MOST_LISTED"),
        (attempts, "_MOST_WORK"),
        (attempts, "_MANY_MEMBERS"),
        (advance, "_MOST_WORK"),
        (advance_choice, "_MOST_RANKED"),
        (start_windows, "_AT_ONCE"),
        (service_goals, "_AT_ONCE"),
        (goal_waits, "_AT_ONCE"),
        (plans, "_MOST_WORK"),
        (plans, "_MOST_LOOKED"),
        (plans, "_SMALL"),
    )
]


#: Lines, work and bytes of a turn.
Cost: TypeAlias = tuple[int, int, int]
Counting: TypeAlias = Callable[[], AbstractContextManager[Counted]]


def turn(engine: Engine, step: Callable[[], object], count: Counting) -> Cost:
    start = engine.cluster.work.spent
    with count() as counted:
        step()
    return counted.lines, engine.cluster.work.spent - start, counted.bytes


def handled(engine: Engine, made: Made, now: float, count: Counting) -> Cost:
    """Of one event, and of reading it."""
    return turn(engine, lambda: engine.handle(made(), now=now), count)


def drained(engine: Engine, now: float, count: Counting) -> Iterator[Cost]:
    """Of what is due, and of one attempt after the other, as the driver does it."""
    while True:
        yield turn(engine, partial(engine.tend, now=now), count)
        yield turn(engine, partial(engine.decide, now=now), count)
        if not engine.queue.has_active() and engine.wake_at_s() != 0.0:
            return


def longest(name: str, size: Size) -> Cost:
    """The most of any turn."""
    engine = a_cluster_for(name, size)
    count = counting if name in IN_ARRAYS else counting_lines
    most: Cost = 0, 0, 0
    now = 1.0
    for made in SHAPES[name](size):
        if isinstance(made, Later):
            now += made.seconds
        else:
            most = max_of([most, handled(engine, made, now, count)])
        if isinstance(made, Later) or engine.queue.has_active() or engine.wake_at_s() == 0.0:
            most = max_of([most, *drained(engine, now, count)])
    return most


def max_of(costs: list[Cost]) -> Cost:
    lines, work, used = zip(*costs, strict=True)
    return max(lines), max(work), max(used)


def asked_by_kube_scheduler(verb: str, size: Size) -> Cost:
    """Of an extender's answer about all nodes, where every pod is offered."""
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
    return counted.lines, cluster.work.spent - start, counted.bytes


def hostile_pod() -> Body:
    line = {"key": "app", "operator": "Exists"}
    term = {"topologyKey": HOST, "labelSelector": {"matchExpressions": [line]}}
    terms = [{**term, "namespaces": [f"team-{number}"]} for number in range(60)]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return a_pod("h", gpus=8, priority=10, affinity={"podAntiAffinity": {required: terms}})


def marked(name: str) -> ParameterSet:
    return pytest.param(name, marks=[pytest.mark.slow] if name in LONG else [])


@pytest.mark.parametrize("name", [marked(each) for each in SHAPES if each not in EVICTION_SHAPES])
def test_no_object_holds_the_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_growth(name, partial(longest, name), monkeypatch)


@pytest.mark.parametrize("name", [marked(each) for each in EVICTION_SHAPES])
def test_no_gang_with_claims_holds_the_loop(name: str) -> None:
    """As large as it may be, on as few nodes as it needs: what it costs is not for the nodes."""
    size, now, most = Size(150, 0), 1.0, (0, 0, 0)
    engine = a_cluster_for(name, size)
    for made in EVICTION_SHAPES[name](size, part=1):
        if isinstance(made, Later):
            now += made.seconds
        else:
            engine.handle(made(), now=now)
        if isinstance(made, Later) or engine.queue.has_active() or engine.wake_at_s() == 0.0:
            most = max_of([most, *drained(engine, now, counting_lines)])
    print(f"{name}: lines {most[0]}, work {most[1]}")
    assert most[0] <= MOST_LINES
    assert most[1] <= MOST_DEVICE_WORK


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
def test_no_question_of_kube_scheduler_holds_the_loop(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_growth(verb, partial(asked_by_kube_scheduler, verb), monkeypatch)


def check_growth(
    name: str, measured: Callable[[Size], Cost], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, percents = [], LARGER.get(name, PERCENT)
    for percent in percents:
        for room, name_, whole in BOUNDS:
            monkeypatch.setattr(room, name_, whole * percent // 100)
        seen.append(measured(Size.percent(percent)))
    for (what, most, slack), small, large in zip(LIMITS, *seen, strict=True):
        whole = small + (large - small) * (100 - percents[0]) // (percents[1] - percents[0])
        print(f"{name}: {what} {small}, {large}, at full size {whole}")
        assert large <= 2.2 * small + slack, f"{what} grow from {small} to {large}"
        limit = LESS_WORK.get(name, most) if what == "work" else most
        assert whole <= limit, f"{what}: {whole} at full size"


def test_what_numpy_goes_through_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows times columns, both of which double: no line more, and four times as much."""

    def made(size: Size) -> Cost:
        with counting() as counted:
            table = np.zeros((100 * size.nodes, size.nodes))
            assert not (table > 1).any()
        return counted.lines, 0, counted.bytes

    with pytest.raises(AssertionError, match="bytes grow"):
        check_growth("table", made, monkeypatch)


def test_a_method_of_an_array_that_makes_none_is_counted() -> None:
    table = np.zeros(1_000_000)
    with counting() as counted:
        assert table.sum() == 0
    assert counted.bytes >= table.nbytes
