"""The plain manifests as they are: what their programs are allowed, and an upgrade under load."""

import json
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from clusters import RealCluster
from fairleads import eventually
from manifests import NAMESPACE, kubectl
from workloads import Workloads, inventory

pytestmark = pytest.mark.usefixtures("installed")

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/fairlead"
LOOK = "cat /proc/1/status; touch /x 2>&1; touch /opt/fairlead/x 2>&1; id"


@pytest.fixture
def programs(cluster: RealCluster) -> Workloads:
    """The pods of Fairlead itself."""
    return Workloads(cluster.plane, NAMESPACE)


@pytest.fixture
def many_gpus(cluster: RealCluster) -> Iterator[list[str]]:
    uuids = [f"GPU-{n:02d}" for n in range(32)]
    cluster.annotate_node(inventory(*uuids))
    yield uuids
    cluster.annotate_node(dict.fromkeys(inventory()))


def test_each_program_runs_without_rights_on_its_node(programs: Workloads) -> None:
    for name in programs.nodes():
        seen = programs.exec(name, "sh", "-c", LOOK)
        status = dict(re.findall(r"^(\w+):\s+(.*)$", seen, re.MULTILINE))
        assert status["Uid"].split() == ["1000"] * 4
        assert {int(status[key], 16) for key in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert seen.count("Read-only file system") == 2
        assert "uid=1000 gid=1000" in seen


def test_two_schedulers_and_two_webhooks_are_ready_and_one_leads(
    cluster: RealCluster, programs: Workloads
) -> None:
    pods = [programs.get(name) for name in programs.nodes()]
    kinds = Counter(pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods)
    assert kinds == {"scheduler": 2, "webhook": 2}
    assert all(programs.ready(name) for name in programs.nodes())
    assert {one["restartCount"] for pod in pods for one in pod["status"]["containerStatuses"]} == {
        0
    }

    status, lease = cluster.plane.api("GET", LEASE)
    assert status == 200
    holder = lease["spec"]["holderIdentity"]
    assert [name for name in programs.nodes() if name in holder]


def test_the_leader_is_replaced_when_its_container_is_killed(
    cluster: RealCluster, programs: Workloads, work: Workloads, two_gpus: list[str]
) -> None:
    def holder() -> str:
        return str(cluster.plane.api("GET", LEASE)[1]["spec"].get("holderIdentity", ""))

    before = holder()
    (leader,) = [name for name in programs.nodes() if name in before]
    programs.exec(leader, "python", "-c", "import os, signal; os.kill(1, signal.SIGTERM)")
    work.run("after", {"fairlead.dev/gpu-share": "0.5"})

    work.wait_running("after")
    assert work.gpus("after") == ("GPU-a0", "GPU-a0")
    eventually(lambda: cluster.available("fairlead"), what="both schedulers are back")


def test_an_upgrade_under_load_refuses_no_pod_and_assigns_no_gpu_twice(
    cluster: RealCluster, work: Workloads, many_gpus: list[str]
) -> None:
    restarted = ("fairlead", "fairlead-webhook")
    for name in restarted:
        kubectl(cluster.plane, f"-n {NAMESPACE} rollout restart deployment/{name}")
    names = []
    while len(names) < 8 or not all(map(cluster.available, restarted)):
        names.append(f"load-{len(names)}")
        work.run(names[-1], {"fairlead.dev/gpu-share": "0.5"})
        assert len(names) <= 2 * len(many_gpus), "the upgrade takes too long for this load"
        work.wait_running(names[-1])

    seen = Counter(work.gpus(name) for name in names)
    assert all(cuda == runtime and cuda in many_gpus for cuda, runtime in seen)
    assert max(seen.values()) <= 2
    assert {len(shares(work, name)) for name in names} == {1}


def shares(work: Workloads, name: str) -> list[dict[str, object]]:
    said = work.get(name)["metadata"]["annotations"]["fairlead.dev/assignment"]
    devices: list[dict[str, object]] = json.loads(said)["devices"]
    return devices
