"""Planned starts and advance reservations with a running scheduler on a real API server."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import definitions
from dra_objects import DraObjects, claim_spec, device, exactly, uses
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead

GPU = "nvidia.com/gpu"
PATH = "/apis/fairlead.dev/v1alpha1/reservations"


def at(minutes: float) -> str:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    with definitions.installed(control_plane, definitions.ours("reservations")):
        yield control_plane


@pytest.fixture
def node(create_nodes: Callable[..., list[str]]) -> str:
    return create_nodes(1, prefix="planned-", allocatable={GPU: "4"})[0]


def reserve(plane: ControlPlane, name: str, **spec: Any) -> tuple[int, dict[str, Any]]:
    body = {
        "apiVersion": "fairlead.dev/v1alpha1", "kind": "Reservation",
        "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip
    return plane.api("POST", PATH, body)


def status(plane: ControlPlane, name: str) -> dict[str, Any]:
    found: dict[str, Any] = plane.api("GET", f"{PATH}/{name}")[1].get("status") or {}
    return found


@pytest.mark.real
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"end": None}, "write either spec.end or spec.duration"),
        ({"duration": "1h"}, "write either spec.end or spec.duration"),
        ({"end": "2020-01-01T00:00:00Z"}, "spec.end must be after spec.start"),
        ({"start": "Friday"}, "date-time"),
        ({"gpus": 4}, "write either spec.nodeSelector or spec.gpus"),
        ({"nodeSelector": None}, "write either spec.nodeSelector or spec.gpus"),
        ({"gpuModel": "H100"}, "spec.gpuModel needs spec.gpus"),
        ({"gpusPerNode": 2}, "spec.gpusPerNode needs spec.gpus"),
        (
            {"nodeSelector": None, "gpus": 3, "gpusPerNode": 2},
            "spec.gpusPerNode needs spec.gpus, which must be a multiple of it",
        ),
        ({"namespaces": []}, "write who may use it in spec.namespaces or spec.queues"),
        ({"maintenance": True}, "write who may use it in spec.namespaces or spec.queues"),
    ],
)
def test_the_schema_refuses_what_makes_no_sense(
    plane: ControlPlane, change: dict[str, Any], why: str
) -> None:
    spec = {"start": at(0), "end": at(60), "nodeSelector": {"a": "b"}, "namespaces": ["demo"]}
    spec = {key: value for key, value in {**spec, **change}.items() if value is not None}
    code, said = reserve(plane, "refused", **spec)
    assert code == 422
    assert why in said["message"]


@pytest.mark.real  # the schema prunes what it does not name
def test_reserved_nodes_are_for_their_users(plane: ControlPlane, node: str, namespace: str) -> None:
    pods = Pods(plane, namespace)
    labels = {"kubernetes.io/hostname": node}
    spec = {"start": at(30), "duration": "1h", "nodeSelector": labels, "namespaces": ["elsewhere"]}
    plane.api(
        "PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}},
        content_type="application/merge-patch+json",
    )  # fmt: skip
    with fairlead(plane, kubeconfig=plane.kubeconfig_for()):
        assert reserve(plane, "demo", **spec)[0] == 201
        eventually(lambda: status(plane, "demo").get("nodes") == [node])
        assert status(plane, "demo")["phase"] == "Pending"
        pods.create("service", gpus=1)
        eventually(lambda: pods.condition("service").get("reason") == "WaitingForReservation")
        pods.create("short", gpus=1, activeDeadlineSeconds=60)
        pods.wait_bound("short")
        body = {"spec": {"namespaces": [namespace]}}
        kind = "application/merge-patch+json"
        assert plane.api("PATCH", f"{PATH}/demo", body, content_type=kind)[0] == 200
        pods.wait_bound("service")
        assert plane.api("DELETE", f"{PATH}/demo")[0] == 200


@pytest.mark.real
def test_single_gpus_are_kept_and_the_rest_of_the_node_is_for_others(
    plane: ControlPlane, node: str, namespace: str
) -> None:
    pods = Pods(plane, namespace)
    spec = {"start": at(30), "duration": "1h", "gpus": 2, "gpusPerNode": 1, "namespaces": ["other"]}
    with fairlead(plane, kubeconfig=plane.kubeconfig_for()):
        assert reserve(plane, "two", **spec)[0] == 201
        chosen = [{"node": node, "gpus": 2}]
        eventually(lambda: status(plane, "two").get("gpusByNode") == chosen)
        pods.create("rest", gpus=2)
        pods.wait_bound("rest")
        pods.create("more", gpus=1)
        eventually(lambda: pods.condition("more").get("reason") == "WaitingForReservation")
        assert "GPUs that fit it are reserved" in pods.condition("more")["message"]
        assert plane.api("DELETE", f"{PATH}/two")[0] == 200
        pods.wait_bound("more")


def test_a_pod_does_not_delay_a_planned_start(
    plane: ControlPlane, node: str, namespace: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: fairlead.dev/v1alpha1\nkind: SchedulerConfiguration\n"
        "backfill: {mode: easy, resolution: 1s}\n"
    )
    pods = Pods(plane, namespace)
    with fairlead(plane, "--config", str(config), kubeconfig=plane.kubeconfig_for()):
        pods.create("running", gpus=3, activeDeadlineSeconds=3600)
        pods.wait_bound("running")
        pods.create("head", gpus=4, activeDeadlineSeconds=600)
        eventually(lambda: pods.condition("head").get("reason") == "Unschedulable")
        pods.create("service", gpus=1)
        eventually(lambda: pods.condition("service").get("reason") == "WaitingForPlannedStart")
        pods.create("short", gpus=1, activeDeadlineSeconds=600)
        pods.wait_bound("short")
        assert not pods.node("service")
        pods.delete("head")
        pods.delete("short")
        pods.wait_bound("service")


def test_a_pod_does_not_take_devices_beyond_the_planned_start_of_a_claim(
    dra: DraObjects, pods: Pods, create_nodes: Callable[..., list[str]], tmp_path: Path
) -> None:
    """The start is planned for when the running pod ends; then its claim is deallocated."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: fairlead.dev/v1alpha1\nkind: SchedulerConfiguration\n"
        "backfill: {mode: easy, resolution: 1s}\n"
    )
    (node,) = create_nodes([f"node-of-{dra.namespace}"[:60].strip("-")])
    dra.a_slice(node, [device(f"gpu-{number}") for number in range(2)])
    dra.a_class(dra.namespace)
    for count in (1, 2):
        dra.a_template(f"gpus-{count}", claim_spec(exactly(dra.namespace, count=count)))
    one, two = (uses(f"gpus-{count}", template=True) for count in (1, 2))
    admin = dra.plane.kubeconfig_for()
    with fairlead(dra.plane, "--config", str(config), kubeconfig=admin):
        pods.create("running", resourceClaims=one, activeDeadlineSeconds=3600)
        pods.wait_bound("running")
        pods.create("head", resourceClaims=two, activeDeadlineSeconds=600)
        eventually(lambda: pods.condition("head").get("reason") == "Unschedulable")
        pods.create("service", resourceClaims=one)
        eventually(lambda: pods.condition("service").get("reason") == "WaitingForPlannedStart")
        pods.create("short", resourceClaims=one, activeDeadlineSeconds=600)
        pods.wait_bound("short")
        assert not pods.node("service")
        pods.delete("running")
        pods.delete("short")
        pods.wait_bound("head")
        assert not pods.node("service")
        pods.delete("head")
        pods.wait_bound("service")
