"""Binds on a real API server: what they write, what comes in between, and replies that never come.

The names F17 … F25 are those of the reliability regime.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
from aiohttp import web
from structlog.testing import capture_logs

import faultproxy as faults
from fairlead.engine.events import BindDone, BindFailed, BindProblem
from fairlead.engine.instructions import Bind
from fairlead.kube.access.credentials import Static
from fairlead.kube.access.kubeconfig import Access, load_access
from fairlead.kube.http.client import Client
from fairlead.kube.writes.annotations import LARGEST_BYTES
from fairlead.kube.writes.binder import encode_binding
from fairlead.kube.writes.settling import Outcome, Patience
from fairlead.model.pods import Pod
from fairlead.sim.controlplane import ControlPlane, served
from fairleads import PATIENCE_S, eventually, paused
from faultproxy import FaultProxy
from scene import GPUS, a_pod, bind_by_hand, binding, outcome_of, path_of, read, wait_for

pytestmark = pytest.mark.server

POST = {"method": "POST", "path": "/binding"}


@pytest.fixture
def access(control_plane: ControlPlane) -> Access:
    """With kube-scheduler's own rights: no more must be needed."""
    return load_access(str(control_plane.kubeconfig_for("system:kube-scheduler")))


@pytest.fixture
async def client(access: Access) -> AsyncIterator[Client]:
    client = Client(access)
    yield client
    await client.close()


@pytest.fixture
async def proxy(access: Access) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(access) as proxy:
        yield proxy


@pytest.fixture
async def through(proxy: FaultProxy) -> AsyncIterator[Client]:
    """A client whose every request passes the proxy."""
    client = Client(proxy.access)
    yield client
    await client.close()


@pytest.fixture
def pod(control_plane: ControlPlane, namespace: str) -> Pod:
    return a_pod(control_plane, namespace, "train")


def problem_of(outcome: Outcome) -> BindProblem:
    assert isinstance(outcome, BindFailed), outcome
    assert outcome.message
    return outcome.problem


# What a bind writes


async def test_bind_sets_node_and_annotations_in_one_write(
    control_plane: ControlPlane, client: Client, pod: Pod
) -> None:
    bind = Bind(pod, "node-1", {GPUS: "GPU-1,GPU-2", "fairlead.dev/assignment": '{"d":["ü"]}'})

    assert await outcome_of(client, bind) == BindDone(pod.uid)

    now = read(control_plane, pod)
    assert now["spec"]["nodeName"] == "node-1"
    assert now["metadata"]["annotations"] == bind.annotations
    (condition,) = now["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    query = f"watch=1&resourceVersion={pod.version}&timeoutSeconds=1"
    path = f"/api/v1/namespaces/{pod.namespace}/pods?{query}"
    lines = eventually(lambda: control_plane.text(path).splitlines())
    assert [json.loads(line)["type"] for line in lines] == ["MODIFIED"], "more than one write"


async def test_bind_brings_the_topology_labels_of_the_node(
    control_plane: ControlPlane, client: Client, pod: Pod, create_nodes: Callable[..., list[str]]
) -> None:
    zone = {"topology.kubernetes.io/zone": "z1"}
    (node,) = create_nodes(["zoned"], labels=zone)
    # The admission plugin that copies them hears of a new node a moment later than we do.
    served.until(lambda: _labels_on(control_plane, pod.namespace, node) == zone, "the node is seen")
    assert await outcome_of(client, Bind(pod, node)) == BindDone(pod.uid)
    assert read(control_plane, pod)["metadata"]["labels"] == zone


def _labels_on(plane: ControlPlane, namespace: str, node: str) -> dict[str, str]:
    """What a pod that comes with this node would be labelled with."""
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "x"}]}
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    _, answer = plane.api("POST", path, {"metadata": {"name": "probe"}, "spec": spec})
    return dict(answer["metadata"].get("labels", {}))


TOO_LARGE = {GPUS: "x" * LARGEST_BYTES}


@pytest.mark.parametrize(
    ("node", "annotations", "sentence"),
    [
        pytest.param("Node_1", {}, "not a node name", id="a node that cannot exist"),
        pytest.param("n", {"a b": "1"}, "not an annotation key", id="a key that wedges the pod"),
        pytest.param("n", TOO_LARGE, f"{LARGEST_BYTES + len(GPUS)} bytes", id="too large"),
        pytest.param("n", {GPUS: "0\n"}, "cannot be printed", id="a control character"),
    ],
)
async def test_what_the_server_would_swallow_is_not_sent(
    control_plane: ControlPlane,
    client: Client,
    pod: Pod,
    node: str,
    annotations: Mapping[str, str],
    sentence: str,
) -> None:
    outcome = await outcome_of(client, Bind(pod, node, annotations))
    assert problem_of(outcome) is BindProblem.DENIED
    assert sentence in outcome.message
    assert read(control_plane, pod)["metadata"]["resourceVersion"] == pod.version


# What can come in between


async def test_pod_recreated_under_its_name_is_left_alone(
    control_plane: ControlPlane, client: Client, pod: Pod
) -> None:
    control_plane.api("DELETE", path_of(pod))
    namesake = a_pod(control_plane, pod.namespace, pod.name)

    outcome = await outcome_of(client, Bind(pod, "node-1", {GPUS: "0"}))

    assert outcome == BindFailed(pod.uid, BindProblem.GONE, f"pod {pod.key} is gone")
    assert read(control_plane, namesake)["metadata"]["resourceVersion"] == namesake.version


async def test_pod_deleted_mid_bind_is_gone(
    control_plane: ControlPlane, proxy: FaultProxy, through: Client, pod: Pod
) -> None:
    async def delete_first(forward: faults.Forward) -> web.Response:
        control_plane.api("DELETE", path_of(pod))
        return await forward()

    proxy.on_request(delete_first, **POST)
    outcome = await outcome_of(through, Bind(pod, "node-1"))
    assert outcome == BindFailed(pod.uid, BindProblem.GONE, 'pods "train" not found')


async def test_pod_that_waits_for_its_finalizer_is_not_bound(
    control_plane: ControlPlane, namespace: str, client: Client
) -> None:
    pod = a_pod(control_plane, namespace, "held", metadata={"finalizers": ["example.com/hold"]})
    control_plane.api("DELETE", path_of(pod))
    outcome = await outcome_of(client, Bind(pod, "node-1"))
    assert problem_of(outcome) is BindProblem.DENIED
    assert "is being deleted, cannot be assigned to a host" in outcome.message


async def test_pod_bound_elsewhere_is_taken(
    control_plane: ControlPlane, client: Client, pod: Pod
) -> None:
    bind_by_hand(control_plane, pod, "node-2")
    outcome = await outcome_of(client, Bind(pod, "node-1", {GPUS: "0"}))
    taken = f"pod {pod.key} is already assigned to node 'node-2'"
    assert outcome == BindFailed(pod.uid, BindProblem.TAKEN, taken)


async def test_same_node_with_other_devices_is_not_ours(
    control_plane: ControlPlane, client: Client, pod: Pod
) -> None:
    bind_by_hand(control_plane, pod, "node-1", **{GPUS: "7"})
    outcome = await outcome_of(client, Bind(pod, "node-1", {GPUS: "0"}))
    assert problem_of(outcome) is BindProblem.TAKEN


async def test_gated_pod_is_denied_in_the_words_of_the_server(
    control_plane: ControlPlane, namespace: str, client: Client
) -> None:
    pod = a_pod(control_plane, namespace, "gated", schedulingGates=[{"name": "example.com/wait"}])
    outcome = await outcome_of(client, Bind(pod, "node-1"))
    assert problem_of(outcome) is BindProblem.DENIED
    assert "pod gated has non-empty .spec.schedulingGates" in outcome.message


async def test_admission_policy_denies_one_pod_and_no_other(
    control_plane: ControlPlane, namespace: str, client: Client
) -> None:
    barred, free = (a_pod(control_plane, namespace, name) for name in ("barred", "free"))
    with a_policy(control_plane, barred, "barred from this node"):
        async with binding(client) as (binder, reports):
            binder.submit(Bind(barred, "node-1"))
            binder.submit(Bind(free, "node-1"))
            await reports.until(2)
    assert problem_of(reports.only(barred.uid)) is BindProblem.DENIED
    assert "barred from this node" in reports.only(barred.uid).message
    assert reports.only(free.uid) == BindDone(free.uid)
    assert binder.stats.sent == 2


def a_policy(
    plane: ControlPlane, barred: Pod, message: str
) -> contextlib.AbstractContextManager[None]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    expression = f"object.metadata.name != '{barred.name}'"
    policy = {
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "test-binder"},
        "spec": {
            "matchConstraints": {"resourceRules": [{**rule, "resources": ["pods/binding"]}]},
            "validations": [{"expression": expression, "message": message}],
        },
    }
    scope = {
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "test-binder"},
        "spec": {"policyName": "test-binder", "validationActions": ["Deny"]},
    }
    return served.policy(plane, (policy, scope), lambda: message in _trial(plane, barred))


def _trial(plane: ControlPlane, pod: Pod) -> str:
    """What the API server says of a bind of this pod."""
    body = {"metadata": {"name": pod.name}, "target": {"name": "x"}}
    _, answer = plane.api("POST", f"{path_of(pod)}/binding?dryRun=All", body)
    return str(answer.get("message", ""))


# Replies that never come


async def test_f17_every_reply_lost_and_every_bind_settled_once(
    control_plane: ControlPlane, namespace: str, proxy: FaultProxy, through: Client
) -> None:
    pods = [a_pod(control_plane, namespace, f"p{number}") for number in range(40)]
    proxy.on_request(faults.lose_reply, times=None, **POST)
    async with binding(through, max_in_flight=8) as (binder, reports):
        for number, pod in enumerate(pods):
            binder.submit(Bind(pod, f"node-{number}", {GPUS: str(number)}))
        await reports.until(len(pods))

    assert proxy.count("/binding") == len(pods), "a settled bind was sent again"
    assert binder.stats.lost_replies == binder.stats.bound == len(pods)
    for number, pod in enumerate(pods):
        assert reports.only(pod.uid) == BindDone(pod.uid)
        assert read(control_plane, pod)["spec"]["nodeName"] == f"node-{number}"


async def test_bind_lost_on_the_way_there_is_sent_again(
    control_plane: ControlPlane, proxy: FaultProxy, through: Client, pod: Pod
) -> None:
    proxy.on_request(faults.refuse_connection, times=3, **POST)
    assert await outcome_of(through, Bind(pod, "node-1", {GPUS: "0"})) == BindDone(pod.uid)
    assert proxy.count("/binding") == 4
    assert read(control_plane, pod)["spec"]["nodeName"] == "node-1"


async def test_lost_refusal_is_still_a_refusal(
    control_plane: ControlPlane, proxy: FaultProxy, through: Client, pod: Pod
) -> None:
    bind_by_hand(control_plane, pod, "node-2")
    proxy.on_request(faults.lose_reply, times=None, **POST)
    outcome = await outcome_of(through, Bind(pod, "node-1"))
    assert problem_of(outcome) is BindProblem.TAKEN


@pytest.mark.parametrize("arrives", ["before the second", "after the second"])
async def test_f18_bind_that_arrives_late_is_reported_once(
    control_plane: ControlPlane, proxy: FaultProxy, through: Client, pod: Pod, arrives: str
) -> None:
    """The first is held up until the pod was looked at, so the look shows an unbound pod."""
    bind = Bind(pod, "node-1", {GPUS: "0"})
    looked, first_arrived, second_arrived = (asyncio.Event() for _ in range(3))
    answers = []

    async def look(forward: faults.Forward) -> web.Response:
        reply = await forward()
        looked.set()
        return reply

    async def first(forward: faults.Forward) -> web.Response:
        await (looked if arrives == "before the second" else second_arrived).wait()
        answers.append(arrive_late(control_plane, bind))
        first_arrived.set()
        raise faults.CutError

    async def second(forward: faults.Forward) -> web.Response:
        if arrives == "before the second":
            await first_arrived.wait()
        reply = await forward()
        answers.append(reply.status)
        second_arrived.set()
        return reply

    proxy.on_request(first, **POST)
    proxy.on_request(second, **POST)
    proxy.on_request(look, method="GET")
    assert await outcome_of(through, bind, deadline_s=0.3) == BindDone(pod.uid)
    await first_arrived.wait()
    await second_arrived.wait()  # the pod may have told before its reply did
    assert answers == [201, 409]
    assert proxy.count("/binding") == 2


def arrive_late(plane: ControlPlane, bind: Bind) -> int:
    """What the server says to a bind whose sender has given up on it."""
    path = f"{path_of(bind.pod)}/binding"
    return plane.api("POST", path, json.loads(encode_binding(bind)))[0]


async def test_looking_goes_on_until_there_is_an_answer(
    proxy: FaultProxy, through: Client, pod: Pod
) -> None:
    proxy.on_request(faults.lose_reply, **POST)
    proxy.on_request(faults.answer(503, "not now"), times=4, method="GET")
    proxy.on_request(faults.refuse_connection, times=4, method="GET")
    proxy.on_request(faults.answer(403, "renewing"), times=1, method="GET")
    with capture_logs() as logs:
        assert await outcome_of(through, Bind(pod, "node-1")) == BindDone(pod.uid)
    assert [line["event"] for line in logs] == ["bind outcome still unknown"]


async def test_stop_leaves_what_cannot_be_known_unreported(
    proxy: FaultProxy, through: Client, pod: Pod
) -> None:
    proxy.on_request(faults.lose_reply, **POST)
    proxy.on_request(faults.never_answer, times=None, method="GET")
    with capture_logs() as logs:
        async with binding(through) as (binder, reports):
            binder.submit(Bind(pod, "node-1"))
            await wait_for(lambda: proxy.count("GET "))
            await binder.stop(grace_s=0.2)
    assert not reports.by_uid
    assert [(line["event"], line["pod"]) for line in logs] == [
        ("bind outcome unknown at exit", pod.key)
    ]


# Servers in trouble


@pytest.mark.parametrize("retry_after", ["0", "1", "60", "soon"])
async def test_f20_throttled_bind_waits_and_succeeds(
    proxy: FaultProxy, through: Client, pod: Pod, retry_after: str
) -> None:
    proxy.on_request(faults.answer(429, "wait", Retry_After=retry_after), times=5, **POST)
    assert await outcome_of(through, Bind(pod, "node-1")) == BindDone(pod.uid)
    assert proxy.count("/binding") == 6


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_f21_server_that_never_recovers_makes_the_bind_unavailable(
    control_plane: ControlPlane, proxy: FaultProxy, through: Client, pod: Pod, status: int
) -> None:
    proxy.on_request(faults.answer(status, "no luck today"), times=None, **POST)
    outcome = await outcome_of(through, Bind(pod, "node-1"))
    assert outcome == BindFailed(pod.uid, BindProblem.UNAVAILABLE, "no luck today")
    assert "nodeName" not in read(control_plane, pod)["spec"]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_f21_burst_of_errors_is_outlived(
    proxy: FaultProxy, through: Client, pod: Pod, status: int
) -> None:
    proxy.on_request(faults.answer(status), times=4, **POST)
    assert await outcome_of(through, Bind(pod, "node-1")) == BindDone(pod.uid)


@pytest.mark.parametrize("status", [500, 502, 504])
async def test_error_after_the_deed_is_no_failure(
    proxy: FaultProxy, through: Client, pod: Pod, status: int
) -> None:
    async def done_but(forward: faults.Forward) -> web.Response:
        await forward()
        return web.Response(status=status)

    proxy.on_request(done_but, times=None, **POST)
    assert await outcome_of(through, Bind(pod, "node-1")) == BindDone(pod.uid)


async def test_denial_after_a_lost_reply_waits_until_nothing_is_under_way(
    control_plane: ControlPlane, proxy: FaultProxy, through: Client, pod: Pod
) -> None:
    """The first may still arrive: until then the device is not free."""
    bind = Bind(pod, "node-1", {GPUS: "0"})

    async def late(forward: faults.Forward) -> web.Response:
        await asyncio.sleep(0.6)
        assert arrive_late(control_plane, bind) == 201
        raise faults.CutError

    proxy.on_request(late, **POST)
    proxy.on_request(faults.answer(403, "not any more"), times=None, **POST)
    assert await outcome_of(through, bind, deadline_s=0.2) == BindDone(pod.uid)


async def test_nobody_there_is_unavailable_in_time(pod: Pod) -> None:
    nobody = Client(Access("http://127.0.0.1:9", None, Static({})))
    async with asyncio.timeout(PATIENCE_S):
        outcome = await outcome_of(nobody, Bind(pod, "node-1"))
    await nobody.close()
    assert problem_of(outcome) is BindProblem.UNAVAILABLE
    assert "cannot connect" in outcome.message


async def test_f25_slow_replies_do_not_make_binds_fail(
    proxy: FaultProxy, through: Client, pod: Pod
) -> None:
    async def slow(forward: faults.Forward) -> web.Response:
        reply = await forward()
        await asyncio.sleep(0.5)
        return reply

    proxy.on_request(slow, times=None)
    assert await outcome_of(through, Bind(pod, "node-1"), deadline_s=0.1) == BindDone(pod.uid)


async def test_frozen_server_is_waited_for_and_nothing_is_reported_twice(
    control_plane: ControlPlane, namespace: str
) -> None:
    client = Client(load_access(str(control_plane.kubeconfig_for("system:kube-scheduler"))))
    pods = [a_pod(control_plane, namespace, f"p{number}") for number in range(20)]
    patience = Patience(unreachable_s=60.0, longest_pause_s=0.2)
    async with binding(client, deadline_s=0.3, patience=patience) as (binder, reports):
        with paused(control_plane, "kube-apiserver"):
            for pod in pods:
                binder.submit(Bind(pod, "node-1", {GPUS: pod.name}))
            await asyncio.sleep(1.5)
            assert not reports.by_uid, "nothing can be known yet"
        await reports.until(len(pods))
    for pod in pods:
        assert reports.only(pod.uid) == BindDone(pod.uid)
        assert read(control_plane, pod)["metadata"]["annotations"] == {GPUS: pod.name}
    await client.close()


@pytest.mark.slow
async def test_killed_server_loses_no_bind(
    new_control_plane: Callable[..., ControlPlane],
) -> None:
    plane = new_control_plane()
    client = Client(load_access(str(plane.kubeconfig_for("system:kube-scheduler"))))
    pods = [a_pod(plane, "default", f"p{number}") for number in range(100)]
    patience = Patience(unreachable_s=PATIENCE_S, longest_pause_s=0.2)
    async with binding(client, max_in_flight=8, patience=patience) as (binder, reports):
        for pod in pods:
            binder.submit(Bind(pod, "node-1", {GPUS: pod.name}))
        await reports.until(10)
        await asyncio.to_thread(plane.kill_apiserver)
        await asyncio.to_thread(plane.restart_apiserver)
        await reports.until(len(pods))
    for pod in pods:
        assert reports.only(pod.uid) == BindDone(pod.uid)
        assert read(plane, pod)["metadata"]["annotations"] == {GPUS: pod.name}
    await client.close()
