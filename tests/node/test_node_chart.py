"""The chart by helm: installed with the agent, which reads simulated GPUs, upgraded and removed."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from charts import Helm, Release
from clusters import NODE, RealCluster
from fairlead.sim.nvml import FileStore, machine_of
from fairleads import FAIRLEAD, eventually
from manifests import NAMESPACE, kubectl
from test_restarts import restart_kubelet
from vendors import nvidia
from webhooks import injects
from workloads import EVERY_KIND, Workloads, container

#: On the node, and in the agent's container.
STATE, MOUNTED = Path("/var/lib/fairlead-agent"), "/var/lib/fairlead"
VALUES = {
    "agent": {"enabled": True, "interval": "1s", "mig": {"enabled": True},
              "podResources": {"enabled": True}},
    "env": {"PYTHONPATH": MOUNTED, "FAIRLEAD_NVML_FILE": f"{MOUNTED}/machine.json"},
}  # fmt: skip
#: The name of the library is not a value of the chart: GPUs are simulated in tests alone.
SIMULATED = """
import sys
if "fairlead.telemetry.nvml.worker" in sys.orig_argv:
    sys.argv[1] = "fairlead.sim.nvml.shared:library"
"""


@pytest.fixture(scope="module")
def release(
    cluster: RealCluster, not_installed: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    STATE.mkdir()
    FileStore(STATE / "machine.json", machine_of(3))
    (STATE / "sitecustomize.py").write_text(SIMULATED)
    for command in (
        f"label node {NODE} nvidia.com/gpu.present=true",
        f"create namespace {NAMESPACE}",
        f"label namespace {NAMESPACE} pod-security.kubernetes.io/enforce=privileged",
    ):
        kubectl(cluster.plane, command)
    cluster.plane.api("POST", "/apis/node.k8s.io/v1/runtimeclasses", RUNTIME_CLASS)
    installed = Release(
        Helm(Path(cluster.plane.program("helm")), tmp_path_factory.mktemp("helm")), cluster.plane
    )
    installed.install(VALUES)
    eventually(lambda: everything_available(cluster), what="the release is available")
    eventually(lambda: injects(cluster.plane, "default"), what="the webhook is asked")
    agent = Workloads(cluster.plane, NAMESPACE)
    try:
        eventually(lambda: '"cut":"free"' in cluster.annotation("fairlead.dev/inventory"), 120)
    except AssertionError:
        raise AssertionError(agent.kubectl("logs", "daemonset/fairlead-agent")) from None
    yield installed
    installed.uninstall()
    kubectl(cluster.plane, f"label node {NODE} nvidia.com/gpu.present-")
    cluster.remove_namespace(NAMESPACE)
    kubectl(cluster.plane, f"annotate node {NODE} fairlead.dev/inventory-")


RUNTIME_CLASS = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}


def everything_available(cluster: RealCluster) -> bool:
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/fairlead-agent"
    agents = cluster.plane.api("GET", path)[1].get("status", {})
    return agents.get("numberReady") == 1 and all(
        cluster.available(name) for name in ("fairlead", "fairlead-webhook")
    )


def test_a_slice_that_the_agent_creates_is_seen_by_its_name(
    release: Release, cluster: RealCluster, work: Workloads
) -> None:
    work.run("slice", {"fairlead.dev/gpu-slice": "1g.18gb"}, **EVERY_KIND)
    work.wait_running("slice")

    ((cuda, runtime),) = work.gpus_everywhere("slice")
    assert cuda == runtime == work.get("slice")["metadata"]["annotations"]["fairlead.dev/gpus"]
    assert cuda is not None
    assert cuda.startswith("MIG-GPU-")


def test_an_upgrade_by_helm_replaces_every_pod(
    release: Release, cluster: RealCluster, work: Workloads
) -> None:
    programs = Workloads(cluster.plane, NAMESPACE)
    before = set(programs.nodes())
    release.upgrade({**VALUES, "logLevel": "debug"})

    eventually(lambda: everything_available(cluster) and not before & set(programs.nodes()))
    work.run("after", {"fairlead.dev/gpu-slice": "1g.18gb"})
    work.wait_running("after")


def test_slices_stay_and_are_created_when_the_agent_is_killed(
    release: Release, cluster: RealCluster, work: Workloads
) -> None:
    work.run("before", {"fairlead.dev/gpu-slice": "1g.18gb"})
    work.wait_running("before")
    kill_agent(cluster)
    work.run("meanwhile", {"fairlead.dev/gpu-slice": "1g.18gb"})
    work.wait_running("meanwhile")

    assert len({work.gpus(name) for name in ("before", "meanwhile")}) == 2
    eventually(lambda: len(created_slices()) == 2, what="both slices are there")
    work.delete_all()
    eventually(lambda: created_slices() == [], what="both slices are gone")


def created_slices() -> list[int]:
    with FileStore(STATE / "machine.json").open() as driver:
        return [one.id for gpu in driver.gpus for one in gpu.instances]


def test_the_agent_lists_the_gpus_that_a_device_plugin_picked(
    release: Release, cluster: RealCluster, work: Workloads
) -> None:
    """The last test here: for minutes the kubelet shows GPUs of a plugin that has gone."""
    with FileStore(STATE / "machine.json").open() as driver:
        uuids = [gpu.uuid for gpu in driver.gpus]
    whole = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    with cluster.serving(nvidia(*uuids)) as plugin:
        kill_agent(cluster)  # the next one sees the plugin at once
        for name in ("one", "two"):
            work.run(name, containers=[container(**whole)])
        work.wait_running("one", "two")

        named = seen_by_uid(work, "one", "two")
        eventually(lambda: listed(cluster).get("picked") == named, what="both are named")
        explained = fairlead_explain(cluster, work, "one")
        assert f"{work.gpus('one')[1]}, which the device plugin of the node chose" in explained

        restart_kubelet(cluster, lambda: None)
        eventually(lambda: plugin.watched == 2, what="the new kubelet has its devices")
        work.run("three", containers=[container(**whole)])
        work.wait_running("three")
        named = seen_by_uid(work, "one", "two", "three")
        eventually(lambda: listed(cluster).get("picked") == named, what="the new kubelet is asked")
        work.delete_all()
        eventually(lambda: listed(cluster).get("picked") == {}, what="none is named")


def seen_by_uid(work: Workloads, *names: str) -> dict[str, list[str | None]]:
    return {work.get(name)["metadata"]["uid"]: [work.gpus(name)[1]] for name in names}


def listed(cluster: RealCluster) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.annotation("fairlead.dev/inventory"))
    return found


def fairlead_explain(cluster: RealCluster, work: Workloads, pod: str) -> str:
    access = ["--kubeconfig", str(cluster.plane.kubeconfig_for())]
    command = [str(FAIRLEAD), "explain", pod, "-n", work.namespace, *access]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def kill_agent(cluster: RealCluster) -> None:
    agents = "app.kubernetes.io/component=agent"
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={agents}&gracePeriodSeconds=0"
    assert cluster.plane.api("DELETE", path)[0] == 200
