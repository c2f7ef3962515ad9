"""Reservation pods: what the API server says of one that no event has shown."""

import asyncio
import json

import pytest

from fairlead.cluster.cluster import Cluster
from fairlead.kube.http.reply import Reply
from fairlead.kube.reservations import ReservationPlan
from fairlead.kube.writes.preparer import StepFailed
from fairlead.kube.writes.reserver import Reserver
from fairlead.plugins.reservation_step import ReservationStep
from scripted import OK, Request, Scripted, a_pod, status

REJECTED = {
    "metadata": {"name": "r", "uid": "u"},
    "status": {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "devices unavailable",
    },
}


async def test_a_pod_that_fails_before_its_first_event_is_read_and_deleted() -> None:
    def answer(request: Request) -> Reply:
        return Reply(200, json.dumps(REJECTED).encode()) if request.method == "GET" else OK

    server, failures = Scripted(answer), list[tuple[str, str]]()
    reserver = Reserver(
        server,
        ReservationPlan("fairlead-system", "fairlead:test"),
        Cluster,
        lambda node, why: failures.append((node, why)),
        unseen_s=0.01,
    )
    with pytest.raises(StepFailed, match="UnexpectedAdmissionError: devices unavailable"):
        await reserver.carry_out(a_pod(), "n1", ReservationStep("n1", (0,)))
    assert [request.method for request in server.requests] == ["POST", "GET", "DELETE"]
    assert [node for node, _ in failures] == ["n1"]


async def test_a_pod_is_deleted_once_however_often_that_is_asked_for_meanwhile() -> None:
    server = Scripted(lambda _: status(200))
    plan = ReservationPlan("fairlead-system", "fairlead:test")
    reserver = Reserver(server, plan, Cluster, lambda node, why: None)
    for _ in range(2):
        reserver.delete(a_pod("r"))
        await asyncio.sleep(0)
    await reserver.stop()
    (request,) = server.requests
    assert (request.method, request.path.split("/")[-1]) == ("DELETE", "r")
    assert request.body["preconditions"] == {"uid": "uid-r"}, "and no namesake"
