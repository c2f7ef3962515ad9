"""Feeds of prices that stop, jump, go negative or change their currency leave nodes neutral."""

import json
import math
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from builders import a_node
from fairlead.apps.config.goals_config import GoalsConfig
from fairlead.apps.config.typed_yaml import convert
from fairlead.apps.run.node_figures import FigureFeed
from fairlead.cluster.cluster import Cluster
from fairlead.engine.events import Event, FiguresSeen
from fairlead.model.errors import ConfigError
from fairlead.model.node_figures import NAME, Figure, FigureRule
from fairlead.model.nodes import Node
from fairlead.telemetry.figures import checking
from fairlead.telemetry.figures.checking import FigureCheck
from fairlead.telemetry.figures.figure_sources import FigurePlan

TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"


def plans(text: str, base: Path = Path()) -> tuple[FigurePlan, ...]:
    return convert(text, GoalsConfig, str).plans(base)


class World:
    """A cluster that gets what a feed sends."""

    def __init__(self, found: tuple[FigurePlan, ...], *nodes: Node) -> None:
        self.cluster = Cluster()
        for node in nodes:
            self.cluster.put_node(node)
        self.feed = FigureFeed(found, self._put)

    def _put(self, event: Event) -> None:
        assert isinstance(event, FiguresSeen)
        self.cluster.put_figures(event.seen)

    async def prices(self, now_s: float) -> list[float]:
        await self.feed.take(now_s)
        return [float(f"{price:.4g}") for price in self.cluster.nodes.figure(Figure.PRICE)]

    @property
    def problem(self) -> str:
        return self.feed.sources[0].status.problem


@asynccontextmanager
async def prometheus(answer: Callable[[], object]) -> AsyncIterator[str]:
    async def query(_: web.Request) -> web.Response:
        said = answer()
        if isinstance(said, bytes):
            return web.Response(body=said)
        return web.Response(status=503) if said is None else web.json_response(said)

    app = web.Application()
    app.router.add_post("/api/v1/query", query)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def vector(*samples: tuple[dict[str, str], str]) -> object:
    result = [{"metric": labels, "value": [0, value]} for labels, value in samples]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def by_node(**prices: str) -> object:
    return vector(*(({"node": node}, price) for node, price in prices.items()))


# -- OpenCost -------------------------------------------------------------------------------------


async def test_prices_of_opencost_follow_their_nodes() -> None:
    said: list[object] = [by_node(a="1.5", b="3")]
    async with prometheus(lambda: said[0]) as url:
        world = World(
            plans(f"prices: [{{kind: opencost, url: '{url}'}}]"), a_node("a"), a_node("b")
        )
        assert await world.prices(0.0) == [1.5, 3.0]
        said[0] = by_node(a="2", b="3")
        assert await world.prices(30.0) == [1.5, 3.0], "asked once a minute"
        assert await world.prices(60.0) == [2.0, 3.0]
        assert world.problem == ""


@pytest.mark.parametrize(
    ("bad", "why"),
    [("1500", "1 jump"), ("0.0015", "1 jump"), ("-1", "1 negative"), ("NaN", "1 not a number"),
     ("1e12", "1 too much")],
)  # fmt: skip
async def test_an_impossible_price_leaves_its_node_neutral_and_says_so(bad: str, why: str) -> None:
    said: list[object] = [by_node(a="1.5", b="3", c="5")]
    async with prometheus(lambda: said[0]) as url:
        nodes = a_node("a"), a_node("b"), a_node("c")
        world = World(plans(f"prices: [{{kind: opencost, url: '{url}'}}]"), *nodes)
        await world.prices(0.0)
        said[0] = by_node(a=bad, b="3", c="5")
        assert await world.prices(60.0) == [4.0, 3.0, 5.0]
        assert why in world.problem
        said[0] = by_node(a="1.6", b="3", c="5")
        assert await world.prices(120.0) == [1.6, 3.0, 5.0]
        assert world.problem == ""


async def test_a_corrected_price_of_a_sheet_that_does_not_age_is_used_after_a_while() -> None:
    check, rule = FigureCheck(math.inf), FigureRule(((NAME, "a"),), 0.0)
    await check.used([(rule, "0.003")], 0.0)
    assert (await check.used([(rule, "3.9")], 60.0))[1] == {"jump": 1}
    (used,), rejected = await check.used([(rule, "3.9")], 660.0)
    assert (used.figure, not rejected) == (3.9, True)


async def test_as_many_prices_as_may_be_remembered_are_compared_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checking, "_MOST_KEPT", 2)
    first, second = (FigureRule(((NAME, name),), 0.0) for name in "ab")
    check = FigureCheck(math.inf)
    await check.used([(first, "1.5"), (second, "1.5")], 0.0)
    await check.used([(first, "1.5")], 10.0)
    assert (await check.used([(second, "9000")], 20.0))[1] == {"jump": 1}


@pytest.mark.parametrize(
    "odd", [b"", b"<html>", b'{"odd": ' + b"[" * 100_000, b'{"status": "success", "data": {}}']
)
async def test_an_answer_that_cannot_be_read_ends_nothing(odd: bytes) -> None:
    said: list[object] = [by_node(a="1.5")]
    async with prometheus(lambda: said[0]) as url:
        world = World(plans(f"prices: [{{kind: opencost, url: '{url}'}}]"), a_node("a"))
        await world.prices(0.0)
        said[0] = odd
        assert await world.prices(60.0) == [1.5]
        assert world.problem


async def test_a_new_level_of_prices_is_accepted_when_the_old_one_is_too_old() -> None:
    said: list[object] = [by_node(a="1.5")]
    async with prometheus(lambda: said[0]) as url:
        world = World(plans(f"prices: [{{kind: opencost, url: '{url}'}}]"), a_node("a"))
        await world.prices(0.0)
        said[0] = by_node(a="15000")
        assert await world.prices(60.0) == [0.0]
        assert await world.prices(660.0) == [15000.0]


async def test_a_feed_that_stops_counts_until_it_is_too_old() -> None:
    said: list[object | None] = [by_node(a="1.5")]
    async with prometheus(lambda: said[0]) as url:
        world = World(plans(f"prices: [{{kind: opencost, url: '{url}'}}]"), a_node("a"))
        await world.prices(0.0)
        said[0] = None
        assert await world.prices(300.0) == [1.5]
        assert "HTTP 503" in world.problem
        assert await world.prices(601.0) == [0.0]
        assert world.problem.startswith("too old: ")
        said[0] = by_node(a="1.5")
        assert await world.prices(700.0) == [1.5]


async def test_another_currency_is_not_used() -> None:
    said = vector(({"node": "a", "currency": "JPY"}, "450"))
    async with prometheus(lambda: said) as url:
        world = World(plans(f"prices: [{{kind: opencost, url: '{url}'}}]"), a_node("a"))
        assert await world.prices(0.0) == [0.0]
        assert "currency" in world.problem


@pytest.mark.parametrize("said", [{"status": "error", "error": "bad"}, [], "x", {"status": 1}])
async def test_what_is_no_answer_is_a_problem_and_no_more(said: object) -> None:
    async with prometheus(lambda: said) as url:
        world = World(plans(f"prices: [{{kind: opencost, url: '{url}'}}]"), a_node("a"))
        assert await world.prices(0.0) == [0.0]
        assert world.problem


# -- Karpenter ------------------------------------------------------------------------------------


async def test_prices_of_karpenter_are_joined_with_the_labels_of_nodes() -> None:
    offering = {"instance_type": "p5.48xlarge", "zone": "eu-1a"}
    said = vector(
        ({**offering, "capacity_type": "spot"}, "30"),
        ({**offering, "capacity_type": "on-demand"}, "98"),
        ({**offering}, "7"),
    )
    labels = {TYPE: "p5.48xlarge", ZONE: "eu-1a"}
    spot, demand = "karpenter.sh/capacity-type", {"karpenter.sh/capacity-type": "on-demand"}
    nodes = (
        a_node("a", labels={**labels, spot: "spot"}),
        a_node("b", labels={**labels, **demand}),
        a_node("c", labels={**labels, ZONE: "eu-1b", spot: "spot"}),
    )
    async with prometheus(lambda: said) as url:
        world = World(plans(f"prices: [{{kind: karpenter, url: '{url}'}}]"), *nodes)
        assert await world.prices(0.0) == [30.0, 98.0, 64.0]


# -- price sheets ---------------------------------------------------------------------------------

SHEET = """\
EndTimestamp,InstanceID,Region,AssetClass,InstanceIDField,InstanceType,MarketPriceHourly,Version
# a comment
2019-04-17 23:34:22 UTC,node-a,,node,metadata.name,,0.1337,
,Quadro_RTX_4000,,gpu,gpu.nvidia.com/class,,0.75,
,,EU-west,node,,n1-standard-8,0.4,
,i-07,,node,spec.providerID,,2.5,
,pool-x,,node,metadata.labels.example.com/pool,,1.25,
,disk,,pv,metadata.name,,9,
,node-n,,node,metadata.name,,-3,
"""


async def test_a_price_sheet_of_opencost_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(SHEET)
    region = {"topology.kubernetes.io/region": "eu-west", TYPE: "n1-standard-8"}
    nodes = (
        a_node("node-a", gpus=0),
        a_node("node-a2", gpus=2, labels={"gpu.nvidia.com/class": "quadro_rtx_4000"}),
        a_node("b", gpus=0, labels=region),
        a_node("c", gpus=0, provider_id="aws:///eu-1a/i-07"),
        a_node("d", gpus=0, labels={"example.com/pool": "pool-x"}),
    )
    world = World(plans("prices: [{kind: opencost-csv, file: prices.csv}]", tmp_path), *nodes)
    assert await world.prices(0.0) == [0.1337, 1.5, 0.4, 2.5, 1.25]
    assert "1 negative" in world.problem


async def test_a_price_sheet_that_is_replaced_is_read_again_and_may_get_too_old(
    tmp_path: Path,
) -> None:
    sheet = tmp_path / "prices.csv"
    head = SHEET.splitlines()[0]
    sheet.write_text(f"{head}\n,a,,node,metadata.name,,1,\n")
    text = "prices: [{kind: opencost-csv, file: prices.csv, maxAge: 1h}]"
    world = World(plans(text, tmp_path), a_node("a"))
    assert await world.prices(0.0) == [1.0]
    sheet.write_text(f"{head}\n,a,,node,metadata.name,,2,\n")
    assert await world.prices(60.0) == [2.0]
    os.utime(sheet, (0, 0))
    assert await world.prices(120.0) == [0.0]


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", json.dumps({"price": 1}), "\x00" * 100, "x" * 200_000]
)
async def test_a_file_that_is_no_price_sheet_is_a_problem(tmp_path: Path, text: str) -> None:
    (tmp_path / "prices.csv").write_text(text)
    found = plans("prices: [{kind: opencost-csv, file: prices.csv}]", tmp_path)
    world = World(found, a_node("a"))
    assert await world.prices(0.0) == [0.0]
    assert "no price sheet" in world.problem


async def test_a_table_and_a_label_need_no_source() -> None:
    text = """
    prices:
      - {kind: label, key: example.com/price}
      - kind: table
        rows:
          - {capacityType: spot, zone: a, perNode: 1}
          - {labels: {pool: x}, perGpu: 2}
          - {perNode: 9}
    """
    nodes = (
        a_node("a", labels={"example.com/price": "0.5", "pool": "x"}),
        a_node("b", labels={"cloud.google.com/gke-spot": "true", ZONE: "a"}),
        a_node("c", gpus=2, labels={"pool": "x"}),
        a_node("d"),
    )
    assert await World(plans(text), *nodes).prices(0.0) == [0.5, 1.0, 13.0, 9.0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("prices: [{kind: table}]", "kind table needs rows"),
        ("prices: [{kind: label, key: a, url: 'http://x'}]", "kind label takes no url"),
        ("prices: [{kind: opencost, url: 'x'}]", "not a valid URL"),
        ("prices: [{kind: table, rows: [{zone: a}]}]", "neither perNode nor perGpu"),
        ("watts: [{kind: opencost, url: 'http://x'}]", "has prices"),
        ("watts: [{kind: prometheus, url: 'http://x'}]", "needs a query"),
        ("{currency: EUR, prices: [{kind: label, key: a, currency: USD}]}", "its currency is USD"),
        ("prices: [{kind: label, key: a}, {kind: label, key: b}]", "two sources have the name"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        plans(text)


async def test_a_price_sheet_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(SHEET + "#" * (2 << 20))
    world = World(plans("prices: [{kind: opencost-csv, file: prices.csv}]", tmp_path), a_node("a"))
    assert await world.prices(0.0) == [0.0]
    assert "larger than 2 MiB" in world.problem


async def test_thousands_of_rules_and_nodes_are_matched_without_a_look_at_all_pairs(
    tmp_path: Path,
) -> None:
    head, rows = SHEET.splitlines()[0], 5000
    lines = [f",n{number},,node,metadata.name,,{number + 1}," for number in range(rows)]
    (tmp_path / "prices.csv").write_text("\n".join([head, *lines]))
    nodes = [a_node(f"n{number}") for number in (0, 17, rows - 1, rows)]
    world = World(plans("prices: [{kind: opencost-csv, file: prices.csv}]", tmp_path), *nodes)
    assert await world.prices(0.0) == [1.0, 18.0, 5000.0, 18.0]
