"""The evictor's writes: how many at once, and the last victim after the others."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from fairlead.engine.events import EvictionEnded
from fairlead.engine.instructions import Evict
from fairlead.kube.errors import ReplyLost, Unreachable
from fairlead.kube.http.reply import Reply
from fairlead.kube.writes.evictor import Evictor
from fairlead.model.pods import Pod
from scripted import Request, Scripted, a_pod, status, until


async def ends_of(
    transport: Scripted,
    *evictions: Evict,
    max_in_flight: int = 32,
    evicted: Callable[[Pod, str, Evict], None] = lambda *_: None,
) -> list[str]:
    """What was reported wrong of each eviction, when all are over."""
    ended: list[EvictionEnded] = []
    evictor = Evictor(
        transport, ended.append, evicted, now_ns=lambda: 0, max_in_flight=max_in_flight
    )
    running = asyncio.create_task(evictor.run())
    for evict in evictions:
        evictor.submit(evict)
    await until(lambda: len(ended) == len(evictions))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return [end.problem for end in ended]


def an_eviction(name: str, victims: int) -> Evict:
    pods = tuple(a_pod(f"{name}-{n}") for n in range(victims))
    return Evict(a_pod(name), "n1", {"n1": pods})


async def fine(_: Request) -> Reply:
    return await asyncio.sleep(0.001, status(200, ""))


async def test_never_more_writes_under_way_than_allowed_however_many_victims() -> None:
    transport = Scripted(fine)
    evictions = [an_eviction("many", 20), an_eviction("few", 2), an_eviction("one", 1)]
    assert await ends_of(transport, *evictions, max_in_flight=4) == ["", "", ""]
    assert transport.most_under_way == 4
    assert sum(request.method == "DELETE" for request in transport.requests) == 23


async def test_the_last_victim_goes_when_the_others_have_gone() -> None:
    transport = Scripted(fine)
    await ends_of(transport, an_eviction("p", 3))
    told = [(request.method, request.path.split("/")[6]) for request in transport.requests]
    assert told[-2:] == [("PATCH", "p-2"), ("DELETE", "p-2")]
    assert set(told[:-2]) == {(m, p) for m in ("PATCH", "DELETE") for p in ("p-0", "p-1")}


async def test_victims_on_several_nodes_go_in_one_eviction_and_each_is_told_its_own_node() -> None:
    transport, found = Scripted(fine), list[tuple[str, str]]()
    by_node = {"n2": (a_pod("b"),), "n1": (a_pod("a"), a_pod("last"))}
    evict = Evict(a_pod("p"), "n1", by_node)
    ends = await ends_of(
        transport, evict, evicted=lambda victim, node, _: found.append((victim.name, node))
    )
    assert ends == [""]
    assert sorted(found) == [("a", "n1"), ("b", "n2"), ("last", "n1")]
    assert transport.requests[-1].path.endswith("/last"), "after the victims of all nodes"


async def test_only_a_victim_that_is_gone_makes_a_conflict_a_success() -> None:
    """A pod that was changed meanwhile, or a write to etcd that timed out, is a 409 as well."""
    conflicts = ["p-0", "p-0", "p-1"]

    async def answer(request: Request) -> Reply:
        name = request.path.split("/")[6]
        if request.method == "GET":
            return Reply(200, b'{"metadata": {"uid": "%s"}}' % _uid_now(name).encode())
        if request.method == "DELETE" and name in conflicts:
            conflicts.remove(name)
            return status(409, "the object has been modified")
        return await fine(request)

    def _uid_now(name: str) -> str:
        return "uid-p-0" if name == "p-0" else "another"

    transport = Scripted(answer)
    assert await ends_of(transport, an_eviction("p", 2)) == [""]
    deleted = [request.path.split("/")[6] for request in transport.sent("DELETE")]
    assert deleted == ["p-0", "p-0", "p-0", "p-1"]


async def test_a_defect_ends_its_eviction_and_no_other() -> None:
    async def answer(request: Request) -> Reply:
        if "bad" in request.path:
            raise ValueError("a defect")
        return await fine(request)

    problems = await ends_of(
        Scripted(answer), an_eviction("bad", 1), an_eviction("good", 1), max_in_flight=1
    )
    assert "a defect" in problems[0]
    assert problems[1] == ""


async def test_only_an_eviction_that_failed_is_logged_as_failed() -> None:
    async def denies_one(request: Request) -> Reply:
        return status(403, "no") if "bad" in request.path else await fine(request)

    with capture_logs() as logs:
        await ends_of(Scripted(denies_one), an_eviction("good", 1), an_eviction("bad", 1))
    failed = [line["pod"] for line in logs if line["event"] == "eviction failed"]
    assert failed == ["ns/bad"]


async def test_the_last_victim_stays_when_another_cannot_go() -> None:
    async def denies_one(request: Request) -> Reply:
        return status(403, "no") if "p-0" in request.path else await fine(request)

    transport = Scripted(denies_one)
    (problem,) = await ends_of(transport, an_eviction("p", 3))
    assert problem == "ns/p-0 cannot be evicted: no"
    assert not any("p-2" in request.path for request in transport.requests)


async def test_within_budgets_none_is_evicted_unless_all_may_be() -> None:
    async def protects_one(request: Request) -> Reply:
        protected = "p-2" in request.path and _is_dry(request)
        return status(429, "budget") if protected else await fine(request)

    transport = Scripted(protects_one)
    evict = replace(an_eviction("p", 3), within_budgets=True)
    (problem,) = await ends_of(transport, evict)
    assert problem == "ns/p-2 cannot be evicted: budget"
    assert transport.requests
    assert all(map(_is_dry, transport.requests))


def _is_dry(request: Request) -> bool:
    return request.body["deleteOptions"]["dryRun"] == ["All"]


async def test_within_budgets_all_are_evicted_by_the_eviction_api() -> None:
    transport = Scripted(fine)
    assert await ends_of(transport, replace(an_eviction("p", 3), within_budgets=True)) == [""]
    paths = [request.path for request in transport.sent("POST")]
    assert len(paths) == 6
    assert all(path.endswith("/eviction") for path in paths)
    assert not transport.sent("DELETE")


async def test_without_the_right_to_evict_pods_are_deleted() -> None:
    async def forbids(request: Request) -> Reply:
        no = 'pods "p-0" is forbidden: User "x" cannot create resource "pods/eviction" in API group'
        return status(403, no) if request.method == "POST" else await fine(request)

    transport = Scripted(forbids)
    assert await ends_of(transport, replace(an_eviction("p", 2), within_budgets=True)) == [""]
    assert len(transport.sent("DELETE")) == 2


async def test_no_pod_moves_unless_all_may_and_a_budget_is_not_asked_twice() -> None:
    async def answer(request: Request) -> Reply:
        is_second = request.path.endswith("p-1/eviction")
        return status(429, "budget") if is_second else status(201, "")

    transport = Scripted(answer)
    evict = replace(an_eviction("p", 2), moves=True)
    [problem] = await ends_of(transport, evict)
    assert "p-1 cannot be evicted" in problem
    assert all(request.path.endswith("/eviction") for request in transport.requests)
    assert len(transport.requests) == 2, "the dry runs, and nothing else"


@pytest.mark.parametrize(
    ("job", "moves"),
    [
        ({"spec": {}}, True),
        ({"spec": {"backoffLimit": 0}}, False),
        ({"spec": {"backoffLimit": 2}, "status": {"failed": 1}}, False),
        ({"spec": {"backoffLimit": 3}, "status": {"failed": 1}}, True),
        ({"spec": {"backoffLimitPerIndex": 1}}, False),
        ({"spec": {"backoffLimit": 0, "podFailurePolicy": {"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}}, True),
        ({"spec": {"backoffLimit": 0, "podFailurePolicy": {"rules": [
            {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}}, False),
        ({"spec": None}, False),
        (None, False),
    ],
)  # fmt: skip
async def test_pods_of_a_job_move_only_if_it_creates_them_again(job: object, moves: bool) -> None:
    async def answer(request: Request) -> Reply:
        if request.method == "GET":
            assert request.path == "/apis/batch/v1/namespaces/ns/jobs/train"
            return Reply(200, json.dumps(job).encode()) if job else status(403, "no")
        return status(201, "")

    transport = Scripted(answer)
    pods = tuple(replace(a_pod(f"p-{n}"), controller="Job/train") for n in range(2))
    [problem] = await ends_of(transport, Evict(a_pod("p"), "n1", {"n1": pods}, moves=True))
    assert bool(problem) is not moves
    assert bool([each for each in transport.requests if each.method == "POST"]) is moves


@pytest.mark.parametrize("trouble", [Unreachable("no route"), ReplyLost("cut")])
async def test_a_pod_of_a_job_that_cannot_be_asked_for_is_not_moved(trouble: Exception) -> None:
    transport = Scripted(lambda request: trouble if request.method == "GET" else status(201))
    pods = (replace(a_pod("p-0"), controller="Job/train"),)
    [problem] = await ends_of(transport, Evict(a_pod("p"), "n1", {"n1": pods}, moves=True))
    assert problem == f"Job ns/train cannot be read: {trouble}"
    assert [request.method for request in transport.requests] == ["GET"]
