"""Gangs that make room on the real API server: whole gangs are evicted, or nothing."""

from collections.abc import Iterator

import pytest

from fairlead.sim.controlplane import ADMIN, ControlPlane, served
from fairleads import Pods, eventually, fairlead
from test_preemption import make_budget


@pytest.fixture
def high(control_plane: ControlPlane) -> Iterator[str]:
    with served.priority_classes(control_plane, {"making-room-high": 1000}):
        yield "making-room-high"


def gang(pods: Pods, name: str, count: int, gpus: int, **spec: object) -> list[str]:
    names = [f"{name}-{number}" for number in range(count)]
    words = {"fairlead.dev/gang": name, "fairlead.dev/gang-min": str(count)}
    for each in names:
        metadata = {"annotations": words, "labels": {"app": name}}
        pods.create(each, gpus, metadata=metadata, **spec)
    return names


def leaving(pods: Pods, names: list[str]) -> list[str]:
    return [name for name in names if pods.get(name)["metadata"].get("deletionTimestamp")]


def nominated(pods: Pods, names: list[str]) -> dict[str, str]:
    return {name: pods.get(name)["status"].get("nominatedNodeName", "") for name in names}


def test_a_gang_evicts_a_whole_gang_and_has_its_room(
    control_plane: ControlPlane, create_nodes, pods: Pods, high: str
) -> None:
    _make_room(control_plane, create_nodes, pods, high, "EvictionByEvictionAPI")


@pytest.mark.real
def test_without_the_right_to_the_eviction_api_it_deletes_the_gang(
    control_plane: ControlPlane, create_nodes, pods: Pods, high: str
) -> None:
    user = "system:kube-scheduler"
    _make_room(control_plane, create_nodes, pods, high, "PreemptionByScheduler", user)


def _make_room(
    plane: ControlPlane, create_nodes, pods: Pods, high: str, reason: str, user: str = ADMIN
) -> None:
    create_nodes(["m1", "m2"], allocatable={"nvidia.com/gpu": "4"})
    with fairlead(plane, kubeconfig=plane.kubeconfig_for(user)):
        low = gang(pods, "low", 8, 1)
        pods.wait_bound(*low)
        large = gang(pods, "high", 2, 4, priorityClassName=high)
        eventually(lambda: len(leaving(pods, low)) == 8, what="all of the low gang leave")
        said = "8 pod(s) are evicted for it; it has room when they are gone."
        eventually(lambda: pods.condition("high-0").get("message", "").endswith(said), what=said)
        reasons = {c["type"]: c.get("reason") for c in pods.get("low-0")["status"]["conditions"]}
        assert reasons["DisruptionTarget"] == reason
        assert eventually(lambda: pods.events("low-0", "Preempted"))
        eventually(lambda: all(nominated(pods, large).values()), what="all have a place")
        held = nominated(pods, large)
        assert set(held.values()) == {"m1", "m2"}
        pods.create("filler", 1)
        for name in low[:7]:
            pods.delete(name)
        pods.wait_refused("filler")
        assert not any(map(pods.node, large))
        pods.delete("low-7")
        assert pods.wait_bound(*large) == held
        assert not pods.node("filler")


def test_a_budget_keeps_the_whole_gang(
    control_plane: ControlPlane, create_nodes, pods: Pods, high: str
) -> None:
    create_nodes(["b1"], allocatable={"nvidia.com/gpu": "4"})
    make_budget(control_plane, pods.namespace, "low", allowed=3)
    with fairlead(control_plane):
        low = gang(pods, "low", 4, 1)
        pods.wait_bound(*low)
        gang(pods, "high", 1, 1, priorityClassName=high)
        said = "Evicting the pods that it may evict does not help"
        eventually(lambda: said in pods.condition("high-0").get("message", ""), what=said)
        assert leaving(pods, low) == []
