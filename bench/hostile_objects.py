"""Queues, reservations, counted resources, rules of users and a queue by run times."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from fairlead.apps.config.profiles import aiming, built_in, ruled
from fairlead.engine.engine import Engine
from fairlead.engine.events import AdvanceSeen, CountedSeen, NodeSeen, QueueGone, QueueSeen
from fairlead.kube.codec import decode_node
from fairlead.model.advance import AdvanceReservation
from fairlead.model.backfill import BackfillMode, BackfillTerms
from fairlead.model.counted import CountedLayer, CountedMode, CountedResource
from fairlead.model.queues import GPUS, QueueSpec
from fairlead.model.rules import NODE_RULE
from fairlead.plugins.goals import GoalLevel, Goals
from fairlead.plugins.goals_built_in import GOALS
from fairlead.plugins.rules import NodeRules
from hostile_cluster import (
    GANG,
    MAPPING,
    PROFILE,
    SCHEDULER,
    TEAMS,
    Made,
    Shape,
    Size,
    a_node,
    a_pod,
    encoded,
    gone,
    seen,
)
from pods import HOST, ZONE, Body


def queues(size: Size) -> Iterator[Made]:
    """Many queues, with pods that wait in each; one comes, changes its place, and goes."""
    for number in range(size.many // 4):
        yield _queue(number)
    for number in range(size.many):
        pod = a_pod(f"w{number}", gpus=1 + number % 8, cpu=f"{1 + number % 50}m")
        pod["metadata"]["labels"] = {"fairlead.dev/queue": f"q{number % (size.many // 4)}"}
        yield seen(pod)
    yield partial(QueueSeen, QueueSpec("fairlead/q1", "fairlead/q2", limit=((GPUS, 0),)))
    yield partial(QueueGone, "fairlead/q2")
    yield gone(size, 1)


def _queue(number: int) -> Made:
    parent = f"fairlead/q{number - number % 10}" if number % 10 else ""
    return partial(QueueSeen, QueueSpec(f"fairlead/q{number}", parent, guaranteed=((GPUS, 1000),)))


def reservations(size: Size) -> Iterator[Made]:
    """Of any GPUs, all at once, one after the other, and by label."""
    for number in range(size.many // 10):
        start_s = 3600.0 * (number + 1)
        end_s = start_s + 60.0
        yield partial(AdvanceSeen, AdvanceReservation(f"a{number}", start_s, end_s, gpus=9))
        chosen = (("topology.kubernetes.io/zone", f"zone-{number % 10}"),)
        yield partial(AdvanceSeen, AdvanceReservation(f"b{number}", 7200.0, 9000.0, chosen))
        yield partial(AdvanceSeen, AdvanceReservation(f"c{number}", 7200.0, 9000.0, gpus=10**7))
    yield seen(a_pod("h", gpus=8))


def counted_gpus(size: Size) -> Iterator[Made]:
    """Every pod has GPUs that are charged, and then for another amount."""
    for amount in (700, 500):
        spec = CountedResource("power", 10**9, per_gpu=(("*", amount),))
        yield partial(CountedSeen, spec)
        yield seen(a_pod(f"h{amount}", gpus=8))


def counted_layers(size: Size, *, by_label: bool) -> Iterator[Made]:
    """As many layers as there may be cover each node, and all pods are charged on each."""
    for number in range(size.nodes):
        raw = encoded(a_node(size, number, labels={"room": "one"}))
        yield lambda raw=raw: NodeSeen(decode_node(raw))
    chosen = {"label": ZONE} if by_label else {"selector": (("room", "one"),)}
    layers = tuple(CountedLayer(f"l{at}", 10**9, **chosen) for at in range(size.each // 40))
    yield partial(CountedSeen, CountedResource("power", layers=layers, per_gpu=(("*", 700),)))
    yield seen(a_pod("h", gpus=8))
    fewer = tuple(replace(layer, count=100) for layer in layers)
    yield partial(CountedSeen, CountedResource("power", layers=fewer, per_gpu=(("*", 700),)))
    yield seen(a_pod("i", gpus=1))
    yield gone(size, 1)


def counted_trees(size: Size) -> Iterator[Made]:
    """As deep as trees may be, with a leaf for each node; pods are charged on several of them."""
    depth = size.each // 40
    layers = tuple(
        CountedLayer(f"l{at}", 10**9, parent=f"l{at - 1}" if at else "") for at in range(depth - 1)
    )
    host = CountedLayer("host", 1000, label=HOST, parent=f"l{depth - 2}")
    names = [f"t{number}" for number in range(size.each // 500)]
    for name in names:
        spec = CountedResource(name, mode=CountedMode.TREE, layers=(*layers, host))
        yield partial(CountedSeen, spec)
    for number in range(2):
        pod = a_pod(f"h{number}", gpus=1)
        asked = ",".join(f"{name}=900" for name in names[:16])
        pod["metadata"]["annotations"] = {"fairlead.dev/counted-resources": asked}
        yield seen(pod)
        yield _changed(size, {"new": f"label-{number}"})
    yield gone(size, 1)


def counted_many(size: Size) -> Iterator[Made]:
    """As many resources as there may be, each with a layer for each node; labels change."""
    for number in range(size.many // 8):
        layer = CountedLayer("host", 10**6, label=HOST)
        spec = CountedResource(f"c{number}", layers=(layer,), per_gpu=(("*", 700),))
        yield partial(CountedSeen, spec)
    for number in range(2):
        yield seen(a_pod(f"h{number}", gpus=1))
        yield _changed(size, {"new": f"label-{number}"})
        yield _changed(size, {HOST: f"other-{number}"})
        yield seen(a_pod(f"i{number}", gpus=1))
    yield gone(size, 1)


def rules_of_users(size: Size) -> Iterator[Made]:
    """As much as one may cost for each node."""
    texts = " && ".join(f'node.labels["kubernetes.io/hostname"] != "{at}"' for at in range(20))
    for number, text in enumerate((texts, "node.labels.all(k, node.labels.all(l, k != 'x'))")):
        pod = a_pod(f"h{number}", gpus=8)
        pod["metadata"]["annotations"] = {NODE_RULE: text}
        yield seen(pod)


def short_first(size: Size) -> Iterator[Made]:
    """As many units wait as there are pods, with different run times; then one pod ends."""
    for number in range(size.pods):
        pod = a_pod(f"w{number}", gpus=9 + number % 40, namespace=f"team-{number % TEAMS}")
        pod["metadata"]["annotations"] = {"fairlead.dev/expected-duration": f"{60 + number}s"}
        yield seen(pod)
    yield gone(size, 1)
    yield _changed(size, {"new": "label"})


def gang_with_goals(size: Size) -> Iterator[Made]:
    """Its pods are placed one by one, and the goals count all nodes for each."""
    pods = size.each // 10 - 1
    for number in range(pods):
        pod = a_pod(f"h-{number}", cpu="100m")
        pod["metadata"]["annotations"] = {GANG: "g", f"{GANG}-min": str(pods)}
        yield seen(pod)


def _changed(size: Size, labels: Body) -> Made:
    raw = encoded(a_node(size, 2, labels=labels))
    return lambda: NodeSeen(decode_node(raw))


def ruled_engine() -> Engine:
    profile = ruled(built_in(PROFILE), NodeRules((), user_rules=True))
    return Engine({SCHEDULER: profile, MAPPING: built_in("gpu-scheduler")})


def goals_engine() -> Engine:
    goals = Goals(tuple(GoalLevel(((kind(), 1.0),)) for kind in GOALS.values()))
    profile = aiming(built_in(PROFILE), goals)
    return Engine({SCHEDULER: profile, MAPPING: built_in("gpu-scheduler")})


def short_first_engine() -> Engine:
    profiles = {SCHEDULER: built_in(PROFILE), MAPPING: built_in("gpu-scheduler")}
    return Engine(profiles, backfill=BackfillTerms(BackfillMode.SHORT_FIRST))


OBJECT_SHAPES: dict[str, Shape] = {
    "queues, many": queues,
    "reservations": reservations,
    "counted GPUs": counted_gpus,
    "counted on layers by label": partial(counted_layers, by_label=True),
    "counted on layers by selector": partial(counted_layers, by_label=False),
    "counted on deep trees": counted_trees,
    "counted, many resources": counted_many,
    "rules of users": rules_of_users,
    "short first": short_first,
    "gang with five goals": gang_with_goals,
}
#: Shapes for an engine that is configured otherwise.
ENGINES: dict[str, Callable[[], Engine]] = {
    "rules of users": ruled_engine,
    "short first": short_first_engine,
    "gang with five goals": goals_engine,
}
