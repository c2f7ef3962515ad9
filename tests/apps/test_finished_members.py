"""Finished members of gangs: one pod neither holds the loop nor ends the search for others."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Raw

from fairlead.apps.run import finished_members
from fairlead.apps.run.finished_members import FinishedMembers
from fairlead.engine import events
from fairlead.engine.instructions import FindFinished
from fairlead.kube.codec import decode_pod
from fairlead.kube.errors import Unreachable
from fairlead.kube.failures import Failures
from fairlead.kube.mirror.wire import Page, read_page
from fairlead.model.errors import FairleadError
from fairlead.model.pods import Pod


def a_pod(name: str, tolerations: int = 0) -> dict[str, Any]:
    gang = {"labels": {"fairlead.dev/gang": "g"}, "annotations": {"fairlead.dev/gang-min": "2"}}
    tolerated = [{"key": f"k{n}", "operator": "Exists"} for n in range(tolerations)]
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name, **gang},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}], "tolerations": tolerated},
        "status": {"phase": "Succeeded"},
    }


class World:
    """Finds the pods of a page in any namespace."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.page = read_page(json.dumps({"metadata": {}, "items": pods}).encode())
        self.found: list[str] = []
        self.failures = Failures()
        self.looked: list[str] = []
        #: So many lists fail first.
        self.failing = 0
        self.members = FinishedMembers(None, self._feed, self._decode, self.failures)  # type: ignore[arg-type]

    async def pages(self, _: object, path: str, __: Mapping[str, str]) -> AsyncIterator[Page]:
        self.looked.append(path)
        if self.failing:
            self.failing -= 1
            raise Unreachable("no connection")
        yield self.page

    def _feed(self, event: events.Event) -> None:
        assert isinstance(event, events.PodSeen)
        self.found.append(event.pod.name)

    def _decode(self, raw: bytes) -> Pod:
        pod = decode_pod(raw)
        if pod.name == "odd":
            raise FairleadError("it makes no sense")
        if pod.name == "worse":
            raise KeyError("a defect")
        return pod


@asynccontextmanager
async def looking(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FinishedMembers]:
    monkeypatch.setattr(finished_members, "pages", world.pages)
    run = asyncio.create_task(world.members.run())
    try:
        yield world.members
    finally:
        assert not run.done(), run.exception()
        run.cancel()
        await asyncio.wait([run])


async def test_a_pod_that_cannot_be_read_does_not_end_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deep = a_pod("deep")
    world = World(a_pod("a"), a_pod("odd"), a_pod("worse"), deep, a_pod("b"))
    assert world.page.items is not None
    nested = json.dumps({**deep, "x": 0}).replace('"x": 0', '"x": ' + "[" * 2000 + "]" * 2000)
    world.page.items[3] = Raw(nested.encode())
    async with looking(world, monkeypatch) as members, asyncio.timeout(60):
        members.submit(FindFinished("fairlead/team/g", "team"))
        members.submit(FindFinished("fairlead/other/g", "other"))
        while len(world.looked) < 2:
            await asyncio.sleep(0)
    assert world.found == ["a", "deep", "b"]
    assert world.failures.counts["reading"] >= 2


async def test_large_pods_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world, most = World(*[a_pod(f"p{n}", tolerations=4000) for n in range(12)]), 0
    async with looking(world, monkeypatch) as members, asyncio.timeout(60):
        members.submit(FindFinished("fairlead/team/g", "team"))
        while (before := len(world.found)) < 12:
            await asyncio.sleep(0)
            most = max(most, len(world.found) - before)
    assert 0 < most <= 2


async def test_a_list_that_fails_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(a_pod("a"))
    world.failing = 3
    async with looking(world, monkeypatch) as members, asyncio.timeout(60):
        members.submit(FindFinished("fairlead/team/g", "team"))
        members.submit(FindFinished("fairlead/other/g", "other"))
        while len(world.looked) < 5:
            await asyncio.sleep(0)
    team, other = (f"/api/v1/namespaces/{namespace}/pods" for namespace in ("team", "other"))
    assert world.looked == [team, other, team, other, team]
    assert world.found == ["a"]
