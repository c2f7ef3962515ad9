"""Answers of Prometheus servers that cost as much as they can, as the feeds pass them on."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from fairlead.apps.config.profiles import aiming, built_in
from fairlead.engine.engine import Engine
from fairlead.engine.events import FiguresSeen, InventorySeen, ReadingSeen
from fairlead.model.gpus import FAIRLEAD, Gpu, Inventory
from fairlead.model.named_readings import ReadingTerms, SeenReading
from fairlead.model.node_figures import (
    CAPACITY,
    LABEL,
    NAME,
    Figure,
    FigureList,
    FigureRule,
    SeenFigures,
)
from fairlead.plugins.goals import GoalLevel, Goals
from fairlead.plugins.goals_built_in import PodCost
from fairlead.plugins.named_readings import ReadingLimit
from hostile_cluster import MAPPING, PROFILE, SCHEDULER, Made, Shape, Size, a_pod, seen

#: Values of one event, as the feed passes them on.
_AT_ONCE = 10_000


def named_readings(size: Size, *, by_gpu: bool) -> Iterator[Made]:
    """As many values as a reading may have, of nodes or GPUs and of others; they change, and go."""
    if by_gpu:
        yield from _inventories(size)
    terms = ReadingTerms("x", by_gpu=by_gpu)
    keys = list(_keys(size, by_gpu)) + [f"no-{number}" for number in range(6 * size.each)]
    for value in (1.0, 2.0):
        for start in range(0, len(keys), _AT_ONCE):
            values = dict.fromkeys(keys[start : start + _AT_ONCE], value)
            yield partial(ReadingSeen, SeenReading(terms, values))
        yield seen(a_pod(f"h{value:.0f}", gpus=9))
    for start in range(0, len(keys), _AT_ONCE):
        yield partial(ReadingSeen, SeenReading(terms, {}, tuple(keys[start : start + _AT_ONCE])))


def _keys(size: Size, by_gpu: bool) -> Iterator[str]:
    for number in range(size.nodes):
        name = size.node(number)
        yield from (f"GPU-{name}-{at}" for at in range(8)) if by_gpu else (name,)


def _inventories(size: Size) -> Iterator[Made]:
    for number in range(size.nodes):
        name = size.node(number)
        gpus = tuple(Gpu(f"GPU-{name}-{at}", at, "NVIDIA H100", 81920) for at in range(8))
        yield partial(InventorySeen, name, "bench", Inventory(gpus, dialects=frozenset({FAIRLEAD})))


def figures(size: Size, *, by_offering: bool) -> Iterator[Made]:
    """As many prices as a source may have: of nodes that do not exist, or of offerings."""
    for figure in (1.0, 2.0):
        rules = tuple(
            FigureRule(_match(number, by_offering), figure) for number in range(2 * size.each)
        )
        lists = (FigureList("bench", rules),)
        yield partial(FiguresSeen, SeenFigures(Figure.PRICE, lists))
        yield seen(a_pod(f"h{figure:.0f}"))


def _match(number: int, by_offering: bool) -> tuple[tuple[str, str], ...]:
    if not by_offering:
        return ((NAME, f"node-{number:05d}"),)
    return (
        (CAPACITY, "spot" if number % 2 else "on-demand"),
        (f"{LABEL}node.kubernetes.io/instance-type", f"type-{number}"),
        (f"{LABEL}topology.kubernetes.io/zone", f"zone-{number % 10}"),
    )


def limited_engine() -> Engine:
    """With a filter that reads the reading, and a goal that reads prices."""
    profile = built_in(PROFILE)
    limit = ReadingLimit(at_most={"x": 1.5})
    profile = replace(profile, filters=(*profile.filters, limit))
    goals = Goals((GoalLevel(((PodCost(), 1.0),)),))
    return Engine({SCHEDULER: aiming(profile, goals), MAPPING: built_in("gpu-scheduler")})


SOURCE_SHAPES: dict[str, Shape] = {
    "readings of nodes": partial(named_readings, by_gpu=False),
    "readings of GPUs": partial(named_readings, by_gpu=True),
    "prices of nodes": partial(figures, by_offering=False),
    "prices of offerings": partial(figures, by_offering=True),
}
SOURCE_ENGINES: dict[str, Callable[[], Engine]] = dict.fromkeys(SOURCE_SHAPES, limited_engine)
