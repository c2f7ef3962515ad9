"""Work that Kueue admits: Fairlead waits for its gates, and keeps to the nodes that it chose."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.sim.controlplane import ChildProcess, ControlPlane
from fairleads import Pods, Running, eventually, fairlead
from peer_controllers import Peers, post

Json = dict[str, Any]
RACK, HOST = "example.com/rack", "kubernetes.io/hostname"
QUEUE = "kueue.x-k8s.io/queue-name"
_ROOT = "/apis/kueue.x-k8s.io/v1beta2"
_CONFIG = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "integrations": {"frameworks": ["batch/job", "pod"]},
    "featureGates": {"VisibilityOnDemand": False},
}
#: Its other webhooks are for kinds that this configuration does not know.
_HOOKED = frozenset(
    ["clusterqueues", "cohorts", "jobs", "pods", "resourceflavors", "workloads"]
)  # fmt: skip


@pytest.fixture(scope="module")
def controller(peers: Peers, control_plane: ControlPlane) -> Iterator[ChildProcess]:
    running = peers.start_with_webhooks("kueue", _CONFIG, QUEUE, _HOOKED)
    for kind, name, spec in (
        ("topologies", "racks", {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]}),
        ("resourceflavors", "gpus", {
            "nodeLabels": {"kubernetes.io/os": "linux"}, "topologyName": "racks"}),
        ("clusterqueues", "all", cluster_queue(32)),
    ):  # fmt: skip
        eventually(lambda k=kind, n=name, s=spec: _created(control_plane, k, n, s), what=name)
    yield running
    running.stop()
    for kind in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/kueue"
        control_plane.api("DELETE", path)


def _created(plane: ControlPlane, plural: str, name: str, spec: Json) -> bool:
    """Its webhooks may need a moment."""
    kinds = {"topologies": "Topology", "resourceflavors": "ResourceFlavor"}
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kinds.get(plural, "ClusterQueue"),
        "metadata": {"name": name},
        "spec": spec,
    }
    return plane.api("POST", f"{_ROOT}/{plural}", body)[0] in (201, 409)


def cluster_queue(gpus: int) -> Json:
    resources = [
        {"name": name, "nominalQuota": amount}
        for name, amount in (("nvidia.com/gpu", gpus), ("cpu", 1000))
    ]
    flavor = {"name": "gpus", "resources": resources}
    covered = [each["name"] for each in resources]
    return {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": covered, "flavors": [flavor]}],
    }


@pytest.fixture(autouse=True)
def scheduler(
    control_plane: ControlPlane, controller: ChildProcess, namespace: str
) -> Iterator[Running]:
    post(control_plane, f"{_ROOT}/namespaces/{namespace}/localqueues", {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
        "metadata": {"name": "team"}, "spec": {"clusterQueue": "all"},
    })  # fmt: skip
    with fairlead(control_plane, kubeconfig=control_plane.kubeconfig_for()) as running:
        yield running


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Pods:
    return Pods(control_plane, namespace)


def a_job(name: str, count: int, **annotations: str) -> Json:
    """Suspended, as users of Kueue create them."""
    amounts = {"nvidia.com/gpu": "8", "cpu": "1"}
    resources = {"requests": amounts, "limits": {"nvidia.com/gpu": "8"}}
    container = {"name": "c", "image": "x", "resources": resources}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {
            "schedulerName": "gpu-scheduler", "restartPolicy": "Never", "containers": [container],
        },
    }  # fmt: skip
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {QUEUE: "team"}},
        "spec": {
            "suspend": True, "parallelism": count, "completions": count,
            "completionMode": "Indexed", "template": template,
        },
    }  # fmt: skip


def create_job(plane: ControlPlane, pods: Pods, body: Json) -> None:
    post(plane, f"/apis/batch/v1/namespaces/{pods.namespace}/jobs", body)


def test_a_job_of_kueue_is_bound_where_kueue_decided(
    control_plane: ControlPlane, pods: Pods
) -> None:
    body = a_job("train", 2, **{"kueue.x-k8s.io/podset-required-topology": RACK})
    create_job(control_plane, pods, body)
    eventually(lambda: len(n := pods.nodes()) == 2 and all(n.values()), what="two pods bound")
    assert len({node.split("-")[1] for node in pods.nodes().values()}) == 1, "one rack"
    for name, node in pods.nodes().items():
        assert pods.get(name)["spec"]["nodeSelector"][HOST] == node, "as Kueue decided"


def test_a_job_without_quota_has_no_pods(control_plane: ControlPlane, pods: Pods) -> None:
    create_job(control_plane, pods, a_job("large", 5))
    workloads = f"{_ROOT}/namespaces/{pods.namespace}/workloads"

    def waits() -> bool:
        _, found = control_plane.api("GET", workloads)
        conditions = [c for w in found["items"] for c in w.get("status", {}).get("conditions", ())]
        return any(c["type"] == "QuotaReserved" and c["status"] == "False" for c in conditions)

    eventually(waits, what="Kueue says that there is no quota")
    assert pods.nodes() == {}


def test_a_group_of_plain_pods_is_bound_when_its_gates_are_lifted(
    control_plane: ControlPlane, pods: Pods
) -> None:
    meta = {
        "labels": {QUEUE: "team", "kueue.x-k8s.io/pod-group-name": "group"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"},
    }
    for number in range(2):
        pods.create(f"member-{number}", gpus=8, metadata=meta)
    gates = pods.get("member-0")["spec"]["schedulingGates"]
    assert "kueue.x-k8s.io/admission" in [gate["name"] for gate in gates]
    assert not any(pods.nodes().values())
    pods.create("member-2", gpus=8, metadata=meta)
    pods.wait_bound("member-0", "member-1", "member-2")
