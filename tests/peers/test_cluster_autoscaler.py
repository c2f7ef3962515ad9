"""Cluster Autoscaler on its KWOK provider buys nodes for what lacks them, once, and no others."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import definitions
import manifests
import provisioning_requests
from autoscaler_world import (
    GPU,
    KIND,
    MILLI,
    POOL,
    POOLS,
    Autoscaler,
    Purchases,
    agent_on,
    autoscaler,
    emptied,
    node_of,
    replicas,
)
from fairlead.sim.controlplane import ControlPlane, served
from fairleads import Pods, eventually, fairlead
from peer_controllers import Peers, post
from provisioning_requests import Requests

Json = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OURS = "/apis/fairlead.dev/v1alpha1"
CONFIG = "backfill: {mode: easy, resolution: 1s}\n"
REQUESTING = """
profiles: [{schedulerName: requesting, profile: gpu-scheduler}]
gangs: {nodeRequests: {retryAfter: 1s}}
"""
_pools = iter(POOLS)


@pytest.fixture(scope="module")
def control_plane(
    assets: Path, kwok_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """One whose controllers say which nodes are ready, with the kinds of Fairlead."""
    folder = tmp_path_factory.mktemp("autoscaler-plane")
    with ControlPlane.start(assets, folder, disable_admission=()) as plane:
        plane.start_controller_manager(("*",))
        plane.start_kwok(node_leases=True)
        for kind in manifests.documents(manifests.CRDS):
            post(plane, CRDS, kind)
        definitions.install(plane, provisioning_requests.KIND)
        for plural in ("queues", "countedresources", "reservations"):
            path = f"{OURS}/{plural}"
            served.until(lambda p=path: plane.api("GET", p)[0] == 200, f"{path} is served")
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
def scaler(peers: Peers, control_plane: ControlPlane) -> Iterator[Autoscaler]:
    with autoscaler(control_plane, peers) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def scheduler(
    control_plane: ControlPlane, scaler: Autoscaler, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    with scheduling(control_plane, CONFIG, tmp_path_factory.mktemp("scheduler")):
        yield


@contextmanager
def scheduling(plane: ControlPlane, config: str, folder: Path) -> Iterator[None]:
    (file := folder / "scheduler.yaml").write_text(config)
    with fairlead(plane, "--config", str(file), kubeconfig=plane.kubeconfig_for()):
        yield


@pytest.fixture
def pool() -> str:
    return next(_pools)


@pytest.fixture
def bought(control_plane: ControlPlane, pool: str) -> Iterator[Purchases]:
    with emptied(control_plane, Purchases(control_plane, pool)) as purchases:
        yield purchases


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str, bought: Purchases) -> Iterator[Pods]:
    found = Pods(control_plane, namespace)
    yield found
    for name in found.nodes():
        found.delete(name)


@pytest.fixture
def here(pool: str) -> Json:
    """Pods of a test are for nodes with GPUs of its pool alone."""
    return {"nodeSelector": {POOL: pool, KIND: "gpu"}}


def annotated(**annotations: str) -> Json:
    said = {f"fairlead.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return {"metadata": {"annotations": said}}


def wait_for(pods: Pods, name: str, reason: str) -> None:
    eventually(lambda: pods.condition(name).get("reason") == reason, what=f"{name} is {reason}")


# -- what lacks nodes ------------------------------------------------------------------------------


def test_each_pod_without_a_node_gets_one_and_idle_nodes_go(
    pods: Pods, bought: Purchases, here: Json, scaler: Autoscaler
) -> None:
    for n in range(3):
        pods.create(f"large-{n}", 8, **here)
    placed = pods.wait_bound("large-0", "large-1", "large-2")
    assert len(set(placed.values())) == 3
    scaler.wait_for_scans()
    assert bought.kinds() == ["gpu", "gpu", "gpu"]
    pods.delete("large-1")
    left = sorted({placed["large-0"], placed["large-2"]})
    eventually(lambda: bought.live() == left, what="the idle node is removed")


def test_small_pods_share_the_node_that_is_bought_for_them(
    pods: Pods, bought: Purchases, here: Json, scaler: Autoscaler
) -> None:
    names = [f"small-{n}" for n in range(8)]
    for name in names:
        pods.create(name, 1, **here)
    assert len(set(pods.wait_bound(*names).values())) == 1
    scaler.wait_for_scans()
    assert bought.kinds() == ["gpu"]


def test_a_gang_buys_its_nodes_whole_and_only_when_all_of_its_pods_are_there(
    pods: Pods, bought: Purchases, here: Json, scaler: Autoscaler
) -> None:
    member = annotated(gang="job", gang_min="3")
    for n in range(2):
        pods.create(f"m{n}", 8, **member, **here)
    wait_for(pods, "m1", "WaitingForGang")
    scaler.wait_for_scans()
    assert bought.kinds() == []
    pods.create("m2", 8, **member, **here)
    assert len(set(pods.wait_bound("m0", "m1", "m2").values())) == 3
    scaler.wait_for_scans()
    assert bought.kinds() == ["gpu", "gpu", "gpu"]


def test_a_gang_gets_its_nodes_by_one_request(
    control_plane: ControlPlane, pods: Pods, bought: Purchases, here: Json, scaler: Autoscaler,
    namespace: str, tmp_path: Path,
) -> None:  # fmt: skip
    requests, names = Requests(control_plane, namespace), ["m0", "m1", "m2"]
    with scheduling(control_plane, REQUESTING, tmp_path):
        for name in names:
            member = annotated(gang="job", gang_min="3")
            pods.create(name, 8, scheduler="requesting", **member, **here)
        assert len(set(pods.wait_bound(*names).values())) == 3
        eventually(lambda: not requests.all(), what="the request is deleted")
        scaler.wait_for_scans()
        assert bought.kinds() == ["gpu", "gpu", "gpu"]


# -- what waits on purpose -------------------------------------------------------------------------


def at(minutes: float) -> str:
    return (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def ours(plane: ControlPlane, plural: str, kind: str, name: str, **spec: Any) -> None:
    body = {"apiVersion": "fairlead.dev/v1alpha1", "kind": kind, "metadata": {"name": name}}
    post(plane, f"{OURS}/{plural}", {**body, "spec": spec})


def patient(_: ControlPlane, pool: str) -> Json:
    return annotated(capacity_type="spot-preferred 1h")


def too_early(_: ControlPlane, pool: str) -> Json:
    return annotated(not_before=at(60))


def out_of_quota(plane: ControlPlane, pool: str) -> Json:
    ours(plane, "queues", "Queue", pool, limit={GPU: "0"})
    return {"metadata": {"labels": {"fairlead.dev/queue": pool}}}


def without_licence(plane: ControlPlane, pool: str) -> Json:
    ours(plane, "countedresources", "CountedResource", pool, total=0)
    return annotated(counted_resources=f"{pool}=1")


def before_a_reservation(plane: ControlPlane, pool: str) -> Json:
    selector = {POOL: pool}
    ours(
        plane, "reservations", "Reservation", pool,
        start=at(30), duration="1h", nodeSelector=selector, namespaces=["elsewhere"],
    )  # fmt: skip
    eventually(
        lambda: plane.api("GET", f"{OURS}/reservations/{pool}")[1].get("status", {}).get("nodes"),
        what="the reservation has its node",
    )
    return {}


def gated(_: ControlPlane, pool: str) -> Json:
    return {"schedulingGates": [{"name": "example.com/later"}]}


def invalid(_: ControlPlane, pool: str) -> Json:
    return annotated(capacity_type="spot-only")


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [
        (patient, "WaitingForBetterPlace"),
        (too_early, "WaitingForWindow"),
        (out_of_quota, "QueueLimit"),
        (without_licence, "WaitingForCountedResource"),
        (before_a_reservation, "WaitingForReservation"),
        (gated, "SchedulingGated"),
        (invalid, "InvalidPod"),
    ],
)
def test_nothing_is_bought_for_what_waits_on_purpose(
    control_plane: ControlPlane, pods: Pods, bought: Purchases, here: Json, scaler: Autoscaler,
    pool: str, waiting: Callable[[ControlPlane, str], Json], reason: str,
) -> None:  # fmt: skip
    pods.create("runs", 6, activeDeadlineSeconds=600, **here)
    pods.wait_bound("runs")
    pods.create("waits", 1, **waiting(control_plane, pool), **here)
    wait_for(pods, "waits", reason)
    scaler.wait_for_scans()
    assert bought.kinds() == ["gpu"]
    assert pods.condition("waits")["reason"] == reason


# -- parts of GPUs on nodes that an agent serves ---------------------------------------------------


def share(milli: int, pool: str) -> Json:
    """As admission leaves a pod with `fairlead.dev/gpu-share`."""
    amounts = {MILLI: str(milli)}
    container = {"name": "main", "image": "x", "resources": {"limits": amounts}}
    return {
        **annotated(gpu_share=str(milli / 1000)),
        "schedulerName": "gpu-scheduler", "nodeSelector": {POOL: pool}, "containers": [container],
    }  # fmt: skip


@pytest.fixture
def running(control_plane: ControlPlane, namespace: str) -> Iterator[Callable[..., None]]:
    """Starts ReplicaSets with one pod each."""
    with ExitStack() as stack:

        def start(name: str, pod: Json) -> None:
            stack.enter_context(replicas(control_plane, namespace, name, pod))

        yield start


@pytest.fixture
def agents(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    with ExitStack() as stack:
        yield lambda node: stack.enter_context(agent_on(control_plane, node, tmp_path))


def test_shares_get_nodes_and_keep_them_while_no_other_has_room(
    control_plane: ControlPlane, bought: Purchases, scaler: Autoscaler, namespace: str, pool: str,
    pods: Pods, running: Callable[..., None], agents: Callable[[str], None],
) -> None:  # fmt: skip
    def where(name: str) -> str:
        return node_of(control_plane, namespace, name)

    running("a", share(900, pool))
    running("b", share(800, pool))
    eventually(lambda: len(bought.live()) == 1, what="a node is bought for both")
    agents(first := bought.live()[0])
    eventually(lambda: where("a") == where("b") == first, what="both shares run there")
    scaler.wait_for_scans()
    assert bought.kinds() == ["agent"], "the taint of a new node does not buy another one"

    running("c", share(600, pool))
    eventually(lambda: len(bought.live()) == 2, what="a node for a share without room")
    agents(second := next(name for name in bought.live() if name != first))
    eventually(lambda: where("c") == second, what="it runs there")
    scaler.wait_for_scans()
    scaler.wait_for_scans()
    assert bought.live() == sorted([first, second]), "neither has room for the other's shares"
    assert bought.kinds() == ["agent", "agent"]

    control_plane.api("DELETE", f"/apis/apps/v1/namespaces/{namespace}/replicasets/b")
    eventually(lambda: where("a") == where("c") != "", what="the other two are on one node")
    eventually(lambda: len(bought.live()) == 1, what="the node without shares is removed")
    assert bought.kinds() == ["agent", "agent"]
