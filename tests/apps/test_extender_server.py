"""The extender's server: what it answers when its own code fails."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from fairlead.apps.extender.refusal_delay import RefusalDelay
from fairlead.apps.extender.server import VERBS, Server, make_extender_app
from fairlead.kube.extender.wire import BadExtenderArgs
from fairlead.kube.failures import Failures
from fairlead.telemetry.extender import ExtenderMetrics

BIND = {"PodNamespace": "n", "PodName": "p", "PodUID": "u", "Node": "x"}


def fails(*_: object) -> bytes:
    raise KeyError("of another pod")


def refuses(*_: object) -> bytes:
    raise BadExtenderArgs("there is no Pod")


@asynccontextmanager
async def serving(
    answer: Callable[..., bytes], failures: Failures
) -> AsyncIterator["TestClient[object, object]"]:
    """A server whose verbs are all answered so."""

    async def bind(_: object) -> str:
        return answer().decode()

    handler = SimpleNamespace(filter=answer, prioritize=answer, preempt=answer)
    extender = SimpleNamespace(
        handler=handler, bind=bind, refusal_delay=RefusalDelay(), unready_because=str
    )
    registry = CollectorRegistry()
    server = Server(extender, ExtenderMetrics(registry), failures=failures)  # type: ignore[arg-type]
    async with TestClient(TestServer(make_extender_app(server, registry, str))) as client:
        yield client


@pytest.mark.parametrize("verb", VERBS)
async def test_a_defect_is_counted_and_is_the_failure_of_one_request(verb: str) -> None:
    failures = Failures()
    async with serving(fails, failures) as client:
        for _ in range(2):
            reply = await client.post(f"/{verb}", json=BIND)
            said = await reply.text()
            assert reply.status == 500
            assert f"Fairlead failed to answer this {verb} request; see its log" in said
            assert "another pod" not in said
        counted = await (await client.get("/metrics")).text()
    line = f'fairlead_extender_answers_total{{outcome="failed",verb="{verb}"}} 2.0'
    assert line in counted
    assert failures.counts == {"answering": 2}


async def test_a_request_that_cannot_be_read_is_no_defect() -> None:
    failures = Failures()
    async with serving(refuses, failures) as client:
        reply = await client.post("/prioritize", json={})
        assert reply.status == 400
        assert "there is no Pod; is this kube-scheduler's" in await reply.text()
    assert not failures.counts
