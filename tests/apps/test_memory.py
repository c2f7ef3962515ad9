"""Nothing that comes and goes is kept: every store is counted, entry by entry.

What a scheduler keeps is either about objects that are there, and then it is what a scheduler keeps
that has seen nothing else, or it has a bound. docs/architecture.md lists the bounds.
"""

import asyncio
import functools
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable
from functools import _lru_cache_wrapper
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairlead
from churn_objects import SCHEDULERS
from churn_story import Ground, Story
from examples import so_many
from fairlead.apps.run import usage
from fairlead.claims import answers as device_answers
from fairlead.claims import columns as device_columns
from fairlead.claims import sharing
from fairlead.cluster import (
    attached,
    changes,
    claim_answers,
    columns,
    demand,
    pod_index,
    pod_table,
)
from fairlead.engine import queue_order, run_history
from fairlead.model import sizes
from fairlead.model.pods import Pod
from fairlead.model.sizes import Kept
from fairlead.placement import views
from stores import stores

DOCS = Path(__file__).parents[2] / "docs"

#: By "Class.attribute": what is kept beyond the objects that are there, and so is bounded.
BOUNDED = {
    "ChangeLog._rows", "ChangeLog._aspects", "Cluster._free_rows", "Demand._counts",
    # columns that pods ask for
    "Columns._free_places", "Columns._labels", "Columns._vectors", "Columns._indexed_amounts",
    "Columns.allocatable", "Columns.requested", "Columns.resource_index", "Columns.missed",
    "LabelColumn._codes", "LabelColumn._numbers", "ImageIndex._named", "ImageIndex._rows",
    "ImageIndex._nodes", "Interned._code_of", "Interned._free", "Interned._uses",
    "Interned._values",
    # counts of pods that rules ask for
    "PodIndex._counts", "PodHooks._things", "PodTable._columns", "PodTable._free",
    "PodTable._leaving", "PodTable._namespace", "PodTable._pods", "PodTable._priority",
    "PodTable._slot_of", "PodTable._there", "PodTable.row", "_Column.codes",
    "PodIndex._keys_before",  # as last asked for; the next question replaces it
    # answers that pods share
    "Views._views", "_Readers.filters", "_Readers.rates", "AffinityWeights._about",
    "DefaultSelectors._found",
    # what is told by source and by cause
    "ReadingStore._by_node", "Usage.sums", "SchedulingQueue.entered", "Requeuer._keys_asked",
    # devices, and what claims asked for
    "ClaimAnswers.codes", "ClaimAnswers.earliness", "ClaimAnswers.in_use", "DeviceColumns._slices",
    "DeviceColumns.codes", "DeviceColumns.nodes", "DeviceSelection.of_class",
    "KeptAnswers._answers", "SelectorAnswers._known", "SharedParts._known",
    "_Columns._arrays",  # of CSI drivers
    "_KindAnswers._answers", "_KindAnswers.names",
    # gangs and queues
    "QueueOrdering._gangs", "QueueStatuses._busy", "RunHistory._forecasts",
    "TreeShape._moved",
}  # fmt: skip


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that a short story reaches them."""
    monkeypatch.setattr(columns, "MOST_RESOURCES", 16)
    monkeypatch.setattr(columns, "_MOST_LABELS", 64)
    monkeypatch.setattr(columns, "_VECTOR_BYTES", 1 << 16)
    monkeypatch.setattr(pod_table, "_MOST_KEYS", 32)
    monkeypatch.setattr(demand, "_MOST_BYTES", 1 << 18)
    monkeypatch.setattr(changes, "KEPT", 32)
    monkeypatch.setattr(usage, "MOST_SUMS", 16)
    monkeypatch.setattr(views, "VIEW_BYTES", 1)
    monkeypatch.setattr(pod_index, "COUNT_BYTES", 1 << 16)
    monkeypatch.setattr(sharing, "_MOST_BYTES", 1 << 16)
    monkeypatch.setattr(device_answers, "_MOST_ANSWERS", 256)
    monkeypatch.setattr(device_columns, "_FEW", 16)
    monkeypatch.setattr(device_columns, "_MOST_COLUMNS", 8)
    monkeypatch.setattr(claim_answers, "_MOST_KEPT", 8)
    monkeypatch.setattr(attached, "_MOST_ARRAYS", 8)
    monkeypatch.setattr(queue_order, "_MOST_GANGS", 16)
    monkeypatch.setattr(run_history, "MOST_FORECASTS", 16)


def counted(ground: Ground) -> Counter[str]:
    asyncio.run(ground.usage.look())
    return stores(ground.engine, ground.watches, ground.kinds, ground.usage)


def a_fresh_one(story: Story) -> Ground:
    """A scheduler that was started now, and has seen only what is there."""
    fresh = Ground()
    fresh.bodies = story.ground.bodies
    for told in story.objects():
        fresh.tell("ADDED", told)
    return fresh


def test_after_churn_there_is_what_a_fresh_scheduler_has() -> None:
    """Or, of what only decisions make, what it had halfway: as many objects were there."""
    story = Story(Ground(), nodes=20, pods=150)
    for _ in range(40):
        story.step(10)
    before = counted(story.ground)
    for _ in range(30):  # what is done every some seconds was then done as long ago
        story.step(10)
    assert story.ground.bound == story.come["pods"] == 700
    churned, fresh = counted(story.ground), counted(a_fresh_one(story))
    differ = {
        name
        for name in churned | fresh
        if churned.get(name) not in (fresh.get(name), before.get(name))
    }
    shared_answers = {name for name in differ if name.startswith("View.")}
    assert differ - shared_answers <= BOUNDED


def test_what_is_bounded_does_not_grow(small_bounds: None) -> None:
    story = Story(Ground(), nodes=20, pods=100)
    before: Counter[str] = Counter()
    for _ in range(5):
        for _ in range(10):
            story.step(10)
        before |= counted(story.ground)  # the most of each: some are built again now and then
    for _ in range(so_many(50, few=20)):
        story.step(10)
    after = counted(story.ground)
    grown = {
        name: (before.get(name, 0), count)
        for name, count in after.items()
        if count > 1.25 * before.get(name, 0) + 128
    }
    assert not grown
    assert story.ground.bound == story.come["pods"]


def answers(ground: Ground, pods: Iterable[Pod]) -> dict[tuple[str, str], dict[str, float]]:
    """For each pod and profile, what the nodes that will do are worth."""
    names = {row: name for name, row in ground.engine.cluster.row_of.items()}
    found = {}
    for pod, scheduler in product(pods, SCHEDULERS):
        placement = ground.engine.placement(scheduler)
        assert placement is not None
        view = placement.view(pod)
        totals = {names[row]: view.total.item(row) for row in np.flatnonzero(view.left).tolist()}
        found[pod.key, scheduler] = totals
    return found


def test_after_churn_pods_are_answered_as_by_a_fresh_scheduler(small_bounds: None) -> None:
    """Numbers and rows that are used again, and what was dropped at a bound, change no answer."""
    story = Story(Ground(), nodes=20, pods=100)
    for number in range(so_many(90, few=30)):
        story.step(7 + number % 7)
        if number % 30 == 29:
            fresh = a_fresh_one(story)
            pods = [pod for _, pod in fresh.engine.cluster.columns.pods.pods.values()]
            assert len(pods) > 80  # the nodes of some are gone
            assert answers(story.ground, pods) == answers(fresh, pods)


async def test_readings_of_nodes_that_are_gone_are_forgotten() -> None:
    story = Story(Ground(), nodes=3, pods=3)
    for _ in range(10):
        story.step(1)
    await story.ground.usage.look()
    kept = story.ground.usage.latest._by_node
    assert kept.keys() == story.ground.engine.cluster.row_of.keys()


async def test_sums_by_namespace_are_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MOST_SUMS", 10)
    story = Story(Ground(), nodes=24, pods=200)
    for _ in range(24):
        story.step(6)  # of every second, one pod has a share of a GPU, another a whole one
    book = story.ground.usage
    await book.look()
    assert len(book.sums) == 11
    assert book.sums[usage.OTHERS].held > 0
    held = sum(each.held for each in book.sums.values())
    for _ in range(19):
        story.step(0)
    await book.look()
    assert len(book.sums) <= 11
    assert 0 < sum(each.held for each in book.sums.values()) < held


def _is_ours(module: str) -> bool:
    return module.startswith("fairlead.") and not module.startswith("fairlead.sim.")


@functools.cache
def caches() -> dict[str, Any]:
    """Every cache of a module, by its name below `fairlead`; where it is defined, if it says so."""
    found: dict[int, tuple[str, Any]] = {}
    for module in pkgutil.walk_packages(fairlead.__path__, "fairlead."):
        if ".sim." in module.name or module.name.endswith("__main__"):
            continue
        for name, thing in vars(import_module(module.name)).items():
            is_function = not isinstance(thing, type)
            if isinstance(thing, _lru_cache_wrapper | Kept) or (
                is_function and hasattr(thing, "kept")
            ):
                place = f"{module.name.removeprefix('fairlead.')}.{name}", thing
                if not _is_ours(thing.__module__):
                    continue
                if getattr(thing, "__module__", "") == module.name:
                    found[id(thing)] = place
                found.setdefault(id(thing), place)
    return dict(found.values())


@pytest.mark.parametrize("name", sorted(caches()))
def test_every_cache_of_a_module_has_a_bound_and_its_line_in_the_docs(name: str) -> None:
    cache = caches()[name]
    if isinstance(cache, _lru_cache_wrapper):
        assert cache.cache_info().maxsize is not None or name in _FEW_KEYS
    assert f"`{name}`" in (DOCS / "architecture.md").read_text()


#: Asked with a few flags only.
_FEW_KEYS = {"cluster.holdings._touched"}


def test_a_remembered_function_forgets_beyond_its_bytes() -> None:
    asked = []

    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    remembered: Callable[[str], int] = sizes.remembered(10_000)(length)
    assert [remembered("x" * 100) for _ in range(3)] == [100] * 3
    assert len(asked) == 1
    for number in range(200):
        assert remembered(f"{number:0200d}") == 200
        assert remembered.kept.bytes <= 10_000  # type: ignore[attr-defined]
    remembered("x" * 100)
    assert len(asked) == 202
