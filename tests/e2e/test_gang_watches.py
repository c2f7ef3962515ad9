"""Objects of gangs on a real API server: kinds come and go, and statuses are written with care."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import gang_crds
from fairlead.apps.run.gang_watches import GangWatches
from fairlead.engine import events
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.gangs.registry import ALL, GangDialects
from fairlead.kube.gangs.status_writer import GangStatusWriter
from fairlead.kube.http.client import Client
from fairlead.model.gangs import GangSpec, GangState, GangStatus
from fairlead.sim.controlplane import ControlPlane
from scene import wait_for

pytestmark = pytest.mark.server

PLUGINS = "scheduler-plugins"
EVERY_S = 0.1


class Heard:
    """What an engine would know."""

    def __init__(self) -> None:
        self.gangs: dict[str, GangSpec] = {}
        self.problems: dict[str, str] = {}
        self.events: list[events.Event] = []

    def __call__(self, event: events.Event) -> None:
        self.events.append(event)
        match event:
            case events.GangSeen(spec):
                self.gangs[spec.key] = spec
            case events.GangGone(key):
                del self.gangs[key]
            case events.GangKindSeen(dialect, problem):
                self.problems[dialect] = problem


async def plainly(_: str, run: Callable[[], Awaitable[None]]) -> None:
    await run()


@contextlib.asynccontextmanager
async def watching(
    plane: ControlPlane, identity: str = "", dialects: GangDialects = ALL
) -> AsyncIterator[tuple[GangWatches, Heard]]:
    kubeconfig = plane.kubeconfig_for(identity) if identity else plane.kubeconfig_for()
    client, heard = Client(load_access(str(kubeconfig))), Heard()
    writer = GangStatusWriter(client)
    watches = GangWatches(client, dialects, heard, plainly, writer, every_s=EVERY_S)
    tasks = [asyncio.create_task(watches.run()), asyncio.create_task(writer.run())]
    try:
        yield watches, heard
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()


def status(state: GangState, message: str = "") -> GangStatus:
    return GangStatus(state, members=2, needed=2, with_node=0, finished=0, message=message)


async def test_a_kind_comes_and_goes_while_we_run(
    control_plane: ControlPlane, namespace: str
) -> None:
    async with watching(control_plane) as (_, heard):
        await wait_for(lambda: PLUGINS in heard.problems)
        assert heard.problems[PLUGINS] == (
            "the gang of the pod is not known: the API server does not serve "
            "podgroups.scheduling.x-k8s.io; install the CustomResourceDefinitions of "
            "scheduler-plugins"
        )
        key = f"{PLUGINS}/{namespace}/train"
        for minimum in (2, 3):  # removed, and installed again
            gang_crds.install(control_plane, PLUGINS)
            gang_crds.create(control_plane, PLUGINS, namespace, "train", {"minMember": minimum})
            await wait_for(lambda: key in heard.gangs)
            assert heard.gangs[key].minimum == minimum
            assert heard.problems[PLUGINS] == ""
            gang_crds.uninstall(control_plane, PLUGINS)
            await wait_for(lambda: heard.problems[PLUGINS])
            assert key not in heard.gangs


@pytest.fixture
def plugins(control_plane: ControlPlane) -> Any:
    gang_crds.install(control_plane, PLUGINS)
    yield
    gang_crds.uninstall(control_plane, PLUGINS)


async def test_what_may_not_be_listed_is_said(
    control_plane: ControlPlane, namespace: str, plugins: None
) -> None:
    async with watching(control_plane, "system:serviceaccount:default:nothing") as (_, heard):
        await wait_for(lambda: "may not list" in heard.problems.get(PLUGINS, ""))


async def test_everything_is_fed_again_when_asked(
    control_plane: ControlPlane, namespace: str, plugins: None
) -> None:
    gang_crds.create(control_plane, PLUGINS, namespace, "train", {"minMember": 2})
    key = f"{PLUGINS}/{namespace}/train"
    async with watching(control_plane) as (watches, heard):
        await wait_for(lambda: key in heard.gangs and heard.problems.get(PLUGINS) == "")
        heard.gangs.clear()
        heard.problems.clear()
        async for _ in watches.retell():
            pass
        assert key in heard.gangs
        assert heard.problems[PLUGINS] == ""


async def test_it_is_synced_when_what_can_be_listed_was(
    control_plane: ControlPlane, namespace: str, plugins: None
) -> None:
    gang_crds.create(control_plane, PLUGINS, namespace, "train", {"minMember": 2})
    key = f"{PLUGINS}/{namespace}/train"
    async with watching(control_plane) as (watches, heard):
        assert not watches.is_synced
        await wait_for(lambda: watches.is_synced)
        assert key in heard.gangs
    async with watching(control_plane, "system:serviceaccount:default:nothing") as (watches, _):
        await wait_for(lambda: watches.is_synced)
