"""Nodes are bought for what lacks nodes, and never for what waits on purpose, at any revision."""

from collections.abc import Callable
from typing import Any

import pytest

from autoscaler_rules import UNSCHEDULABLE, History
from fairlead.sim.controlplane import ControlPlane, served
from fairleads import Pods, eventually, fairlead

GPU = "nvidia.com/gpu"
CAPACITY = "fairlead.dev/capacity-type"
SPOT = {"karpenter.sh/capacity-type": "spot"}
CONFIG = """
backfill: {mode: easy}
goals:
  prices: [{kind: label, key: example.com/price}]
profiles:
  - schedulerName: gpu-scheduler
    goals: {order: [{sum: [Cost]}]}
"""
Nodes = Callable[..., list[str]]


@pytest.fixture
def history(control_plane: ControlPlane, namespace: str) -> History:
    return History(control_plane, namespace)


@pytest.fixture(scope="module", autouse=True)
def scheduler(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("contract") / "scheduler.yaml"
    file.write_text(CONFIG)
    kubeconfig = control_plane.kubeconfig_for()
    with fairlead(control_plane, "--config", str(file), kubeconfig=kubeconfig) as running:
        yield running


def wait_for(pods: Pods, name: str, reason: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        condition = pods.condition(name)
        return condition if condition.get("reason") == reason else None

    return eventually(found, what=f"{name} is {reason}")


def pinned(node: str) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def a_node(create_nodes: Nodes, gpus: int, name: str, **labels: str) -> str:
    labels = {"kubernetes.io/hostname": name, **labels}
    return create_nodes([name], allocatable={GPU: str(gpus)}, labels=labels)[0]


def member(gang: str, count: int) -> dict[str, Any]:
    annotations = {"fairlead.dev/gang": gang, "fairlead.dev/gang-min": str(count)}
    return {"metadata": {"annotations": annotations}}


def test_a_pod_that_waits_for_spot_capacity_buys_nothing(
    pods: Pods, history: History, create_nodes: Nodes
) -> None:
    node = a_node(create_nodes, 1, "contract-d")
    said = {"metadata": {"annotations": {CAPACITY: "spot-preferred 1h"}}}
    pods.create("patient", 1, **said, nodeSelector={"contract": "x"})
    wait_for(pods, "patient", UNSCHEDULABLE)
    assert history.buyers() == ["patient"], "no node fits it"

    pods.create("waits", 1, **said, **pinned(node))
    message = wait_for(pods, "waits", "WaitingForBetterPlace")["message"]
    assert "spot capacity" in message
    assert history.reasons()["waits"] == ["WaitingForBetterPlace"]


def test_an_invalid_pod_buys_nothing(pods: Pods, history: History) -> None:
    pods.create("invalid", 1, metadata={"annotations": {CAPACITY: "spot-only"}})
    assert "write on-demand" in wait_for(pods, "invalid", "InvalidPod")["message"]
    assert history.buyers() == []


def test_a_gang_that_lacks_pods_buys_nothing_and_one_that_lacks_nodes_buys_whole(
    pods: Pods, history: History, create_nodes: Nodes
) -> None:
    node = a_node(create_nodes, 2, "contract-g")
    for n in range(4):
        if n == 3:
            wait_for(pods, "m2", "WaitingForGang")
            assert history.buyers() == []
        pods.create(f"m{n}", 1, **member("job", 4), **pinned(node))
    for n in range(4):
        wait_for(pods, f"m{n}", UNSCHEDULABLE)
    assert history.buyers() == ["m0", "m1", "m2", "m3"]
    assert history.reasons()["m3"] == [UNSCHEDULABLE]


def test_a_pod_that_preempts_is_nominated_with_its_condition_and_buys_nothing(
    control_plane: ControlPlane, pods: Pods, history: History, create_nodes: Nodes
) -> None:
    node = a_node(create_nodes, 1, "contract-p")
    served.priority_class(control_plane, "contract-high", 1000)
    pods.create("low", 1, **pinned(node))
    pods.wait_bound("low")
    pods.create("high", 1, priorityClassName="contract-high", **pinned(node))
    eventually(lambda: pods.get("high")["status"].get("nominatedNodeName") == node)
    pods.delete("low")  # as its kubelet does
    pods.wait_bound("high")
    assert history.buyers() == []


def test_a_pod_that_would_delay_a_planned_start_buys_nothing(
    pods: Pods, history: History, create_nodes: Nodes
) -> None:
    node = a_node(create_nodes, 2, "contract-b")
    half_an_hour = {"metadata": {"annotations": {"fairlead.dev/time-limit": "30m"}}}
    pods.create("runs", 1, **half_an_hour, **pinned(node))
    pods.wait_bound("runs")
    pods.create("large", 2, **half_an_hour, **pinned(node))
    wait_for(pods, "large", UNSCHEDULABLE)
    long = {"metadata": {"annotations": {"fairlead.dev/time-limit": "10h"}}}
    pods.create("long", 1, **long, **pinned(node))
    wait_for(pods, "long", "WaitingForPlannedStart")
    assert history.reasons()["long"] == ["WaitingForPlannedStart"]
    assert history.buyers() == ["large"]


def test_prices_in_labels_decide_on_a_real_server(pods: Pods, create_nodes: Nodes) -> None:
    pool = {"contract-pool": "price"}
    for name, price in (("contract-1", "9"), ("contract-2", "3"), ("contract-3", "6")):
        a_node(create_nodes, 4, name, **pool, **{"example.com/price": price})
    pods.create("cheap", 1, nodeSelector=pool)
    assert pods.wait_bound("cheap") == {"cheap": "contract-2"}


def test_nothing_lands_on_a_node_that_karpenter_is_about_to_remove(
    control_plane: ControlPlane, pods: Pods, create_nodes: Nodes
) -> None:
    # It has the taint from the beginning: of a later one the scheduler may hear after the pod.
    taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    (name,) = create_nodes(["contract-end"], allocatable={GPU: "4"}, taints=[taint])
    pods.create("tolerant", 1, tolerations=[{"operator": "Exists"}], **pinned(name))
    said = "node(s) were about to end"
    eventually(lambda: said in pods.condition("tolerant").get("message", ""))
    assert pods.condition("tolerant")["reason"] == UNSCHEDULABLE
    control_plane.api(
        "PATCH",
        f"/api/v1/nodes/{name}",
        {"spec": {"taints": []}},
        content_type="application/merge-patch+json",
    )
    assert pods.wait_bound("tolerant") == {"tolerant": name}
