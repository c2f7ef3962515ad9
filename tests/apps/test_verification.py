"""The continuous check: real copies of a server that plays a script, a real engine and metrics."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from builders import a_node, a_pod, an_engine, see
from fairlead.apps.run.verification import Verification
from fairlead.cluster import crowded
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeGone, NodeSeen, PodGone
from fairlead.telemetry.metrics import Metrics
from played_server import OPEN, World, a_page, an_object, playing

MISMATCHES = "fairlead_cache_mismatches_total"


async def never(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def broken_off(request: web.Request) -> web.StreamResponse:
    assert request.transport
    request.transport.abort()
    return web.Response()


def a_check(*worlds: World, engine: Engine | None = None) -> tuple[Verification, Metrics]:
    """Of these copies, the last of which is that of the pods."""
    metrics, reflectors = Metrics(), [world.reflector for world in worlds]
    engine, pods = engine or an_engine(), cast(Any, reflectors[-1:])
    check = Verification(engine, lambda: reflectors, *pods, lambda _: None, metrics, longest_s=1.0)
    return check, metrics


async def test_a_list_that_does_not_end_holds_up_the_check_of_no_other_kind() -> None:
    newer = a_page("9", an_object("a", "6"))
    async with AsyncExitStack() as stack:
        worlds = [
            await stack.enter_async_context(playing(OPEN, act, OPEN))
            for act in (never, broken_off, newer)
        ]
        for world in worlds:
            await world.until(told=2)
        check, metrics = a_check(*worlds)
        await check.compare()
        await worlds[-1].until(requests=3)
    assert metrics.registry.get_sample_value(MISMATCHES, {"what": "objects"}) == 1


async def test_nodes_with_too_many_pods_are_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowded, "MOST_WEIGHT", 2 * crowded.POD_WEIGHT)
    engine = an_engine()
    pods = [a_pod(f"p{number}", node=f"n{number % 2}") for number in range(6)]
    see(engine, *pods)
    for name in ("n0", "n1"):
        engine.handle(NodeSeen(a_node(name)), now=0.0)
    async with playing(OPEN) as world:
        check, _ = a_check(world, engine=engine)
    with capture_logs() as logs:
        check.report_crowded_nodes()
        check.report_crowded_nodes()
        engine.handle(PodGone(pods[1]), now=1.0)
        check.report_crowded_nodes()
        see(engine, a_pod("another", node="n1"))
        engine.handle(NodeGone("n1"), now=2.0)
        engine.handle(NodeSeen(a_node("n1")), now=3.0)
        check.report_crowded_nodes()
    assert [entry["first"] for entry in logs] == [["n0", "n1"], ["n1"]]
