"""Objects of gangs on a real API server: kinds come and go, and statuses are written with care."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import gang_crds
from builders import a_node, without_annotations
from fairlead.apps.config.profiles import built_in
from fairlead.apps.run.gang_watches import GangWatches
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import GangStatusChanged
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.gangs.registry import ALL, GangDialects
from fairlead.kube.gangs.status_writer import GangStatusWriter
from fairlead.kube.http.client import Client
from fairlead.model.gangs import GangSpec, GangState, GangStatus
from fairlead.model.queues import GPUS, QueueSpec
from fairlead.queue.quotas.admitted import LONGEST_S
from fairlead.sim.controlplane import ControlPlane
from scene import wait_for

pytestmark = pytest.mark.server

PLUGINS = "scheduler-plugins"
EVERY_S = 0.1
VOLCANO_QUEUE = QueueSpec("volcano/q", limit=((GPUS, 8000),), charged_at_admission=True)


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
    plane: ControlPlane,
    identity: str = "",
    dialects: GangDialects = ALL,
    feed: Callable[[events.Event], None] | None = None,
) -> AsyncIterator[tuple[GangWatches, Heard]]:
    kubeconfig = plane.kubeconfig_for(identity) if identity else plane.kubeconfig_for()
    client, heard = Client(load_access(str(kubeconfig))), Heard()
    writer = GangStatusWriter(client)
    watches = GangWatches(client, dialects, feed or heard, plainly, writer, every_s=EVERY_S)
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


class EngineAtNow:
    """A real engine whose time is set by the test, between real watches and writes."""

    def __init__(self) -> None:
        self.engine = Engine({"volcano": built_in("gpu-scheduler")}, encode=without_annotations)
        self.engine.handle(events.NodeSeen(a_node("n1", gpus=8)), now=0.0)
        self.engine.handle(events.QueueSeen(VOLCANO_QUEUE), now=0.0)
        self.now = 0.0

    def __call__(self, event: events.Event) -> None:
        self.engine.handle(event, now=self.now)

    def tend(self, watches: GangWatches) -> None:
        for made in self.engine.tend(now=self.now):
            if isinstance(made, GangStatusChanged):
                watches.write(made.spec, made.status)


async def test_an_admission_after_which_no_pods_come_is_revoked(
    control_plane: ControlPlane, namespace: str
) -> None:
    engine = EngineAtNow()
    spec = {"minMember": 8, "queue": "q", "minResources": {"nvidia.com/gpu": "8"}}
    gang_crds.install(control_plane, "volcano")
    try:
        for name in ("first", "second"):
            gang_crds.create(control_plane, "volcano", namespace, name, spec)
            await _phases_become(control_plane, engine, namespace, {name: ""})
        async with watching(control_plane, feed=engine) as (watches, _):
            admitted = {"first": "Inqueue", "second": "Pending"}
            await _phases_become(control_plane, engine, namespace, admitted, watches)
            engine.now += LONGEST_S + 10.0
            revoked = {"first": "Pending", "second": "Inqueue"}
            await _phases_become(control_plane, engine, namespace, revoked, watches)
    finally:
        gang_crds.uninstall(control_plane, "volcano")


async def _phases_become(
    plane: ControlPlane,
    engine: EngineAtNow,
    namespace: str,
    wanted: dict[str, str],
    watches: GangWatches | None = None,
) -> None:
    kind = gang_crds.kind_of("volcano")
    path = f"/apis/{kind.group}/v1beta1/namespaces/{namespace}/{kind.plural}"

    def are_so() -> bool:
        if watches is not None:
            engine.tend(watches)
        found = plane.api("GET", path)[1]["items"]
        phases = {each["metadata"]["name"]: each.get("status", {}).get("phase", "")
                  for each in found}  # fmt: skip
        return wanted.items() <= phases.items()

    await wait_for(are_so)


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
