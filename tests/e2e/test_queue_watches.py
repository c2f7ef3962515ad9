"""Objects of queues on a real API server: kinds come and go, and statuses are written with care."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import queue_crds
from fairlead.apps.run.queue_watches import QueueWatches
from fairlead.engine import events
from fairlead.kube.queues.registry import DIALECTS
from fairlead.kube.writes.outbox import WriteCounts
from fairlead.model.queues import PastUse, QueueSpec, QueueStatus
from fairlead.sim.controlplane import ControlPlane
from queue_watching import watching
from scene import wait_for

pytestmark = pytest.mark.server

OWN = "fairlead"
KEY = f"{OWN}/research"
FULL = QueueSpec("", limit=(("cpu", 1),))
USED = QueueStatus((("nvidia.com/gpu", 2500),), (), PastUse(1e9, 60.0), 1, 2, 3)


async def test_the_kind_comes_and_goes_while_we_run(control_plane: ControlPlane) -> None:
    async with watching(control_plane) as (_, known):
        await wait_for(lambda: OWN in known.kinds)
        assert known.kinds[OWN] == events.QueueKindSeen(
            OWN,
            is_served=False,
            problem="the queue of the pod is not known: the API server does not serve "
            "queues.fairlead.dev; apply deploy/crds.yaml",
        )
        for weight in (2.0, 3.0):  # removed, and installed again
            queue_crds.install(control_plane)
            queue_crds.create(control_plane, "research", weight=weight)
            await wait_for(lambda: KEY in known.queues and known.kinds[OWN].is_served)
            assert known.queues[KEY].weight == weight
            assert known.kinds[OWN].problem == ""
            queue_crds.uninstall(control_plane)
            await wait_for(lambda: not known.kinds[OWN].is_served)
            assert KEY not in known.queues


@pytest.fixture
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    with queue_crds.installed(control_plane):
        yield control_plane


def status_of(plane: ControlPlane, name: str = "research") -> dict[str, Any]:
    found: dict[str, Any] = plane.api("GET", f"{queue_crds.QUEUES}/{name}")[1].get("status") or {}
    return found


def version_of(plane: ControlPlane) -> str:
    meta = plane.api("GET", f"{queue_crds.QUEUES}/research")[1]["metadata"]
    return str(meta["resourceVersion"])


async def test_what_may_not_be_listed_is_said(plane: ControlPlane) -> None:
    async with watching(plane, "system:serviceaccount:default:nothing") as (watches, known):
        await wait_for(lambda: OWN in known.kinds and "may not list" in known.kinds[OWN].problem)
        await wait_for(lambda: watches.is_synced)


async def test_everything_is_fed_again_when_asked(plane: ControlPlane) -> None:
    queue_crds.create(plane, "research")
    async with watching(plane) as (watches, known):
        await wait_for(lambda: watches.is_synced and KEY in known.queues)
        known.queues.clear()
        known.kinds.clear()
        async for _ in watches.retell():
            pass
        assert KEY in known.queues
        assert known.kinds[OWN].is_served


async def test_a_status_is_written_once_and_read_back(plane: ControlPlane) -> None:
    queue_crds.create(plane, "research")
    async with watching(plane) as (watches, known):
        await wait_for(lambda: watches.is_synced and KEY in known.queues)
        watches.write(KEY, USED)
        await wait_for(lambda: known.queues[KEY].recorded == USED.past)
        written = version_of(plane)
        watches.write(KEY, USED)
        await wait_for(lambda: watches.writer.tally.skipped == 1)
        assert watches.writer.tally.written == 1
        assert version_of(plane) == written
    found = status_of(plane)
    (ready,) = found.pop("conditions")
    assert (ready["type"], ready["status"], ready["observedGeneration"]) == ("Ready", "True", 1)
    assert found == {
        "used": {"nvidia.com/gpu": "2.5"}, "fairShare": {},
        "pendingUnits": 1, "pendingPods": 2, "runningPods": 3,
        "pastUse": {
            "at": "2001-09-09T01:46:40Z", "gpuSeconds": 60,
            "dayGPUHours": 0, "monthGPUHours": 0,
        },
    }  # fmt: skip


async def test_a_problem_is_a_condition_and_conditions_of_others_stay(plane: ControlPlane) -> None:
    queue_crds.create(plane, "research", parent="nothing")
    other = {"type": "Reviewed", "status": "True"}
    path = f"{queue_crds.QUEUES}/research/status"
    merge = "application/merge-patch+json"
    async with watching(plane) as (watches, known):
        await wait_for(lambda: watches.is_synced and KEY in known.queues)
        # What the watch has seen is older than this: the write is refused, and done again.
        body = {"status": {"conditions": [other]}}
        assert plane.api("PATCH", path, body, content_type=merge)[0] == 200
        watches.write(KEY, replace(USED, problem="its parent does not exist"))
        await wait_for(lambda: watches.writer.tally.written == 1)
    reviewed, ready = status_of(plane)["conditions"]
    assert reviewed == other
    assert (ready["status"], ready["message"]) == ("False", "its parent does not exist")


async def test_a_forged_status_harms_nothing(plane: ControlPlane) -> None:
    """A user who may write statuses, but not queues."""
    queue_crds.create(plane, "research", weight=2)
    path = f"{queue_crds.QUEUES}/research/status"
    forged = {
        "status": {
            "pastUse": {"at": "9999-12-31T23:59:59Z", "gpuSeconds": 1e308},
            "used": {f"r{n}": "x" * 100 for n in range(500)},
        },
        "spec": {"weight": 1000},
    }
    merge = "application/merge-patch+json"
    assert plane.api("PATCH", path, forged, content_type=merge)[0] == 200
    async with watching(plane) as (watches, known):
        await wait_for(lambda: watches.is_synced and KEY in known.queues)
        assert (known.queues[KEY].recorded, known.queues[KEY].weight) == (None, 2.0)
        # It was too long to be kept, so it is read again before it is replaced.
        (reflector,) = watches.reflectors
        assert reflector.objects["research"].status == b""
        watches.write(KEY, USED)
        await wait_for(lambda: watches.writer.tally.written == 1)
    assert status_of(plane)["used"] == {"nvidia.com/gpu": "2.5"}


async def test_hostile_objects_are_problems_of_their_own(plane: ControlPlane) -> None:
    names = [f"deep-{n}" for n in range(100)]
    for name, parent in zip(names, ["", *names], strict=False):
        assert queue_crds.create(plane, name, parent=parent)[0] == 201
    long = {f"example.com/{n:03}{'r' * 200}": 9_000_000_000_000_000_000 for n in range(64)}
    assert queue_crds.create(plane, "huge", limit=long)[0] == 201
    assert queue_crds.create(plane, "wide", namespaces=[f"n{n}" for n in range(1000)])[0] == 201
    async with watching(plane) as (watches, known):
        await wait_for(lambda: watches.is_synced and len(known.queues) == 102)
        assert {spec.problem for spec in known.queues.values()} == {""}
        assert max(number for _, number in known.queues["fairlead/huge"].limit) == 2**53 - 1


# -- queues of others ------------------------------------------------------------------------------

FOREIGN = [each.name for each in DIALECTS if each.name != OWN and each.kind]


@pytest.mark.parametrize("dialect", FOREIGN)
async def test_queues_of_others_come_and_go(
    control_plane: ControlPlane, namespace: str, dialect: str
) -> None:
    body = {"metadata": {"name": "team"}, "spec": {}}
    name = f"{namespace}/team" if dialect == "elasticquota" else "team"
    key = f"{dialect}/{name}"
    async with watching(control_plane) as (_, known):
        await wait_for(lambda: dialect in known.kinds)
        # Where they are not installed, words of this API have no effect.
        assert known.kinds[dialect] == events.QueueKindSeen(dialect, is_served=False)
        with queue_crds.foreign(control_plane, dialect):
            queue_crds.create_foreign(control_plane, dialect, namespace, body)
            await wait_for(lambda: key in known.queues and known.kinds[dialect].is_served)
        await wait_for(lambda: not known.kinds[dialect].is_served)
        assert [key for key in known.queues if key.startswith(f"{dialect}/")] == []


async def test_volcano_has_two_queues_without_an_object(
    control_plane: ControlPlane, namespace: str
) -> None:
    implied = {"volcano/root", "volcano/default"}
    with queue_crds.foreign(control_plane, "volcano"):
        async with watching(control_plane) as (watches, known):
            await wait_for(lambda: watches.is_synced and known.kinds["volcano"].is_served)
            assert set(known.queues) == implied
            known.queues.clear()
            async for _ in watches.retell():
                pass
            assert set(known.queues) == implied
            body = {"metadata": {"name": "default"}, "spec": {"capability": {"cpu": 1}}}
            path = queue_crds.create_foreign(control_plane, "volcano", namespace, body)
            await wait_for(lambda: known.queues["volcano/default"].limit == (("cpu", 1000),))
            control_plane.api("DELETE", path)
            await wait_for(lambda: known.queues.get("volcano/default", FULL).limit == ())


@pytest.mark.parametrize("serves", [("volcano",), ("gpu-scheduler",)])
async def test_the_status_for_volcano_is_written_by_who_serves_its_name(
    control_plane: ControlPlane, namespace: str, serves: tuple[str, ...]
) -> None:
    body = {"metadata": {"name": "team"}, "spec": {}, "status": {"state": "Open"}}
    with queue_crds.foreign(control_plane, "volcano"):
        path = queue_crds.create_foreign(control_plane, "volcano", namespace, body)
        async with watching(control_plane, serves=serves) as (watches, known):
            await wait_for(lambda: "volcano/team" in known.queues)
            watches.write("volcano/team", USED)
            watches.write("volcano/root", USED)  # it has no object
            written = serves == ("volcano",)
            await wait_for(lambda: watches.writer.tally.written == int(written))
        said = control_plane.api("GET", path)[1].get("status")
    assert (said == {"allocated": {"nvidia.com/gpu": "2.5"}}) is written


async def test_statuses_of_kai_and_of_quotas_are_not_ours(
    control_plane: ControlPlane, namespace: str
) -> None:
    for dialect in ("kai", "koordinator", "elasticquota"):
        with queue_crds.foreign(control_plane, dialect):
            body = {"metadata": {"name": "team"}, "spec": {}}
            queue_crds.create_foreign(control_plane, dialect, namespace, body)
            async with watching(control_plane, serves=("volcano",)) as (watches, known):
                await wait_for(lambda: any(key.endswith("/team") for key in known.queues))
                for key in known.queues:
                    watches.write(key, USED)
                await asyncio.sleep(0)
                assert watches.writer.tally == WriteCounts()


async def test_words_of_yunikorn_name_queues_of_ours(plane: ControlPlane) -> None:
    async with watching(plane) as (watches, known):
        await wait_for(lambda: watches.is_synced)
        queue_crds.create(plane, "root.research", limit={"cpu": 4})
        await wait_for(lambda: "yunikorn/root.research" in known.queues)
        assert known.queues["yunikorn/root.research"].parent == "fairlead/root.research"
        assert known.kinds["yunikorn"].is_served
        plane.api("DELETE", f"{queue_crds.QUEUES}/root.research")
        await wait_for(lambda: not known.kinds["yunikorn"].is_served)
        assert known.queues == {}


async def test_of_two_quotas_with_one_name_the_older_applies(
    control_plane: ControlPlane, namespace: str
) -> None:
    """Names of these quotas are global: a second one would change the limit of the first."""
    limits, paths = {"default": "1", namespace: "2"}, {}
    with queue_crds.foreign(control_plane, "koordinator"):
        for where, cpu in limits.items():
            body = {"metadata": {"name": "q"}, "spec": {"max": {"cpu": cpu}}}
            paths[where] = queue_crds.create_foreign(control_plane, "koordinator", where, body)
        made = {
            where: control_plane.api("GET", path)[1]["metadata"]["creationTimestamp"]
            for where, path in paths.items()
        }
        first, second = sorted(made, key=lambda where: (made[where], where))
        async with watching(control_plane) as (watches, known):

            def limit() -> tuple[tuple[str, int], ...]:
                return known.queues["koordinator/q"].limit if known.queues else ()

            wanted = {where: (("cpu", 1000 * int(cpu)),) for where, cpu in limits.items()}
            await wait_for(lambda: watches.is_synced and limit() == wanted[first])
            change = {"spec": {"max": {"cpu": "7"}}}
            merge = "application/merge-patch+json"
            control_plane.api("PATCH", paths[second], change, content_type=merge)
            changed = paths[second].split("/namespaces/")[1].split("/")[0]
            await wait_for(lambda: _limit_of(watches, f"{changed}/q") == (("cpu", 7000),))
            assert limit() == wanted[first], "the edit of the other one has no effect"
            control_plane.api("DELETE", paths[first])
            await wait_for(lambda: limit() == (("cpu", 7000),))
            control_plane.api("DELETE", paths[second])
            await wait_for(lambda: "koordinator/q" not in known.queues)


def _limit_of(watches: QueueWatches, name: str) -> tuple[tuple[str, int], ...]:
    """Of an object as it was last seen, whether it applies or not."""
    found = (each.objects.get(name) for each in watches.reflectors)
    return next((each.spec.limit for each in found if each), ())
