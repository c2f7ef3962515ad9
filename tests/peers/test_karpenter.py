"""Karpenter on its KWOK provider buys nodes for what lacks nodes, once, and for nothing else."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import queue_crds
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, Running, eventually, fairlead
from karpenter_world import GPU, POOL, TYPE, Purchases, consolidate, pool, write_types
from peer_controllers import Peers

Json = dict[str, Any]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def control_plane(
    assets: Path, kwok_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """One whose controllers say which nodes are ready, as those that are bought become it."""
    folder = tmp_path_factory.mktemp("karpenter-plane")
    with ControlPlane.start(assets, folder, disable_admission=()) as plane:
        plane.start_controller_manager(("*",))
        plane.start_kwok(node_leases=True)
        yield plane


@pytest.fixture(scope="module")
def peers(control_plane: ControlPlane) -> Iterator[Peers]:
    with Peers(control_plane) as started:
        yield started


@pytest.fixture(autouse=True)
def nodes() -> list[str]:
    """None but those that are bought."""
    return []


@pytest.fixture(scope="module", autouse=True)
def karpenter(
    peers: Peers, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    types = write_types(tmp_path_factory.mktemp("karpenter") / "types.json")
    flags = [f"--instance-types-file-path={types}", "--feature-gates=NodeOverlay=false"]
    with peers.running("karpenter-kwok", lambda _: flags, kubeconfig_variable=True):
        yield


@pytest.fixture(scope="module", autouse=True)
def scheduler(control_plane: ControlPlane) -> Iterator[Running]:
    with fairlead(control_plane, kubeconfig=control_plane.kubeconfig_for()) as running:
        yield running


@pytest.fixture
def pool_name() -> str:
    return f"pool-{next(_numbers)}"


@pytest.fixture
def bought(control_plane: ControlPlane, pool_name: str, karpenter: None) -> Iterator[Purchases]:
    with pool(control_plane, pool_name) as purchases:
        yield purchases


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str, bought: Purchases) -> Pods:
    return Pods(control_plane, namespace)


@pytest.fixture
def here(pool_name: str) -> Json:
    """Pods of a test are for nodes of its pool alone."""
    return {"nodeSelector": {POOL: pool_name}}


def annotated(**annotations: str) -> Json:
    return {
        "metadata": {
            "annotations": {
                f"fairlead.dev/{k.replace('_', '-')}": v for k, v in annotations.items()
            }
        }
    }


def wait_for(pods: Pods, name: str, reason: str) -> None:
    eventually(lambda: pods.condition(name).get("reason") == reason, what=f"{name} is {reason}")


def wait_for_next_purchase(pods: Pods, here: Json) -> None:
    """Karpenter has looked at all pods again when a pod that comes now has its own node."""
    name = f"late-{next(_numbers)}"
    alone = {"nodeSelector": {**here["nodeSelector"], TYPE: "cpu-8"}}
    pods.create(name, requests={"cpu": "7"}, **alone)
    pods.wait_bound(name)


def test_each_pod_without_a_node_gets_one_and_no_more_are_bought(
    pods: Pods, bought: Purchases, here: Json
) -> None:
    for n in range(3):
        pods.create(f"large-{n}", 8, **here)
    placed = pods.wait_bound("large-0", "large-1", "large-2")
    assert len(set(placed.values())) == 3
    wait_for_next_purchase(pods, here)
    assert bought.types() == ["gpu-8", "gpu-8", "gpu-8"]


def test_small_pods_share_the_node_that_is_bought_for_them(
    pods: Pods, bought: Purchases, here: Json
) -> None:
    names = [f"small-{n}" for n in range(8)]
    for name in names:
        pods.create(name, 1, **here)
    placed = pods.wait_bound(*names)
    wait_for_next_purchase(pods, here)
    assert bought.types() == ["gpu-8"]
    assert len(set(placed.values())) == 1


def test_a_gang_buys_its_nodes_whole_and_only_when_all_of_its_pods_are_there(
    pods: Pods, bought: Purchases, here: Json
) -> None:
    member = annotated(gang="job", gang_min="4")
    for n in range(3):
        pods.create(f"m{n}", 8, **member, **here)
    wait_for(pods, "m2", "WaitingForGang")
    wait_for_next_purchase(pods, here)
    assert bought.types() == []
    pods.create("m3", 8, **member, **here)
    placed = pods.wait_bound("m0", "m1", "m2", "m3")
    assert len(set(placed.values())) == 4
    wait_for_next_purchase(pods, here)
    assert bought.types() == ["gpu-8", "gpu-8", "gpu-8", "gpu-8"]


def test_nothing_is_bought_for_an_invalid_or_gated_pod(
    pods: Pods, bought: Purchases, here: Json
) -> None:
    pods.create("invalid", 8, **annotated(capacity_type="spot-only"), **here)
    pods.create("gated", 8, schedulingGates=[{"name": "example.com/later"}], **here)
    wait_for(pods, "invalid", "InvalidPod")
    wait_for(pods, "gated", "SchedulingGated")
    wait_for_next_purchase(pods, here)
    assert bought.types() == []


def test_nothing_is_bought_for_a_pod_that_waits_for_spot_capacity(
    pods: Pods, bought: Purchases, here: Json
) -> None:
    pods.create("runs", 6, **here)
    pods.wait_bound("runs")
    on_gpus = {"nodeSelector": {**here["nodeSelector"], TYPE: "gpu-8"}}
    pods.create("waits", 1, **annotated(capacity_type="spot-preferred 1h"), **on_gpus)
    wait_for(pods, "waits", "WaitingForBetterPlace")
    wait_for_next_purchase(pods, here)
    assert bought.types() == ["gpu-8"]


def test_nothing_is_bought_for_a_pod_that_its_queue_holds_back(
    control_plane: ControlPlane, pods: Pods, bought: Purchases, here: Json, pool_name: str
) -> None:
    with queue_crds.installed(control_plane):
        status, said = queue_crds.create(control_plane, pool_name, limit={GPU: "8"})
        assert status == 201, said
        queued = {"metadata": {"labels": {"fairlead.dev/queue": pool_name}}}
        pods.create("first", 8, **queued, **here)
        pods.wait_bound("first")
        pods.create("second", 8, **queued, **here)
        wait_for(pods, "second", "QueueLimit")
        wait_for_next_purchase(pods, here)
        assert bought.types() == ["gpu-8"]


def test_a_node_that_karpenter_removes_gets_nothing_new(
    control_plane: ControlPlane, pods: Pods, bought: Purchases, here: Json
) -> None:
    kept = {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}
    anywhere = {"tolerations": [{"operator": "Exists"}], **here}
    pods.create("kept", 5, **kept, **here)
    first = pods.wait_bound("kept")["kept"]
    claim = eventually(lambda: bought.live().get(first), what="the claim of its node")
    control_plane.api("DELETE", f"/apis/karpenter.sh/v1/nodeclaims/{claim['metadata']['name']}")
    eventually(lambda: _is_disrupted(control_plane, first), what="the node is tainted")
    pods.create("tolerant", 1, **anywhere)
    assert pods.wait_bound("tolerant")["tolerant"] != first


def _is_disrupted(plane: ControlPlane, node: str) -> bool:
    taints = plane.api("GET", f"/api/v1/nodes/{node}")[1]["spec"].get("taints", [])
    return any(each["key"] == "karpenter.sh/disrupted" for each in taints)


def test_pods_go_to_nodes_in_use_so_that_karpenter_removes_the_others(
    control_plane: ControlPlane, pods: Pods, bought: Purchases, here: Json, pool_name: str
) -> None:
    pods.create("a", 5, **here)
    pods.create("b", 5, **here)
    placed = pods.wait_bound("a", "b")
    assert placed["a"] != placed["b"]
    pods.delete("b")
    eventually(lambda: not pods.get("b"), what="b is gone")
    for n in range(3):
        pods.create(f"small-{n}", 1, **here)
    small = pods.wait_bound("small-0", "small-1", "small-2")
    assert set(small.values()) == {placed["a"]}
    consolidate(control_plane, pool_name)
    eventually(lambda: set(bought.live()) == {placed["a"]}, what="the empty node is removed")
    assert pods.nodes() == {"a": placed["a"], **small}
