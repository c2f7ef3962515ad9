"""Jobs of Volcano with its own controllers, and Fairlead in the place of its scheduler."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.sim.controlplane import ChildProcess, ControlPlane
from fairleads import Pods, Running, eventually, fairlead
from peer_controllers import EXAMPLES, Peers, create, free_port, items, post

Json = dict[str, Any]
_QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


@pytest.fixture(autouse=True)
def controllers(peers: Peers) -> ChildProcess:
    peers.define("vc-controller-manager")
    return peers.start(
        "vc-controller-manager",
        lambda kubeconfig: [
            f"--kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--scheduler-name=volcano",
            "--controllers=job-controller,queue-controller,pg-controller,gc-controller",
            f"--listen-address=127.0.0.1:{free_port()}",
        ],
    )


@pytest.fixture(autouse=True)
def scheduler(control_plane: ControlPlane, controllers: ChildProcess) -> Iterator[Running]:
    """Fairlead under the name that Volcano's users write."""
    admin = control_plane.kubeconfig_for()
    config = EXAMPLES / "volcano" / "fairlead.yaml"
    with fairlead(control_plane, "--config", str(config), kubeconfig=admin) as running:
        yield running


class Jobs:
    """Jobs of Volcano in one namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.root = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"
        self.groups = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"

    def create(self, name: str, tasks: dict[str, int], gpus: int, **spec: Any) -> None:
        body = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "schedulerName": "volcano",
                "queue": "default",
                "minAvailable": sum(tasks.values()),
                "tasks": [_task(task, count, gpus) for task, count in tasks.items()],
                **spec,
            },
        }
        post(self.plane, self.root, body)

    def phase(self, name: str) -> str:
        _, job = self.plane.api("GET", f"{self.root}/{name}")
        return str(job.get("status", {}).get("state", {}).get("phase", ""))

    def group(self, name: str) -> Json:
        """The PodGroup of the Job, once it is there."""
        found = items(self.plane, self.groups)
        return next((each for key, each in found.items() if key.startswith(f"{name}-")), {})

    def group_phase(self, name: str) -> str:
        return str(self.group(name).get("status", {}).get("phase", ""))


def _task(name: str, count: int, gpus: int) -> Json:
    amounts = {"nvidia.com/gpu": str(gpus)}  # Volcano computes what is needed from requests alone
    resources = {"requests": amounts, "limits": amounts}
    container = {"name": "c", "image": "x", "resources": resources}
    return {
        "name": name,
        "replicas": count,
        "minAvailable": count,
        "template": {
            "metadata": {"annotations": {"fairlead.dev/run-for": "1s"}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        },
    }


@pytest.fixture
def jobs(control_plane: ControlPlane, namespace: str) -> Jobs:
    return Jobs(control_plane, namespace)


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Pods:
    return Pods(control_plane, namespace)


def test_the_queues_that_controllers_rely_on_are_there_and_open(
    control_plane: ControlPlane,
) -> None:
    def are_open() -> bool:
        queues = items(control_plane, _QUEUES)
        states = {n: q.get("status", {}).get("state") for n, q in queues.items()}
        return states.get("root") == states.get("default") == "Open"

    eventually(are_open)


def test_a_job_gets_its_pods_after_it_is_admitted_runs_whole_and_completes(
    jobs: Jobs, pods: Pods
) -> None:
    jobs.create("train", {"master": 1, "worker": 3}, gpus=8)
    eventually(lambda: jobs.phase("train") == "Completed", what="the Job completed")
    assert all(pods.nodes().values())
    assert len(set(pods.nodes().values())) == 4
    eventually(lambda: not jobs.group("train"), what="the PodGroup removed by its controller")


def test_a_job_without_room_gets_no_pods_and_says_why(jobs: Jobs, pods: Pods) -> None:
    jobs.create("big", {"worker": 5}, gpus=8)
    eventually(lambda: jobs.group_phase("big") == "Pending")
    condition = eventually(lambda: jobs.group("big")["status"].get("conditions"))[0]
    assert condition["type"] == "Unschedulable"
    assert "nvidia.com/gpu" in condition["message"]
    assert pods.nodes() == {}


def test_a_job_waits_for_another_and_runs_then(jobs: Jobs, pods: Pods) -> None:
    jobs.create("first", {"worker": 4}, gpus=8)
    eventually(lambda: jobs.group_phase("first") in ("Running", "Completed"))
    jobs.create("second", {"worker": 3}, gpus=8)
    eventually(lambda: jobs.phase("second") == "Completed")
    assert jobs.phase("first") == "Completed"


def test_a_job_that_fits_no_nodes_binds_no_pod(jobs: Jobs, pods: Pods) -> None:
    """The sum of what it needs is there, but no node has sixteen GPUs."""
    jobs.create("wide", {"worker": 2}, gpus=16)
    eventually(lambda: len(pods.nodes()) == 2)
    for name in pods.nodes():
        assert "Insufficient nvidia.com/gpu" in pods.wait_refused(name)["message"]
    assert not any(pods.nodes().values())
    group = eventually(lambda: jobs.group("wide")["status"].get("conditions"))[0]
    assert group["type"] == "Unschedulable"


def test_the_example_of_the_migration_runs(
    control_plane: ControlPlane, namespace: str, pods: Pods
) -> None:
    create(control_plane, namespace, EXAMPLES / "volcano" / "before.yaml")
    names = ("train-master-0", "train-worker-0", "train-worker-1")
    assert pods.wait_bound(*names).keys() == set(names)
