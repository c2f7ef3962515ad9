"""Named readings: any query becomes a number of nodes or GPUs, and a bad feed leaves it neutral."""

import asyncio
import math
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from builders import a_node
from fairlead.apps.config import config as configs
from fairlead.apps.config.readings_config import ReadingConfig, reading_plans, reading_warnings
from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.apps.run.named_readings import NamedReadingFeed
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.named_readings import put_named_reading
from fairlead.engine.events import Event, ReadingSeen
from fairlead.model.errors import ConfigError
from fairlead.model.node_figures import NAME, FigureRule
from fairlead.telemetry.figures import checking
from fairlead.telemetry.figures.figure_sources import FigureSource
from fairlead.testing.builders import a_gpu_node
from test_figure_sources import by_node, prometheus, vector
from test_figure_sources import plans as figure_plans
from turn_costs import counting


class World:
    """A cluster that gets what a feed sends."""

    def __init__(self, *readings: ReadingConfig) -> None:
        self.cluster = Cluster()
        for node in (a_node("a"), a_node("b"), a_gpu_node("g", gpus=2)):
            self.cluster.put_node(node)
        self.events: list[ReadingSeen] = []
        self.feed = NamedReadingFeed(reading_plans(readings), self._put)

    def _put(self, event: Event) -> None:
        assert isinstance(event, ReadingSeen)
        self.events.append(event)
        put_named_reading(self.cluster, event.seen)

    async def values(self, now_s: float) -> list[float]:
        """NaN as -1."""
        await self.feed.take(now_s)
        return [-1.0 if math.isnan(x) else x for x in self.cluster.nodes.reading("x").tolist()]

    @property
    def problem(self) -> str:
        return self.feed.sources[0].status.problem


def a_reading(url: str, **options: object) -> ReadingConfig:
    return ReadingConfig("x", url, "some_metric", **options)  # type: ignore[arg-type]


async def test_values_follow_their_nodes_and_only_changes_are_sent() -> None:
    said: list[object] = [by_node(a="1", b="2", g="3")]
    async with prometheus(lambda: said[0]) as url:
        world = World(a_reading(url))
        assert await world.values(0.0) == [1.0, 2.0, 3.0]
        said[0] = by_node(a="1", b="5", g="3")
        assert await world.values(5.0) == [1.0, 2.0, 3.0], "every 15 s"
        assert await world.values(15.0) == [1.0, 5.0, 3.0]
        assert world.events[-1].seen.values == {"b": 5.0}
        assert await world.values(30.0) == [1.0, 5.0, 3.0]
        assert len(world.events) == 2
        assert world.problem == ""


async def test_sums_of_the_largest_values_are_finite() -> None:
    async with prometheus(lambda: by_node(a="1.7e308", b="1.7e308", g="-1.7e308")) as url:
        world = World(a_reading(url))
        assert await world.values(0.0) == [-1.0, -1.0, -1.0]
        assert "3 out of range" in world.problem


async def test_a_node_that_comes_later_has_its_value_at_once() -> None:
    async with prometheus(lambda: by_node(late="7")) as url:
        world = World(a_reading(url))
        assert await world.values(0.0) == [-1.0, -1.0, -1.0]
        world.cluster.put_node(a_node("late"))
        assert world.cluster.nodes.reading("x").tolist()[3] == 7.0
        world.cluster.remove_node("late")
        assert math.isnan(world.cluster.nodes.reading("x").tolist()[3])


@pytest.mark.parametrize(
    ("bad", "why"),
    [("200", "1 out of range"), ("-1", "1 out of range"), ("NaN", "1 not a number"),
     ("+Inf", "1 not a number"), ("much", "1 not a number")],
)  # fmt: skip
async def test_an_absurd_value_is_not_used_and_its_node_has_the_fallback(
    bad: str, why: str
) -> None:
    async with prometheus(lambda: by_node(a=bad, b="50", g="60")) as url:
        world = World(a_reading(url, range=(0, 120), fallback=55.0))
        assert await world.values(0.0) == [55.0, 50.0, 60.0]
        assert why in world.problem


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "503"),
        (b"<html>", "not valid Prometheus output"),
        (vector(), "no result"),
        ({"status": "error", "error": "parse error"}, "parse error"),
        (vector(({"machine": "a", "job": "j"}, "1")), "there are: job, machine; set label"),
    ],
    ids=["down", "no JSON", "missing series", "wrong query", "renamed label"],
)
async def test_a_feed_that_fails_keeps_values_until_they_are_too_old(
    answer: object, why: str
) -> None:
    said: list[object] = [by_node(a="1", b="2", g="3")]
    async with prometheus(lambda: said[0]) as url:
        world = World(a_reading(url, max_age="1m", fallback=9.0))
        await world.values(0.0)
        said[0] = answer
        assert await world.values(30.0) == [1.0, 2.0, 3.0]
        assert why in world.problem
        assert await world.values(61.0) == [9.0, 9.0, 9.0]
        assert why in world.problem
        assert "too old" in world.problem
        said[0] = by_node(a="4", b="5", g="6")
        assert await world.values(90.0) == [4.0, 5.0, 6.0]
        assert world.problem == ""


async def test_a_server_that_hangs_delays_no_other_reading() -> None:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the other side hangs up
        writer.close()

    silent = await asyncio.start_server(never, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    hangs = ReadingConfig("y", f"http://127.0.0.1:{port}", "q", timeout="100ms")
    async with prometheus(lambda: by_node(a="1")) as url:
        world = World(a_reading(url), hangs)
        assert await world.values(0.0) == [1.0, -1.0, -1.0]
        assert "0.1 s" in world.feed.sources[1].status.problem
        silent.close()
        await silent.wait_closed()


async def test_values_of_gpus_come_by_uuid_and_a_chosen_label() -> None:
    (gpu, other) = (gpu.uuid for gpu in a_gpu_node("g", gpus=2).inventory.gpus)  # type: ignore[union-attr]
    answer = vector(({"card": gpu}, "70"), ({"card": "GPU-elsewhere"}, "1"))
    async with prometheus(lambda: answer) as url:
        world = World(a_reading(url, by="gpu", label="card", fallback=50.0))
        await world.values(0.0)
        assert world.cluster.nodes.gpu_reading("x")[2, :2].tolist() == [70.0, 50.0]
        assert world.cluster.nodes.seen_readings(other, by_gpu=True) == {"x": 50.0}


async def test_noise_below_the_step_is_not_sent() -> None:
    said: list[object] = [by_node(a="50", b="50", g="50")]
    async with prometheus(lambda: said[0]) as url:
        world = World(a_reading(url, range=(0, 100)))
        await world.values(0.0)
        said[0] = by_node(a="50.5", b="51.5", g="49.2")
        assert await world.values(15.0) == [50.0, 51.5, 50.0]


_LIMIT = """
profiles:
  - schedulerName: s
    filters: {enabled: [{plugin: ReadingLimit, options: {at_most: {y: 1}}}]}
"""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("readings: [{name: x, url: 'ftp://p', query: q}]", "not a valid URL"),
        ("readings: [{name: x, url: 'http://p', query: q, range: [2, 1]}]", "lower end first"),
        ("readings: [{name: x, url: 'http://p', query: q, range: [0, 1], fallback: 2}]", "range"),
        ("readings: [{name: x, url: 'http://p', query: q, every: 0s}]", "every"),
        ("readings: [{name: x, url: 'http://p', query: q}, {name: x, url: 'http://p', query: r}]",
         "two readings have the name 'x'"),
        ("rules: [{name: r, nodes: 'node.readings[\"y\"] < 1.0'}]", "rule 'r' reads 'y'"),
        (_LIMIT, "ReadingLimit reads 'y'"),
        ("profiles: [{schedulerName: s, goals: {order: [{sum: [readings.y]}]}}]", "reads 'y'"),
        ("profiles: [{schedulerName: s, goals: {order: [{sum: [Cost, readings.y]}]}}]",
         "set rates.readings.y"),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=why):
        plan(RunOptions(config=file))


def test_a_rule_that_refuses_nodes_without_a_value_is_warned_about() -> None:
    text = (
        "readings: [{name: x, url: 'http://p', query: q}]\n"
        "rules:\n  - {name: r, nodes: 'node.readings[\"x\"] < 1.0'}\n"
        "  - {name: s, nodes: 'node.readings[?\"x\"].orValue(0.0) < 1.0'}\n"
    )
    config = configs.parse(text)
    (found,) = reading_warnings(config.rules, config.readings)
    assert found.key == "rules.r"


# -- answers that cost as much as they can ---------------------------------------------------------


def an_answer(samples: int, labels: str = '"node":"n{at}"') -> bytes:
    """The smallest samples that there can be."""
    said = ",".join(
        f'{{"metric":{{{labels.format(at=at)}}},"value":[0,"1"]}}' for at in range(samples)
    )
    return f'{{"status":"success","data":{{"resultType":"vector","result":[{said}]}}}}'.encode()


async def turns_of(doing: Awaitable[object]) -> int:
    """How often others got their turn meanwhile."""
    turns, task = 0, asyncio.ensure_future(doing)
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    task.result()
    return turns


def answering(source: Any, answer: bytes) -> None:
    async def said(_: str) -> bytes:
        return answer

    source._server.answer = said


async def test_many_small_samples_are_read_over_several_turns() -> None:
    world = World(a_reading("http://x"))
    answering(world.feed.sources[0], an_answer(30_000))
    assert await turns_of(world.feed.take(0.0)) > 15
    assert len(world.events) == 3, "each is a turn of its own"
    assert sum(len(each.seen.values) for each in world.events) == 30_000
    answering(world.feed.sources[0], an_answer(1))
    await world.feed.take(20.0)
    assert [len(each.seen.gone) for each in world.events[3:]] == [10_000, 10_000, 9_999]


async def test_many_small_figures_are_read_over_several_turns() -> None:
    (plan,) = figure_plans("prices: [{kind: opencost, url: 'http://x'}]")
    source = FigureSource(plan)
    answering(source, an_answer(20_000))
    assert await turns_of(source.take(0.0)) > 15
    assert source.status.rules == 20_000


async def test_figures_whose_names_always_change_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checking, "_MOST_KEPT", 100)
    check = checking.FigureCheck(600.0)
    for turn in range(20):
        rules = [(FigureRule(((NAME, f"n{turn}-{at}"),), 0.0), "1") for at in range(40)]
        await check.used(rules, float(turn))
        assert len(check._last) <= 100


async def test_a_label_of_its_own_for_each_sample_costs_no_more_than_the_sample() -> None:
    async def cost(samples: int) -> int:
        world = World(a_reading("http://x"))
        answering(world.feed.sources[0], an_answer(samples, '"l{at}":"x"'))
        with counting() as counted:
            await world.feed.take(0.0)
        assert "no sample has a label with the node; there are: l0, l1" in world.problem
        return counted.bytes

    assert await cost(2000) < 3 * await cost(1000)
