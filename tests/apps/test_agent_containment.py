"""No pod ends the agent of its node."""

import asyncio
from typing import Any, cast

import pytest

from builders import a_pod
from fairlead.apps.agent.agent import Agent, AgentSettings
from fairlead.apps.agent.unassigned_processes import ProcessMonitor
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.changes import Deleted
from fairlead.telemetry.agent import AgentReport
from fairlead.telemetry.nvml.facts import GpuFacts
from fairlead.telemetry.nvml.process import Nvml, NvmlUnavailable

#: Nothing here connects, or asks a driver.
_NOTHING: Any = None


class Defect(Exception):
    pass


def breaks(*_: object) -> None:
    raise Defect("oops")


@pytest.fixture
async def agent() -> Agent:
    nvml, client = cast(Nvml, _NOTHING), cast(Client, _NOTHING)
    return Agent(nvml, client, AgentSettings("n1"), ProcessMonitor(grace_s=30.0))


async def test_a_pod_that_breaks_what_is_done_about_it_is_passed_over(agent, monkeypatch) -> None:
    monkeypatch.setattr(agent._releases, "gone", breaks)
    agent._pods._feed._deliver(Deleted(a_pod("odd")))
    assert agent.internal.counts == {"reading": 1}


async def test_a_look_that_breaks_makes_no_gpu_sick(agent, monkeypatch) -> None:
    monkeypatch.setattr(agent, "_look", breaks)
    for _ in range(5):
        await agent.look()
    assert agent.internal.counts == {"observing": 5}
    assert "tries" not in agent.unready_because()


async def test_no_gpu_is_usable_once_the_driver_has_not_answered_three_times(
    agent, monkeypatch
) -> None:
    def unavailable(*_: object) -> None:
        raise NvmlUnavailable("the driver is away")

    monkeypatch.setattr(agent, "_look", unavailable)
    agent.metrics.report = AgentReport(0.0, (GpuFacts(0, "GPU-0"), GpuFacts(1, "GPU-1")))
    found = []
    for _ in range(3):
        await agent.look()
        found.append(agent.metrics.report.sick)
    assert found == [frozenset(), frozenset(), frozenset({"GPU-0", "GPU-1"})]
    assert agent.unready_because().endswith("(3 tries): the driver is away")


async def test_a_part_that_breaks_is_started_again(agent, monkeypatch) -> None:
    monkeypatch.setattr("fairlead.apps.supervising.FIRST_PAUSE_S", 0.001)
    again = asyncio.Event()

    async def publishing() -> None:
        if not agent.internal.counts["running"]:
            breaks()
        again.set()
        await asyncio.Event().wait()

    async def waiting() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(agent._publisher, "run", publishing)
    for part in (agent._pods, agent._events, agent._releases):
        monkeypatch.setattr(part, "run", waiting)
    monkeypatch.setattr(agent, "_look", breaks)
    running = asyncio.create_task(agent.run())
    async with asyncio.timeout(60):
        await again.wait()
    assert not running.done()
    running.cancel()
