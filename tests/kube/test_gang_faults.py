"""Discovery and statuses of gangs where the API server answers as no real one can be made to."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairlead.kube.errors import ApiError, ReplyLost, Unreachable
from fairlead.kube.gangs.api import GangKind, GangObject
from fairlead.kube.gangs.discovery import served_versions
from fairlead.kube.gangs.native import Native
from fairlead.kube.gangs.status_writer import GangStatusWriter, ServedKind
from fairlead.kube.http.reply import Reply
from fairlead.model.gangs import GangSpec, GangState, GangStatus
from scripted import Request, Scripted, status

A, B = (GangKind(group, ("v2", "v1"), "podgroups", "PodGroup", "") for group in ("a", "b"))
NATIVE = Native()


def reply(body: Any) -> Reply:
    return Reply(200, json.dumps(body).encode())


def serving(*groups: str, **resources: Reply) -> Scripted:
    """An API server with these groups, all in v1; `resources` says what a group answers."""
    listed = [{"name": name, "versions": [{"version": "v1"}]} for name in groups]

    def answer(request: Request) -> Reply:
        if request.path == "/apis":
            return reply({"groups": listed})
        return resources[request.path.split("/")[2]]

    return Scripted(answer)


PODGROUPS = reply({"resources": [{"name": "podgroups"}, {"name": "podgroups/status"}]})


async def test_the_first_version_that_is_served_is_read() -> None:
    found = await served_versions(serving("a", "other", a=PODGROUPS), (A, B))
    assert found == {A: "v1", B: ""}


async def test_a_group_without_the_kind_does_not_serve_it() -> None:
    assert await served_versions(serving("a", a=reply({"resources": []})), (A,)) == {A: ""}
    gone = status(404)
    assert await served_versions(serving("a", a=gone), (A,)) == {A: ""}


async def test_a_version_of_a_group_is_asked_about_once() -> None:
    other = GangKind("a", ("v1",), "queues", "Queue", "")
    client = serving("a", "b", a=PODGROUPS, b=PODGROUPS)
    assert await served_versions(client, (A, B, other)) == {A: "v1", B: "v1", other: ""}
    assert sorted(each.path for each in client.requests) == ["/apis", "/apis/a/v1", "/apis/b/v1"]


@pytest.mark.parametrize("odd", [status(503), Reply(200, b"<html>"), reply({"resources": [7]})])
async def test_a_group_that_does_not_answer_says_nothing_about_others(odd: Reply) -> None:
    found = await served_versions(serving("a", "b", a=odd, b=PODGROUPS), (A, B))
    assert found == {B: "v1"}


@pytest.mark.parametrize("odd", [status(403), status(500), Reply(200, b"")])
async def test_an_api_server_that_cannot_be_asked_is_an_error(odd: Reply) -> None:
    with pytest.raises(ApiError):
        await served_versions(Scripted(lambda _: odd), (A,))


# -- statuses --------------------------------------------------------------------------------------


def seen(uid: str = "u", **more: Any) -> GangObject:
    fields = {"version": "1", "generation": 1, "status": b"{}", **more}
    return GangObject("ns", "g", uid, spec=GangSpec("native/ns/g", 2), **fields)


def an_object(uid: str = "u", version: str = "2", **more: Any) -> Reply:
    meta = {"name": "g", "namespace": "ns", "uid": uid, "resourceVersion": version}
    return reply({"metadata": meta, **more})


@asynccontextmanager
async def writing(server: Scripted) -> AsyncIterator[GangStatusWriter]:
    writer = GangStatusWriter(server, now_ns=lambda: 0)
    task = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        await writer.stop(5.0)
        await task


REFUSED = GangStatus(GangState.UNSCHEDULABLE, 2, 2, 0, 0, "no room")


async def written(server: Scripted, *objects: GangObject) -> GangStatusWriter:
    assert NATIVE.kind is not None
    async with writing(server) as writer:
        for each in objects or (seen(),):
            writer.put(ServedKind(NATIVE, NATIVE.kind, "v1beta1"), each, REFUSED)
        while len(writer._outbox) or writer._outbox.holds("native/ns/g"):
            await asyncio.sleep(0)
    return writer


def answers(*found: Reply | Exception) -> Scripted:
    left = list(found)
    return Scripted(lambda _: left.pop(0))


async def test_a_write_names_the_object_and_the_version_that_it_knows() -> None:
    server = answers(status(200))
    writer = await written(server)
    (patch,) = server.sent("PATCH")
    assert patch.path == "/apis/scheduling.k8s.io/v1beta1/namespaces/ns/podgroups/g/status"
    assert patch.body["metadata"] == {"uid": "u", "resourceVersion": "1"}
    assert writer.tally.written == 1


@pytest.mark.parametrize("trouble", [status(409), status(500), ReplyLost("lost")])
async def test_after_trouble_the_object_is_read_again(trouble: Reply | Exception) -> None:
    server = answers(trouble, an_object(), status(200))
    writer = await written(server)
    assert [each.method for each in server.requests] == ["PATCH", "GET", "PATCH"]
    assert server.requests[-1].body["metadata"]["resourceVersion"] == "2"
    assert writer.tally.written == 1


async def test_an_outage_does_not_use_up_its_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.kube.writes.object_status._UNREACHABLE_PAUSE_S", 0.0)
    writer = await written(answers(*[Unreachable("away")] * 30, status(200)))
    assert (writer.tally.written, writer.tally.dropped) == (1, 0)


async def test_a_status_that_stands_there_already_is_not_written_again() -> None:
    stands = {
        "type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable",
        "message": "no room", "observedGeneration": 1, "lastTransitionTime": "then",
    }  # fmt: skip
    server = answers()
    writer = await written(server, seen(status=json.dumps({"conditions": [stands]}).encode()))
    assert server.requests == []
    assert writer.tally.skipped == 1


async def test_an_object_of_the_same_name_is_another_one() -> None:
    server = answers(status(409), an_object(uid="other"))
    writer = await written(server)
    assert writer.tally.written == 0
    assert len(server.sent("PATCH")) == 1


async def test_what_is_refused_is_not_tried_again() -> None:
    writer = await written(answers(status(403)))
    assert writer.tally.rejected == 1


async def test_a_status_too_long_to_be_kept_is_read_before_it_is_changed() -> None:
    other = {"type": "Other", "status": "True", "message": "x" * 20_000}
    server = answers(an_object(status={"conditions": [other]}), status(200))
    await written(server, seen(status=b""))
    (patch,) = server.sent("PATCH")
    types = [each["type"] for each in patch.body["status"]["conditions"]]
    assert types == ["Other", "PodGroupInitiallyScheduled"]
