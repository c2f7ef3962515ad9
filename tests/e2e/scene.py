"""Pods on a real API server, and someone who listens to the binder."""

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any

from fairlead.engine.instructions import Bind
from fairlead.kube.codec import decode_pod
from fairlead.kube.http.transport import Transport
from fairlead.kube.writes.binder import Binder
from fairlead.kube.writes.settling import Outcome, Patience
from fairlead.model.pods import Pod
from fairlead.sim.controlplane import ControlPlane
from fairleads import PATIENCE_S

GPU = "nvidia.com/gpu"
GPUS = "fairlead.dev/gpus"
SCHEDULER = "fairlead-test"
QUICK = Patience(
    first_pause_s=0.005,
    longest_pause_s=0.1,
    in_flight_s=1.0,
    unreachable_s=1.0,
    longest_throttle_s=0.05,
)


class Reports:
    """What the binder reported, so that a second report of one bind is noticed."""

    def __init__(self) -> None:
        self.by_uid: dict[str, list[Outcome]] = defaultdict(list)
        self._arrived = asyncio.Event()

    def __call__(self, outcome: Outcome) -> None:
        self.by_uid[outcome.uid].append(outcome)
        self._arrived.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.by_uid) < count:
                self._arrived.clear()
                await self._arrived.wait()

    def only(self, uid: str) -> Outcome:
        (outcome,) = self.by_uid[uid]
        return outcome


@contextlib.asynccontextmanager
async def binding(transport: Transport, **options: Any) -> AsyncIterator[tuple[Binder, Reports]]:
    reports = Reports()
    binder = Binder(transport, reports, **{"patience": QUICK, **options})
    running = asyncio.create_task(binder.run())
    yield binder, reports
    await binder.stop(grace_s=1)
    await running


async def outcome_of(transport: Transport, bind: Bind, **options: Any) -> Outcome:
    """What is reported for this bind, and reported once."""
    async with binding(transport, **options) as (binder, reports):
        binder.submit(bind)
        await reports.until(1)
    return reports.only(bind.pod.uid)


def a_pod(plane: ControlPlane, namespace: str, name: str, **spec: Any) -> Pod:
    container = {"name": "main", "image": "example", "resources": {"limits": {GPU: "1"}}}
    body = {
        "metadata": {"name": name, **spec.pop("metadata", {})},
        "spec": {"schedulerName": SCHEDULER, "containers": [container], **spec},
    }
    status, created = plane.api("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    assert status == 201, created
    return decode_pod(json.dumps(created).encode())


def path_of(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def read(plane: ControlPlane, pod: Pod) -> dict[str, Any]:
    status, now = plane.api("GET", path_of(pod))
    assert status == 200, now
    return now


def bind_by_hand(plane: ControlPlane, pod: Pod, node: str, **annotations: str) -> None:
    body = {"metadata": {"name": pod.name, "annotations": annotations}, "target": {"name": node}}
    assert plane.api("POST", f"{path_of(pod)}/binding", body)[0] == 201


async def wait_for(check: Callable[[], object], within_s: float = 180.0) -> None:
    async with asyncio.timeout(within_s):
        while not check():
            await asyncio.sleep(0.01)
