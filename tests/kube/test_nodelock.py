"""The lock of a node around a bind, whatever comes in between."""

import asyncio
import json
from dataclasses import dataclass, field

import pytest

from fairlead.engine.events import BindDone, BindFailed, BindProblem
from fairlead.engine.instructions import Bind
from fairlead.kube.errors import ReplyLost
from fairlead.kube.http.reply import Reply
from fairlead.kube.writes.binder import Binder
from fairlead.kube.writes.settling import Outcome, Patience
from scripted import OK, Answer, Request, Scripted, a_pod, status, until

KEY = "hami.io/mutex.lock"
OURS = "2026-01-01T00:05:00Z,ns,p"
QUICK = Patience(first_pause_s=0.001, longest_pause_s=0.005, in_flight_s=0.01)


@dataclass
class Node:
    """A node as the API server keeps it: written to only by who has seen its last version."""

    lock: str | None = None
    version: int = 1
    bind: Reply = OK
    pods: set[str] = field(default_factory=set)
    #: Replies to PATCH that get lost: before they are carried out, or after.
    lost_before: int = 0
    lost_after: int = 0
    #: Writes of others that come in between.
    disturbed: int = 0

    def answer(self, request: Request) -> Reply | Exception:
        if request.path.endswith("/binding"):
            assert self.lock == OURS, "bound without the lock"
            return self.bind
        if "/pods/" in request.path:
            return status(200 if request.path.rsplit("/", 1)[1] in self.pods else 404)
        if request.method == "GET":
            said = {KEY: self.lock} if self.lock is not None else {}
            meta = {"resourceVersion": str(self.version), "annotations": said}
            self.version += 1 if self.disturbed else 0
            self.disturbed -= 1 if self.disturbed else 0
            return Reply(200, json.dumps({"metadata": meta}).encode())
        return self._patch(request)

    def _patch(self, request: Request) -> Reply | Exception:
        if self.lost_before:
            self.lost_before -= 1
            return ReplyLost("lost on the way")
        meta = request.body["metadata"]
        if meta["resourceVersion"] != str(self.version):
            return status(409, "the object has been modified")
        self.lock, self.version = meta["annotations"][KEY], self.version + 1
        if self.lost_after:
            self.lost_after -= 1
            return ReplyLost("lost on the way back")
        return status(200)


async def outcome_of(answer: Answer) -> Outcome:
    reports: list[Outcome] = []
    binder = Binder(Scripted(answer), reports.append, patience=QUICK)
    running = asyncio.create_task(binder.run())
    binder.submit(Bind(a_pod(), "n1", lock=(KEY, OURS)))
    await until(lambda: reports)
    await binder.stop(grace_s=0.5)
    await running
    return reports[0]


@pytest.mark.parametrize(
    "node",
    [
        Node(),
        Node("2026-01-01T00:04:59Z,ns,p"),  # ours, from a try before
        Node("2025-12-31T23:59:59Z,ns,other", pods={"other"}),  # void by now
        Node("2026-01-01T00:04:59Z,ns,gone"),
        Node("whenever"),
        Node(lost_before=2),
        Node(lost_after=1),
        Node(disturbed=3),
    ],
    ids=["free", "ours", "void", "of a pod that is gone", "no time", "lost", "lost back", "busy"],
)
async def test_the_lock_is_taken_before_the_bind_and_left_to_the_device_plugin(node: Node) -> None:
    assert await outcome_of(node.answer) == BindDone("uid-p")
    assert node.lock == OURS


@pytest.mark.parametrize("lock", ["2026-01-01T00:04:59Z,ns,other", "2026-01-01T00:04:59+00:00"])
async def test_somebody_elses_lock_is_respected(lock: str) -> None:
    node = Node(lock, pods={"other"})
    outcome = await outcome_of(node.answer)
    assert isinstance(outcome, BindFailed)
    assert outcome.problem is BindProblem.UNAVAILABLE
    assert "locked by its annotation hami.io/mutex.lock since 2026-01-01T00:04:59" in (
        outcome.message
    )
    assert node.lock == lock


@pytest.mark.parametrize("node", [Node(), Node(lost_after=1), Node(disturbed=2)])
async def test_a_bind_that_failed_gives_the_lock_back(node: Node) -> None:
    node.bind = status(403, "no")
    assert isinstance(await outcome_of(node.answer), BindFailed)
    assert node.lock is None


async def test_a_lock_that_somebody_took_over_is_not_given_back() -> None:
    node = Node()
    refuse = status(403, "no")

    def answer(request: Request) -> Reply | Exception:
        if request.path.endswith("/binding"):
            node.lock = "2026-01-01T00:09:00Z,ns,other"
            return refuse
        return node.answer(request)

    assert isinstance(await outcome_of(answer), BindFailed)
    assert node.lock == "2026-01-01T00:09:00Z,ns,other"


@pytest.mark.parametrize(
    "holder", ["a b,p", "ns,../../nodes/n1", "ns,", "..,..", "ns,p\r\nx", "ü,p"]
)
async def test_a_lock_for_what_can_be_no_pod_binds_nobody_and_reaches_no_path(holder: str) -> None:
    """An annotation of a node is free text; no part of it may become part of a path unseen."""
    node, paths = Node(f"2026-01-01T00:04:59Z,{holder}"), []

    def answer(request: Request) -> Reply | Exception:
        paths.append(request.path)
        return node.answer(request)

    assert await outcome_of(answer) == BindDone("uid-p")
    assert set(paths) == {"/api/v1/nodes/n1", "/api/v1/namespaces/ns/pods/p/binding"}


async def test_a_defect_while_binding_is_that_pods_failure_and_the_binder_goes_on() -> None:
    def answer(request: Request) -> Reply | Exception:
        if "/pods/first" in request.path:
            return status(404) if request.method == "GET" else ValueError("a defect")
        return OK

    reports: list[Outcome] = []
    binder = Binder(Scripted(answer), reports.append, patience=QUICK, max_in_flight=1)
    running = asyncio.create_task(binder.run())
    for name in ("first", "second"):
        binder.submit(Bind(a_pod(name), "n1"))
    await until(lambda: len(reports) == 2)
    await binder.stop(grace_s=0.5)
    await running
    failed, done = reports
    assert isinstance(failed, BindFailed)
    assert failed.problem is BindProblem.GONE, "it may have been sent, so the pod is looked at"
    assert done == BindDone("uid-second")


async def test_no_rights_to_lock_is_said_so() -> None:
    def answer(request: Request) -> Reply | Exception:
        if request.method == "PATCH":
            return status(403, "cannot patch nodes")
        return Node().answer(request)

    outcome = await outcome_of(answer)
    assert isinstance(outcome, BindFailed)
    assert "cannot patch nodes" in outcome.message
