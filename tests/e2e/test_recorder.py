"""Events and conditions on a real API server, beside those that kube-scheduler itself writes."""

import asyncio
import contextlib
import json
import re
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import faultproxy as faults
from fairlead.engine.events import BindDone
from fairlead.engine.instructions import AnnounceFailure, AnnounceScheduled, Bind
from fairlead.kube.access.kubeconfig import Access, load_access
from fairlead.kube.http.client import Client
from fairlead.kube.http.transport import Transport
from fairlead.kube.writes.recorder import Recorder
from fairlead.model.pods import Pod
from fairlead.sim.controlplane import ControlPlane
from fairleads import PATIENCE_S
from faultproxy import FaultProxy
from scene import GPU, SCHEDULER, a_pod, bind_by_hand, outcome_of, path_of, read, wait_for

pytestmark = pytest.mark.server

FULL = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."


@pytest.fixture
def access(control_plane: ControlPlane) -> Access:
    """With kube-scheduler's own rights: no more must be needed."""
    return load_access(str(control_plane.kubeconfig_for("system:kube-scheduler")))


@pytest.fixture
async def proxy(access: Access) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(access) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Client]:
    client = Client(proxy.access)
    yield client
    await client.close()


@pytest.fixture
def pod(control_plane: ControlPlane, namespace: str) -> Pod:
    return a_pod(control_plane, namespace, "train")


@contextlib.asynccontextmanager
async def recording(client: Transport, grace_s: float = PATIENCE_S) -> AsyncIterator[Recorder]:
    recorder = Recorder(client)
    running = asyncio.create_task(recorder.run())
    yield recorder
    await recorder.stop(grace_s)
    await running


def refusal(pod: Pod, message: str = FULL, reason: str = "Unschedulable") -> AnnounceFailure:
    return AnnounceFailure(pod, reason, message)


def events_of(plane: ControlPlane, pod: Pod) -> list[dict[str, Any]]:
    _, found = plane.api("GET", f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events")
    mine = [event for event in found["items"] if event["regarding"]["uid"] == pod.uid]
    return sorted(mine, key=lambda event: event["eventTime"])


def condition_of(plane: ControlPlane, pod: Pod) -> dict[str, Any]:
    (condition,) = read(plane, pod)["status"].get("conditions", [{}])
    return dict(condition)


# The same words as kube-scheduler

LONG_NAMES = [f"example.com/{letter * 60}" for letter in "abcdefghijklmnop"]


def asking_for(amounts: dict[str, str]) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "x", "resources": {"limits": amounts}}]}


CASES: dict[str, dict[str, Any]] = {
    "fits": {},
    "toobig": asking_for({GPU: "9"}),
    "long": asking_for(dict.fromkeys(LONG_NAMES, "1")),
}


async def test_events_and_conditions_equal_those_of_kube_scheduler(
    control_plane: ControlPlane,
    namespace: str,
    client: Client,
    create_nodes: Callable[..., list[str]],
) -> None:
    create_nodes(["only"], allocatable={GPU: "1"})
    theirs = await placed_by_kube_scheduler(control_plane, namespace)
    ours = {n: a_pod(control_plane, namespace, f"{n}-ours", **s) for n, s in CASES.items()}
    async with recording(client) as recorder:
        for name in ("toobig", "long"):
            told = condition_of(control_plane, theirs[name])
            recorder.failed(refusal(ours[name], told["message"], told["reason"]))
        assert await outcome_of(client, Bind(ours["fits"], "only")) == BindDone(ours["fits"].uid)
        recorder.scheduled(AnnounceScheduled(ours["fits"], "only", 1, 0.0))

    for name in CASES:
        assert event_written(control_plane, ours[name]) == event_written(
            control_plane, theirs[name]
        )
        written, expected = (condition_of(control_plane, pods[name]) for pods in (ours, theirs))
        for condition in (written, expected):
            assert re.fullmatch(r"\d{4}-..-..T..:..:..Z", condition.pop("lastTransitionTime"))
        assert written == expected


async def placed_by_kube_scheduler(plane: ControlPlane, namespace: str) -> dict[str, Pod]:
    named = {"schedulerName": "the-real-one"}
    with plane.start_kube_scheduler({"profiles": [named]}):
        pods = {n: a_pod(plane, namespace, f"{n}-theirs", **s, **named) for n, s in CASES.items()}
        for pod in pods.values():
            await wait_for(lambda pod=pod: events_of(plane, pod) and condition_of(plane, pod))
    return pods


def event_written(plane: ControlPlane, pod: Pod) -> dict[str, Any]:
    """The first event about a pod, without what must differ between two pods and two programs."""
    event = events_of(plane, pod)[0]
    assert event["metadata"].pop("name").startswith(f"{pod.name}.")
    assert event["regarding"].pop("resourceVersion") == pod.version
    assert re.fullmatch(r"\d{4}-..-..T..:..:..\.\d{6}Z", event.pop("eventTime"))
    assert event.pop("reportingController") == pod.scheduler
    assert event.pop("reportingInstance") == f"{pod.scheduler}-{socket.gethostname()}"
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        event["metadata"].pop(field)
    text = json.dumps(event).replace(pod.name, "POD").replace(pod.uid, "UID")
    return dict(json.loads(text))


async def test_kubectl_describe_tells_the_story(
    control_plane: ControlPlane, client: Client, pod: Pod
) -> None:
    async with recording(client) as recorder:
        for said in (1, 2):
            recorder.failed(refusal(pod))
            await wait_for(lambda said=said: recorder.stats.events.written == said)
        assert await outcome_of(client, Bind(pod, "node-1")) == BindDone(pod.uid)
        recorder.scheduled(AnnounceScheduled(pod, "node-1", 2, 0.0))
    told = kubectl(control_plane, "describe", "pod", pod.name, "-n", pod.namespace)
    failed, scheduled = told[told.index("Events:") :].splitlines()[-2:]
    words = rf"Warning +FailedScheduling +\d+s \(x2 over \d+s\) +{SCHEDULER} +{re.escape(FULL)}"
    assert re.search(words, failed)
    words = rf"Normal +Scheduled +\d+s +{SCHEDULER} +Successfully assigned {pod.key} to node-1"
    assert re.search(words, scheduled)


def kubectl(plane: ControlPlane, *arguments: str) -> str:
    command = [plane.program("kubectl"), "--kubeconfig", str(plane.kubeconfig_for()), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# Saying it again


async def test_repeated_refusal_is_counted_on_one_event(
    control_plane: ControlPlane, proxy: FaultProxy, client: Client, pod: Pod
) -> None:
    async with recording(client) as recorder:
        recorder.failed(refusal(pod))
        await wait_for(lambda: recorder.stats.events.written == 1)
        for _ in range(4):
            recorder.failed(refusal(pod))
        await wait_for(lambda: recorder.stats.events.written == 2)
        assert events_of(control_plane, pod)[0]["series"]["count"] >= 2
    (event,) = events_of(control_plane, pod)
    assert event["series"]["count"] == 5, "the last count is written on stopping"
    assert event["series"]["lastObservedTime"] > event["eventTime"]
    assert proxy.count("/status") == 1, "the condition is written once"


async def test_repeat_before_the_first_was_written_loses_nothing(
    control_plane: ControlPlane, client: Client, pod: Pod
) -> None:
    async with recording(client) as recorder:
        recorder.failed(refusal(pod))
        recorder.failed(refusal(pod))
    (event,) = events_of(control_plane, pod)
    assert event["series"]["count"] == 2


async def test_expired_event_comes_back_with_its_count(
    control_plane: ControlPlane, client: Client, pod: Pod
) -> None:
    async with recording(client) as recorder:
        recorder.failed(refusal(pod))
        await wait_for(lambda: recorder.stats.events.written == 1)
        (event,) = events_of(control_plane, pod)
        name = event["metadata"]["name"]
        path = f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events/{name}"
        assert control_plane.api("DELETE", path)[0] == 200
        recorder.failed(refusal(pod))
    (event,) = events_of(control_plane, pod)
    assert event["series"]["count"] == 2


# Conditions


async def test_new_reason_keeps_the_time_since_when_the_pod_waits(
    control_plane: ControlPlane, client: Client, pod: Pod
) -> None:
    async with recording(client) as recorder:
        recorder.failed(refusal(pod, "no room"))
        await wait_for(lambda: recorder.stats.conditions.written == 1)
        first = condition_of(control_plane, pod)
        await asyncio.sleep(1.1)
        recorder.failed(refusal(pod, "no luck", "SchedulerError"))
    second = condition_of(control_plane, pod)
    assert (first["reason"], first["message"]) == ("Unschedulable", "no room")
    assert (second["reason"], second["message"]) == ("SchedulerError", "no luck")
    assert first["lastTransitionTime"] == second["lastTransitionTime"]
    assert first["observedGeneration"] == second["observedGeneration"] == 1


async def test_late_explanation_does_not_unschedule_a_bound_pod(
    control_plane: ControlPlane, client: Client, pod: Pod
) -> None:
    bind_by_hand(control_plane, pod, "node-1")
    async with recording(client) as recorder:
        recorder.failed(refusal(pod))
    assert condition_of(control_plane, pod)["status"] == "True"
    assert recorder.stats.conditions.skipped == 1


async def test_explanation_reaches_a_pod_that_changed_meanwhile(
    control_plane: ControlPlane, client: Client, pod: Pod
) -> None:
    patch = {"metadata": {"labels": {"changed": "yes"}}}
    status, _ = control_plane.api(
        "PATCH", path_of(pod), patch, content_type="application/merge-patch+json"
    )
    assert status == 200
    async with recording(client) as recorder:
        recorder.failed(refusal(pod))
    assert condition_of(control_plane, pod)["message"] == FULL


async def test_explanation_does_not_reach_a_namesake(
    control_plane: ControlPlane, client: Client, pod: Pod
) -> None:
    control_plane.api("DELETE", path_of(pod))
    namesake = a_pod(control_plane, pod.namespace, pod.name)
    async with recording(client) as recorder:
        recorder.failed(refusal(pod))
    assert read(control_plane, namesake)["metadata"]["resourceVersion"] == namesake.version


async def test_deleted_pod_needs_no_explanation(
    control_plane: ControlPlane, client: Client, pod: Pod
) -> None:
    control_plane.api("DELETE", path_of(pod))
    async with recording(client) as recorder:
        recorder.failed(refusal(pod))
    assert recorder.stats.conditions.skipped == 1


# Servers in trouble


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(faults.answer(429, "wait", Retry_After="0"), id="throttled"),
        pytest.param(faults.answer(500), id="internal error"),
        pytest.param(faults.answer(503), id="unavailable"),
        pytest.param(faults.refuse_connection, id="connection broken"),
        pytest.param(faults.lose_reply, id="reply lost"),
    ],
)
async def test_troubled_writes_are_tried_again_and_land_once(
    control_plane: ControlPlane,
    proxy: FaultProxy,
    client: Client,
    pod: Pod,
    fault: faults.RequestFault,
) -> None:
    proxy.on_request(fault, times=3, path="/events")
    proxy.on_request(fault, times=3, path="/status")
    async with recording(client) as recorder:
        recorder.failed(refusal(pod))
    (event,) = events_of(control_plane, pod)
    assert "series" not in event
    assert condition_of(control_plane, pod)["message"] == FULL
    assert recorder.stats.events.dropped == recorder.stats.conditions.dropped == 0


async def test_f24_hanging_event_writes_hold_up_nothing_else(
    control_plane: ControlPlane, namespace: str, proxy: FaultProxy, client: Client
) -> None:
    pods = [a_pod(control_plane, namespace, f"p{number}") for number in range(20)]
    proxy.on_request(faults.never_answer, times=None, path="/events")
    async with asyncio.timeout(45):  # less than it takes until hanging writes are given up
        async with recording(client, grace_s=0.1) as recorder:
            for pod in pods:
                recorder.failed(refusal(pod))
            await wait_for(lambda: recorder.stats.conditions.written == len(pods))
            for pod in pods:
                assert await outcome_of(client, Bind(pod, "node-1")) == BindDone(pod.uid)
    assert recorder.stats.events.written == 0
    assert recorder.stats.events.dropped == len(pods), "those under way count as well"


async def test_event_that_the_server_will_never_take_is_given_up(
    control_plane: ControlPlane, proxy: FaultProxy, client: Client, pod: Pod
) -> None:
    status, _ = control_plane.api("GET", f"/api/v1/namespaces/{pod.namespace}")
    assert status == 200
    other = Pod("no-such-namespace", "p", "uid", scheduler=SCHEDULER)
    async with recording(client) as recorder:
        recorder.scheduled(AnnounceScheduled(other, "node-1", 1, 0.0))
        recorder.scheduled(AnnounceScheduled(pod, "node-1", 1, 0.0))
    assert recorder.stats.events.rejected == 1
    assert len(events_of(control_plane, pod)) == 1
