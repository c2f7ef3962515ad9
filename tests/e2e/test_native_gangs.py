"""PodGroups of Kubernetes itself, on a real API server with the feature gates on."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.apps.run.gang_watches import GangWatches
from fairlead.kube.gangs.api import GangObject
from fairlead.kube.gangs.native import Native
from fairlead.kube.gangs.status_writer import ServedKind
from fairlead.model.gangs import GangState
from gang_planes import GangPlane, gang_plane
from scene import wait_for
from test_gang_watches import status, watching

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def gangs(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GangPlane]:
    with gang_plane(assets, tmp_path_factory.mktemp("gangs")) as found:
        yield found


async def test_the_status_is_written_in_the_words_of_kube_scheduler(gangs: GangPlane) -> None:
    made = gangs.create("default", "words", 2)
    async with watching(gangs.plane) as (watches, heard):
        await wait_for(lambda: "native/default/words" in heard.gangs)
        spec = heard.gangs["native/default/words"]
        assert spec.minimum == 2

        watches.write(spec, status(GangState.UNSCHEDULABLE, "no room"))
        await wait_for(lambda: gangs.conditions("default", "words"))
        found = gangs.conditions("default", "words")[gangs.condition]
        said = {key: found[key] for key in ("status", "reason", "message")}
        assert said == {"status": "False", "reason": "Unschedulable", "message": "no room"}
        assert found.get("observedGeneration", 0) == made["metadata"].get("generation", 0)
        assert "Unschedulable" in kubectl_get(gangs, "words")

        watches.write(spec, status(GangState.SCHEDULED))
        await wait_for(
            lambda: gangs.conditions("default", "words")[gangs.condition]["status"] == "True"
        )
        assert "Scheduled" in kubectl_get(gangs, "words")
        await wait_for(lambda: watches.writer.tally.written == 2)

        watches.write(spec, status(GangState.UNSCHEDULABLE, "a member is gone"))  # True stays
        await wait_for(lambda: watches.writer.tally.skipped)
        assert watches.writer.tally.written == 2


async def test_conditions_of_others_survive_a_conflict(gangs: GangPlane) -> None:
    gangs.create("default", "shared", 2)
    async with watching(gangs.plane) as (watches, heard):
        await wait_for(lambda: "native/default/shared" in heard.gangs)
        seen, served = as_it_was(gangs, watches, "shared")
        other = {
            "type": "Other", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        path = gangs.path("default", "shared")
        patch = {"status": {"conditions": [other]}}
        kind = "application/merge-patch+json"
        assert gangs.plane.api("PATCH", f"{path}/status", patch, content_type=kind)[0] == 200

        # As it was before the other wrote.
        watches.writer.put(served, seen, status(GangState.UNSCHEDULABLE, "no room"))
        await wait_for(lambda: gangs.condition in gangs.conditions("default", "shared"))
        assert set(gangs.conditions("default", "shared")) == {"Other", gangs.condition}
        assert watches.writer.tally.retried == 1


async def test_a_namesake_is_not_written(gangs: GangPlane) -> None:
    gangs.create("default", "again", 2)
    async with watching(gangs.plane) as (watches, heard):
        await wait_for(lambda: "native/default/again" in heard.gangs)
        seen, served = as_it_was(gangs, watches, "again")
        delete(gangs, "again")
        gangs.create("default", "again", 3)
        watches.writer.put(served, seen, status(GangState.SCHEDULED))
        await wait_for(lambda: watches.writer.tally.skipped)
        assert gangs.conditions("default", "again") == {}


def as_it_was(gangs: GangPlane, watches: GangWatches, name: str) -> tuple[GangObject, ServedKind]:
    """The PodGroup as it was last seen, and where it is served."""
    objects = (reflector.objects.get(f"default/{name}") for reflector in watches.reflectors)
    seen = next(found for found in objects if isinstance(found, GangObject))
    assert Native.kind is not None
    return seen, ServedKind(Native(), Native.kind, gangs.version)


def delete(gangs: GangPlane, name: str) -> None:
    """Without the controller that would take its finalizer off."""
    path, kind = gangs.path("default", name), "application/merge-patch+json"
    gangs.plane.api("DELETE", path)
    gangs.plane.api("PATCH", path, {"metadata": {"finalizers": None}}, content_type=kind)
    assert gangs.plane.api("GET", path)[0] == 404


def kubectl_get(gangs: GangPlane, name: str) -> str:
    command: list[Any] = [
        gangs.plane.program("kubectl"), "--kubeconfig", gangs.plane.kubeconfig_for(),
        "get", "podgroups.scheduling.k8s.io", name,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
