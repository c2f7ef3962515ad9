"""deploy/inject-policy.yaml gives every pod what the webhook gives it."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from charts import Helm
from examples import examples
from fairlead.sim.controlplane import ControlPlane, served
from fairleads import eventually
from manifests import INJECT, policy
from webhooks import configured, environment, free_port, injects, pod, selecting, webhook

POLICY = policy("fairlead-inject", INJECT)
BY_WEBHOOK, BY_POLICY, BY_BOTH, BY_NOBODY = "by-webhook", "by-policy", "by-both", "by-nobody"
LATER, SHOWN = (
    {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.annotations['fairlead.dev/{key}']"}}
    for key in ("gpus", "runtime-gpus")
)

Json = dict[str, Any]


def tried(plane: ControlPlane, namespace: str, body: Json) -> Json:
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    status, answer = plane.api("POST", path, body)
    assert status == 201, answer
    return answer


@pytest.fixture(scope="module")
def injecting(real_plane: ControlPlane) -> Iterator[ControlPlane]:
    """One namespace for each way of injecting, and one for both at once."""
    plane, port = real_plane, free_port()
    namespaces = (BY_WEBHOOK, BY_POLICY, BY_BOTH, BY_NOBODY)
    for name in namespaces:
        plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    shipped, binding = copy.deepcopy(POLICY)
    selector = selecting((BY_POLICY, BY_BOTH))
    binding["spec"]["matchResources"] = {"namespaceSelector": selector}
    for name in namespaces:
        make_running(plane, name)
    try:
        with (
            served.policy(plane, (shipped, binding), lambda: injects(plane, BY_POLICY)),
            configured(plane, port, BY_WEBHOOK, BY_BOTH),
            webhook(plane, port),
        ):
            for name in (BY_WEBHOOK, BY_BOTH):
                eventually(lambda name=name: injects(plane, name), what=f"injection {name}")
            yield plane
    finally:
        for name in namespaces:
            plane.delete_namespace(name)


values = st.sampled_from(["", "0", "0,1", "all", "none", "void", "GPU-1"])
sources = st.sampled_from([
    LATER,
    {"fieldRef": {"fieldPath": "metadata.annotations['fairlead.dev/gpus']"}},
    SHOWN,
    {"fieldRef": {"fieldPath": "metadata.annotations['mine']"}},
    {"configMapKeyRef": {"name": "gpus", "key": "all"}},
    {"secretKeyRef": {"name": "gpus", "key": "all", "optional": True}},
    {"resourceFieldRef": {"resource": "limits.cpu"}},
])  # fmt: skip
names = st.sampled_from([
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "A", "cuda_visible_devices",
    "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_LOG_DIRECTORY",
])  # fmt: skip
variables = st.one_of(
    st.builds(lambda name: {"name": name}, names),
    st.builds(lambda name, value: {"name": name, "value": value}, names, values),
    st.builds(lambda name, source: {"name": name, "valueFrom": source}, names, sources),
)


HOST_PATH = {"path": "/run/fairlead/mps", "type": "Directory"}
VOLUME = {"name": "fairlead-mps", "hostPath": HOST_PATH}
PIPE = "$(CUDA_VISIBLE_DEVICES)/pipe"
MOUNT = {"name": "fairlead-mps", "mountPath": "/run/fairlead/mps", "subPathExpr": PIPE}
MOUNT["readOnly"] = True
CLIENT = {"fairlead.dev/gpu-share": "0.5", "fairlead.dev/gpu-isolation": "mps"}


def limit(name: str, annotation: str) -> Json:
    path = f"metadata.annotations['fairlead.dev/{annotation}']"
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


LIMITS = [
    {"name": "CUDA_MPS_PIPE_DIRECTORY", "value": "/run/fairlead/mps"},
    limit("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "mps-threads"),
    limit("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "mps-memory"),
]
#: Volumes of a pod, one of them with the name of ours; and mounts of the volume of that name.
volumes = st.sampled_from([
    [VOLUME], [{"name": "a", "emptyDir": {}}, {"name": "fairlead-mps", "emptyDir": {}}],
    [{"name": "fairlead-mps", "hostPath": {"path": "/run/fairlead/mps"}}],
    [{"name": "fairlead-mps", "hostPath": {"path": "/run", "type": "Directory"}}],
])  # fmt: skip
mounts = st.lists(
    st.sampled_from([
        MOUNT, {**MOUNT, "readOnly": False}, {"name": "fairlead-mps", "mountPath": "/all"},
        {**MOUNT, "subPathExpr": "$(A)/pipe"}, {**MOUNT, "mountPath": "/mine"},
    ]),
    max_size=3, unique_by=lambda mount: mount["mountPath"],
)  # fmt: skip


@st.composite
def containers(draw: st.DrawFn, least: int, prefix: str) -> list[Json]:
    found = []
    for number in range(draw(st.integers(least, 3))):
        one: Json = {"name": f"{prefix}{number}", "image": "x"}
        if draw(st.booleans()):
            one["env"] = draw(st.lists(variables, max_size=6))
        if draw(st.booleans()):
            one["envFrom"] = [{"configMapRef": {"name": "gpus"}}]
        found.append(one)
    return found


SHARE, MEMORY = {"fairlead.dev/gpu-share": "0.5"}, {"fairlead.dev/gpu-memory": "4Gi"}
SLICE = {"fairlead.dev/gpu-slice": "1g.18gb"}
MAP = {"gpu-scheduling-map": "0=node1:0,1"}
KAI, BY_CONTAINER = {"gpu-fraction": "0.5"}, {"nvidia.com/container.c0.gpu-memory.limit": "1Gi"}


ANNOTATIONS = [
    {}, SHARE, MEMORY, SLICE, SHARE | MEMORY, MAP, KAI, BY_CONTAINER, {"note": "x"},
]  # fmt: skip


@st.composite
def pods(draw: st.DrawFn) -> Json:
    words = draw(st.sampled_from([*ANNOTATIONS, CLIENT, CLIENT]))
    named = "some-0" if words == MAP else draw(st.sampled_from(["", "some", "some-0"]))
    scheduler = draw(st.sampled_from(["gpu-scheduler", "toyscheduler", "default-scheduler"]))
    body = pod(named, scheduler=scheduler, annotations=words)
    body["spec"] |= {
        "containers": draw(containers(1, "c")),
        "initContainers": draw(containers(0, "i")),
    }
    if draw(st.booleans()):
        body["spec"]["volumes"] = draw(volumes)
        for one in (*body["spec"]["initContainers"], *body["spec"]["containers"]):
            one["volumeMounts"] = draw(mounts)
    return body


IMAGE = {"image": "x", "terminationMessagePolicy": "File"}
#: Pods that ephemeral containers are added to, by name; made before anything injects.
RUNNING = {
    "plain": pod("plain"),
    "shared": pod("shared", annotations=SHARE),
    "kai": pod("kai", annotations=KAI),
    "client": pod("client", annotations=CLIENT),
    "mapped-0": pod("mapped-0", annotations=MAP),
    "others": pod("others", scheduler="default-scheduler"),
    "debugged-before": pod("debugged-before"),
}


def make_running(plane: ControlPlane, namespace: str) -> None:
    for body in RUNNING.values():
        status, answer = plane.api("POST", f"/api/v1/namespaces/{namespace}/pods", body)
        assert status == 201, answer
    debugged(plane, namespace, "debugged-before", [{"name": "earlier", **IMAGE}], dry="")


def debugged(
    plane: ControlPlane, namespace: str, name: str, added: list[Json], dry: str = "?dryRun=All"
) -> list[Json]:
    """The pod's ephemeral containers when these are added."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    _, body = plane.api("GET", path)
    body["spec"]["ephemeralContainers"] = [*body["spec"].get("ephemeralContainers", ()), *added]
    status, answer = plane.api("PUT", f"{path}/ephemeralcontainers{dry}", body)
    assert status == 200, answer
    found: list[Json] = answer["spec"]["ephemeralContainers"]
    return found


def referring(spec: Json) -> Json:
    """The same with variables that refer to the annotation, where a map's value is put in.

    The policy does not read maps. The scheduler writes the same value into the annotation.
    """
    literal = {"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"}
    later = {"name": "CUDA_VISIBLE_DEVICES", "valueFrom": LATER}
    changed = copy.deepcopy(spec)
    for one in (*changed.get("initContainers", ()), *changed["containers"]):
        one["env"] = [later if entry == literal else entry for entry in one["env"]]
    return changed


@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=pods())
def test_both_give_the_same_pod(injecting: ControlPlane, body: Json) -> None:
    by_webhook, by_policy, by_both, untouched = (
        tried(injecting, namespace, body)["spec"]
        for namespace in (BY_WEBHOOK, BY_POLICY, BY_BOTH, BY_NOBODY)
    )
    if body["spec"]["schedulerName"] == "default-scheduler":
        assert by_webhook == by_policy == by_both == untouched
        return
    words = body["metadata"]["annotations"]
    mapped, kai, client = words == MAP, words in (KAI, BY_CONTAINER), words == CLIENT
    assert (referring(by_webhook) if mapped else by_webhook) == by_policy
    # Each is asked again after the other has changed something: nothing is put in twice.
    assert (referring(by_both) if mapped else by_both) == by_policy
    for before, after in zip(
        environment({"spec": untouched}), environment({"spec": by_policy}), strict=True
    ):
        check(before, after, mapped=mapped, kai=kai, client=client)
    if client:
        check_pipe(by_policy)
    if mapped:
        values = [_value(env) for env in environment({"spec": by_webhook})]
        assert set(values) == {"0,1"}


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["plain", "shared", "kai", "client", "mapped-0", "others"]),
    added=containers(1, "debug"),
)
def test_both_give_ephemeral_containers_the_same(
    injecting: ControlPlane, name: str, added: list[Json]
) -> None:
    by_webhook, by_policy, by_both, untouched = (
        {"containers": debugged(injecting, namespace, name, added)}
        for namespace in (BY_WEBHOOK, BY_POLICY, BY_BOTH, BY_NOBODY)
    )
    if name == "others":
        assert by_webhook == by_policy == by_both == untouched
        return
    mapped = name == "mapped-0"
    assert (referring(by_webhook) if mapped else by_webhook) == by_policy
    assert (referring(by_both) if mapped else by_both) == by_policy
    for before, after in zip(untouched["containers"], by_policy["containers"], strict=True):
        if name == "client":
            check_debugger(after["env"])
        else:
            check(before.get("env", []), after["env"], mapped=mapped, kai=name == "kai")


@pytest.mark.parametrize("namespace", [BY_WEBHOOK, BY_POLICY, BY_BOTH])
def test_a_debugger_from_before_does_not_stop_the_next_one(
    injecting: ControlPlane, namespace: str
) -> None:
    """It has no variable of ours, and cannot get one any more."""
    earlier, added = debugged(injecting, namespace, "debugged-before", [{"name": "d", **IMAGE}])

    assert "env" not in earlier
    assert added["env"] == [{"name": "CUDA_VISIBLE_DEVICES", "valueFrom": LATER}]


def _value(env: list[Json]) -> str | None:
    (ours,) = [one for one in env if one["name"] == "CUDA_VISIBLE_DEVICES"]
    return ours.get("value")


def check(
    before: list[Json], after: list[Json], *, mapped: bool, kai: bool, client: bool = False
) -> None:
    """Ours is there once, nothing shows other GPUs, and the rest is as it was."""
    ours = [one for one in after if one["name"] == "CUDA_VISIBLE_DEVICES"]
    assert ours == [{"name": "CUDA_VISIBLE_DEVICES", "valueFrom": LATER}]
    if client:
        assert sorted(of_mps(after), key=lambda one: one["name"]) == sorted(
            LIMITS, key=lambda one: one["name"]
        )
        before, after = ([one for one in env if one not in of_mps(env)] for env in (before, after))
    rest = [one for one in before if not one["name"].endswith("A_VISIBLE_DEVICES")]
    assert [one for one in after if not one["name"].endswith("A_VISIBLE_DEVICES")] == rest
    for one in after:
        if one["name"] == "NVIDIA_VISIBLE_DEVICES" and not mapped:
            assert one.get("valueFrom", LATER) == (SHOWN if kai else LATER)
            assert one.get("value", "") in ("", "none", "void")


def of_mps(env: list[Json]) -> list[Json]:
    return [one for one in env if one["name"].startswith("CUDA_MPS_")]


def check_pipe(spec: Json) -> None:
    """Every container mounts the pipe of its GPU, and no other one."""
    assert [one for one in spec["volumes"] if one["name"] == "fairlead-mps"] == [VOLUME]
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        found = [one for one in container["volumeMounts"] if one["name"] == "fairlead-mps"]
        assert found == [MOUNT]


def check_debugger(env: list[Json]) -> None:
    """It cannot mount the pipe, so it gets no GPU."""
    assert of_mps(env) == []
    visible = [one for one in env if one["name"].endswith("A_VISIBLE_DEVICES")]
    assert sorted(visible, key=lambda one: one["name"]) == [
        {"name": "CUDA_VISIBLE_DEVICES"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
    ]


def test_the_policy_knows_the_isolation_of_profiles(
    control_plane: ControlPlane, namespace: str, charts: Helm
) -> None:
    profiles = [{"schedulerName": "gpu-scheduler", "isolation": "mps"}]
    values = {"policies": {"inject": True}, "config": {"profiles": profiles}}
    found = [one for one in charts.rendered(values) if one["metadata"]["name"] == "fairlead-inject"]
    policy, binding = found
    policy["metadata"]["name"] = binding["metadata"]["name"] = "isolating"
    binding["spec"]["policyName"] = "isolating"
    binding["spec"]["matchResources"] = {"namespaceSelector": selecting([namespace])}
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    with served.policy(control_plane, (policy, binding), lambda: injects(control_plane, namespace)):
        _, share = control_plane.api("POST", path, pod("share", annotations=SHARE))
        own = {**SHARE, "fairlead.dev/gpu-isolation": "advisory"}
        _, advisory = control_plane.api("POST", path, pod("advisory", annotations=own))

    assert share["metadata"]["annotations"]["fairlead.dev/gpu-isolation"] == "mps"
    assert [v for v in share["spec"]["volumes"] if v["name"] == "fairlead-mps"]
    assert advisory["metadata"]["annotations"]["fairlead.dev/gpu-isolation"] == "advisory"
    assert not [v for v in advisory["spec"].get("volumes", ()) if v["name"] == "fairlead-mps"]
