"""Counted resources with a running scheduler on a real API server."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import definitions
from fairlead.kube.counted_words import CHARGED_COUNTED, COUNTED
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead

GPU = "nvidia.com/gpu"
PATH = "/apis/fairlead.dev/v1alpha1/countedresources"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    with definitions.installed(control_plane, definitions.ours("countedresources")):
        yield control_plane


@pytest.fixture
def node(create_nodes: Callable[..., list[str]]) -> str:
    return create_nodes(1, prefix="counted-", allocatable={GPU: "8"})[0]


def count(plane: ControlPlane, name: str, **spec: Any) -> tuple[int, dict[str, Any]]:
    body = {
        "apiVersion": "fairlead.dev/v1alpha1", "kind": "CountedResource",
        "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip
    return plane.api("POST", PATH, body)


def status(plane: ControlPlane, name: str) -> dict[str, Any]:
    found: dict[str, Any] = plane.api("GET", f"{PATH}/{name}")[1].get("status") or {}
    return found


@pytest.mark.real
@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, "write spec.total, spec.layers or both"),
        ({"total": -1}, "should be greater than or equal to 0"),
        ({"layers": [{"name": "a", "count": 1}], "outside": {}}, "spec.outside needs spec.total"),
        ({"total": 1, "mode": "Some"}, "Unsupported value"),
        ({"layers": [{"name": "A/b", "count": 1}]}, "spec.layers[0].name"),
        ({"total": 1, "outside": {"maxAge": "soon"}}, "spec.outside.maxAge"),
    ],
)
def test_the_schema_refuses_what_makes_no_sense(
    plane: ControlPlane, spec: dict[str, Any], why: str
) -> None:
    code, said = count(plane, "refused", **spec)
    assert code == 422
    assert why in said["message"]


@pytest.mark.real  # the schema prunes what it does not name
def test_licences_are_counted_across_a_restart_and_edits(
    plane: ControlPlane, node: str, namespace: str
) -> None:
    pods, kubeconfig = Pods(plane, namespace), plane.kubeconfig_for()
    asks = {COUNTED: "solver=1"}
    with fairlead(plane, kubeconfig=kubeconfig):
        pods.create("early", gpus=1, metadata={"annotations": asks})
        eventually(lambda: pods.condition("early").get("reason") == "CountedResourceNotFound")
        assert count(plane, "solver", total=2)[0] == 201
        pods.wait_bound("early")
        pods.create("second", gpus=1, metadata={"annotations": asks})
        pods.wait_bound("second")
        eventually(lambda: status(plane, "solver").get("used") == 2)
        assert status(plane, "solver")["holders"] == [{"namespace": namespace, "used": 2}]
    edit = {"metadata": {"annotations": {COUNTED: None}}}
    path = f"/api/v1/namespaces/{namespace}/pods/early"
    assert plane.api("PATCH", path, edit, content_type=MERGE)[0] == 200
    assert pods.get("early")["metadata"]["annotations"][CHARGED_COUNTED] == "solver=1"
    with fairlead(plane, kubeconfig=kubeconfig):
        pods.create("third", gpus=1, metadata={"annotations": asks})
        eventually(lambda: pods.condition("third").get("reason") == "WaitingForCountedResource")
        assert "0 of 2 free" in pods.condition("third")["message"]
        pods.delete("early")
        pods.wait_bound("third")
    assert plane.api("DELETE", f"{PATH}/solver")[0] == 200


@pytest.mark.real
def test_use_outside_is_written_by_another_program(
    plane: ControlPlane, node: str, namespace: str
) -> None:
    pods = Pods(plane, namespace)
    assert count(plane, "solver", total=1, outside={"fallback": 1})[0] == 201
    with fairlead(plane, kubeconfig=plane.kubeconfig_for()):
        pods.create("pod", gpus=1, metadata={"annotations": {COUNTED: "solver=1"}})
        eventually(lambda: "1 are used outside" in pods.condition("pod").get("message", ""))
        eventually(lambda: "is not known" in status(plane, "solver").get("message", ""))
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {"status": {"outsideUse": {"used": 0, "time": now}}}
        assert plane.api("PATCH", f"{PATH}/solver/status", body, content_type=MERGE)[0] == 200
        pods.wait_bound("pod")
        eventually(lambda: status(plane, "solver").get("used") == 1)
        assert status(plane, "solver")["outsideUse"]["time"] == now
    assert plane.api("DELETE", f"{PATH}/solver")[0] == 200
