"""Gangs of slices and shares with topology rules and goals, and gangs that wait for their start."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from fairlead.apps.config.profiles import aiming, built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import FiguresSeen, ForecastDue, InventorySeen, PodSeen
from fairlead.kube.codec import decode_pod
from fairlead.model.backfill import BackfillMode, BackfillTerms
from fairlead.model.gpus import FAIRLEAD, Gpu, Inventory, MigProfile
from fairlead.model.machines import geometry_of
from fairlead.model.node_figures import NAME, Figure, FigureList, FigureRule, SeenFigures
from fairlead.model.run_times import RunTime
from fairlead.model.solver import SolverTerms
from fairlead.plugins.goals import GoalLevel, Goals
from fairlead.plugins.goals_built_in import GOALS, PodCost, UnusedCost
from hostile_cluster import GANG, MAPPING, SCHEDULER, Made, Shape, Size, a_pod, encoded, gone, seen
from pods import ZONE, Body

_MODEL, _MIB = "NVIDIA A100-SXM4-80GB", 81920
_GEOMETRY = geometry_of(_MODEL, _MIB)
_SLICE = "fairlead.dev/gpu-slice"
_SHARE = "fairlead.dev/gpu-share"


def _inventories(size: Size, geometry: tuple[MigProfile, ...]) -> Iterator[Made]:
    slots = 8 if geometry else 0
    for number in range(size.nodes):
        name = size.node(number)
        gpus = (
            Gpu(f"GPU-{name}-{at}", at, _MODEL, _MIB, mig=geometry, slots=slots) for at in range(8)
        )
        yield partial(
            InventorySeen, name, "bench", Inventory(tuple(gpus), dialects=frozenset({FAIRLEAD}))
        )


def _member(name: str, gang: str, pods: int, **words: str) -> Body:
    body = a_pod(name, cpu="100m")
    body["spec"]["schedulerName"] = MAPPING
    body["metadata"]["annotations"] = {GANG: gang, f"{GANG}-min": str(pods), **words}
    return body


def parts_of_gpus(size: Size, word: str, values: tuple[str, ...]) -> Iterator[Made]:
    """A gang of parts of GPUs that prefers few zones, and one that requires a zone."""
    yield from _inventories(size, _GEOMETRY if word == _SLICE else ())
    pods = size.each // 10 - 1
    topology = {f"{GANG}-topology": f"preferred: {ZONE}"}
    for gang in ("g", "h"):
        for number in range(pods):
            asked = {word: values[number % len(values)]}
            yield seen(_member(f"{gang}-{number}", gang, pods, **asked, **topology))
        topology = {f"{GANG}-topology": f"required: {ZONE}"}
    yield gone(size, 1)


def planned_gangs(size: Size) -> Iterator[Made]:
    """Running pods end one after the other; large gangs wait for their planned starts."""
    yield from _ending_pods(size)
    yield from _waiting_gangs(size, "g", 4, size.each * 512 // 10_000, gpus=8)
    for number in range(10):
        yield gone(size, number)
    yield partial(ForecastDue, 50)


def planned_gangs_of_most_pods(size: Size) -> Iterator[Made]:
    """As many pods as a planned gang may have, where as many pods end as a trial takes away."""
    yield from _ending_pods(size)
    yield from _waiting_gangs(size, "g", 2, size.each // 10, gpus=5)
    for number in range(10):
        yield gone(size, number)


def beside_planned_gangs(size: Size) -> Iterator[Made]:
    """Nodes become free that large gangs are planned for; many others could use them until then."""
    yield from _ending_pods(size)
    yield from _waiting_gangs(size, "g", 4, size.each * 512 // 10_000, gpus=8)
    yield from _waiting_gangs(size, "h", 12, size.each * 64 // 10_000 + 1, gpus=7)
    for number in range(size.pods // 50):
        yield gone(size, size.nodes * (number % 7) + number // 7)


def _ending_pods(size: Size) -> Iterator[Made]:
    kind = decode_pod(encoded(a_pod("there", cpu="1", gpus=1)))
    for number in range(size.pods):
        uid = f"there-{number}"
        run = RunTime(bound_s=float(60 + 36_000 * number // size.pods), source="bench")
        pod = replace(kind, name=uid, uid=uid, node=size.node(number), run_time=run, namespace="t",
                      started="1970-01-01T00:00:00Z")  # fmt: skip
        yield partial(PodSeen, pod)


def _waiting_gangs(size: Size, name: str, gangs: int, pods: int, gpus: int) -> Iterator[Made]:
    """Each of them runs for an hour more than the one before."""
    for gang in range(gangs):
        run_time = {"fairlead.dev/run-time": f"{1 + gang}h"}
        words = {GANG: f"{name}{gang}", f"{GANG}-min": str(pods), **run_time}
        for number in range(pods):
            body = a_pod(f"{name}{gang}-{number}", gpus=gpus)
            body["metadata"]["annotations"] = words
            yield seen(body)


def solved_gang(size: Size, part: int = 25) -> Iterator[Made]:
    """Pods of four sizes on nodes of which each has its price: the solver is asked about them."""
    rules = tuple(
        FigureRule(((NAME, size.node(number)),), 10.0 + number % 97) for number in range(size.nodes)
    )
    yield partial(FiguresSeen, SeenFigures(Figure.PRICE, (FigureList("bench", rules),)))
    pods = size.each // part
    for number in range(pods):
        body = a_pod(f"s-{number}", cpu=f"{100 * (number % 4 + 1)}m")
        body["metadata"]["annotations"] = {GANG: "s", f"{GANG}-min": str(pods)}
        yield seen(body)


def solver_engine() -> Engine:
    goals = Goals((GoalLevel(((PodCost(), 1.0), (UnusedCost(), 1.0))),))
    profile = replace(aiming(built_in("default-scheduler"), goals), solver=SolverTerms())
    return Engine({SCHEDULER: profile, MAPPING: built_in("gpu-scheduler")})


def goals_engine() -> Engine:
    goals = Goals(tuple(GoalLevel(((kind(), 1.0),)) for kind in GOALS.values()))
    profiles = {SCHEDULER: built_in("default-scheduler"), MAPPING: built_in("gpu-scheduler")}
    return Engine({name: aiming(profile, goals) for name, profile in profiles.items()})


def planning_engine(mode: BackfillMode) -> Engine:
    profiles = {SCHEDULER: built_in("default-scheduler"), MAPPING: built_in("gpu-scheduler")}
    return Engine(profiles, backfill=BackfillTerms(mode))


GANG_SHAPES: dict[str, Shape] = {
    "gang for the solver": solved_gang,
    "gang beyond the solver": partial(solved_gang, part=10),
    "gang of slices, zones and goals": partial(
        parts_of_gpus, word=_SLICE, values=("1g.10gb", "2g.20gb", "3g.40gb")
    ),
    "gang of shares, zones and goals": partial(
        parts_of_gpus, word=_SHARE, values=("0.1", "0.25", "0.5")
    ),
    "planned gangs, easy": planned_gangs,
    "planned gangs, conservative": planned_gangs,
    "planned gangs, short-first": planned_gangs,
    "planned gangs of most pods, easy": planned_gangs_of_most_pods,
    "planned gangs of most pods, many": planned_gangs_of_most_pods,
    "beside planned gangs, easy": beside_planned_gangs,
    "beside planned gangs, many": beside_planned_gangs,
}
GANG_ENGINES: dict[str, Callable[[], Engine]] = {
    "gang for the solver": solver_engine,
    "gang beyond the solver": solver_engine,
    "gang of slices, zones and goals": goals_engine,
    "gang of shares, zones and goals": goals_engine,
    "planned gangs, easy": partial(planning_engine, BackfillMode.EASY),
    "planned gangs, conservative": partial(planning_engine, BackfillMode.CONSERVATIVE),
    "planned gangs, short-first": partial(planning_engine, BackfillMode.SHORT_FIRST),
    "planned gangs of most pods, easy": partial(planning_engine, BackfillMode.EASY),
    "planned gangs of most pods, many": partial(planning_engine, BackfillMode.CONSERVATIVE),
    "beside planned gangs, easy": partial(planning_engine, BackfillMode.EASY),
    "beside planned gangs, many": partial(planning_engine, BackfillMode.CONSERVATIVE),
}
