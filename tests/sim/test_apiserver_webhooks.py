"""Admission webhooks, asked as the real server asks them."""

import base64
import contextlib
import json

import pytest

from fidelity.client import Connection
from fidelity.hooks import HOOKS, configure, listening
from fidelity.serving import serving

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def hook(tmp_path):
    with listening(tmp_path) as server:
        yield server


@pytest.fixture
def server(tmp_path):
    with (
        serving(tmp_path / "kubeconfig"),
        contextlib.closing(Connection(tmp_path / "kubeconfig")) as connection,
    ):
        yield connection


def a_pod(name="p", **metadata):
    return {
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "c", "image": "x:1"}]},
    }


def patch(*steps):
    encoded = base64.b64encode(json.dumps(list(steps)).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def test_a_mutating_webhook_changes_the_pod(server, hook):
    configure(server, hook)
    env = [{"name": "CUDA_VISIBLE_DEVICES", "value": ""}]
    hook.answer = lambda _: patch({"op": "add", "path": "/spec/containers/0/env", "value": env})
    pod = server.request("POST", PODS, a_pod())[1]
    assert [each["name"] for each in pod["spec"]["containers"][0]["env"]] == [
        "CUDA_VISIBLE_DEVICES"
    ]
    request = hook.requests[0]["request"]
    assert hook.requests[0]["apiVersion"] == "admission.k8s.io/v1"
    assert request["operation"] == "CREATE"
    assert request["namespace"] == "default"
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert request["object"]["kind"] == "Pod"
    assert request["object"]["spec"]["schedulerName"] == "default-scheduler"
    assert request["oldObject"] is None


def test_a_validating_webhook_refuses(server, hook):
    configure(server, hook, "validating")
    hook.answer = lambda _: {"allowed": False, "status": {"message": "no gpus today"}}
    code, answer, _ = server.request("POST", PODS, a_pod())
    assert code == 403
    assert (
        answer["message"]
        == 'admission webhook "hook.example.com" denied the request: no gpus today'
    )
    assert server.request("GET", f"{PODS}/p")[0] == 404


def test_a_code_of_its_own(server, hook):
    configure(server, hook, "validating")
    hook.answer = lambda _: {
        "allowed": False,
        "status": {"message": "x", "code": 422, "reason": "Invalid"},
    }
    code, answer, _ = server.request("POST", PODS, a_pod())
    assert (code, answer["reason"]) == (422, "Invalid")


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
def test_what_happens_when_it_fails(server, hook, policy, code):
    configure(server, hook, "validating", failurePolicy=policy)
    hook.code = 500
    got, answer, _ = server.request("POST", PODS, a_pod())
    assert got == code
    if code == 500:
        assert 'failed calling webhook "hook.example.com"' in answer["message"]


def test_a_broken_webhook_can_be_removed(server, hook):
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    configure(server, hook, "validating", rules=[everything])
    hook.code = 500
    assert server.request("POST", PODS, a_pod())[0] == 500
    assert server.request("DELETE", HOOKS.format("validating") + "/hook")[0] == 200
    assert server.request("POST", PODS, a_pod())[0] == 201


def test_warnings_reach_the_client(server, hook):
    configure(server, hook, "validating")
    hook.answer = lambda _: {"allowed": True, "warnings": ["mind the gap"]}
    assert any("mind the gap" in warning for warning in server.request("POST", PODS, a_pod())[2])


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({}, True),
        ({"objectSelector": {"matchLabels": {"go": "yes"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}, False),
    ],
    ids=["no selector", "object not selected", "namespace selected", "namespace not selected"],
)
def test_selectors(server, hook, more, asked):
    configure(server, hook, "validating", **more)
    assert server.request("POST", PODS, a_pod())[0] == 201
    assert bool(hook.requests) == asked


def test_a_binding_is_seen(server, hook):
    rule = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods/binding"],
    }
    server.request("POST", PODS, a_pod())
    configure(server, hook, "validating", rules=[rule])
    hook.answer = lambda _: {"allowed": False, "status": {"message": "stale epoch"}}
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    code, answer, _ = server.request("POST", f"{PODS}/p/binding", binding)
    assert (code, "stale epoch" in answer["message"]) == (403, True)
    assert hook.requests[0]["request"]["subResource"] == "binding"
    assert hook.requests[0]["request"]["kind"]["kind"] == "Binding"


def test_reinvocation(server, hook):
    configure(server, hook, name="a-first", reinvocationPolicy="IfNeeded")
    configure(server, hook, name="b-second")
    hook.answer = lambda request: patch(
        {"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}
    )
    assert server.request("POST", PODS, a_pod())[0] == 201
    assert len(hook.requests) == 3


def test_match_conditions_are_warned_about(server, hook):
    conditions = [{"name": "c", "expression": "object.metadata.name == 'x'"}]
    warnings = configure(server, hook, "validating", matchConditions=conditions)
    assert any("matchConditions" in warning for warning in warnings)


def test_pods_of_controllers_are_asked_about_too(server, hook):
    configure(server, hook)
    hook.answer = lambda _: patch(
        {"op": "add", "path": "/metadata/annotations", "value": {"seen": "yes"}}
    )
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": a_pod()["spec"]}
    body = {
        "metadata": {"name": "r"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    server.request("POST", "/apis/apps/v1/namespaces/default/replicasets", body)
    items = []
    for _ in range(100):
        items = server.request("GET", PODS)[1]["items"]
        if items:
            break
    assert items[0]["metadata"]["annotations"] == {"seen": "yes"}
