"""deploy/static-pod.yaml as it is, put where a kubelet looks for it."""

import shutil
from pathlib import Path

from clusters import RealCluster
from fairleads import eventually
from manifests import STATIC_POD
from workloads import Workloads, container

MANIFESTS = Path("/etc/kubernetes/manifests")
LOGIN = Path("/etc/kubernetes/scheduler.conf")


def test_a_static_pod_schedules(
    cluster: RealCluster, not_installed: None, work: Workloads, two_gpus: list[str]
) -> None:
    shutil.copy(cluster.plane.kubeconfig_for("system:kube-scheduler"), LOGIN)
    shutil.copy(STATIC_POD, MANIFESTS)
    system = Workloads(cluster.plane, "kube-system")
    eventually(lambda: system.ready("fairlead-node-1"), what="the mirror pod is ready")

    # There is no admission, so the author refers to the annotation.
    source = {"fieldRef": {"fieldPath": "metadata.annotations['fairlead.dev/gpus']"}}
    variable = {"name": "CUDA_VISIBLE_DEVICES", "valueFrom": source}
    containers = [container(env=[variable])]
    work.run("plain", {"fairlead.dev/gpu-share": "0.5"}, containers=containers)
    work.wait_running("plain")

    assert work.gpus("plain") == ("GPU-a0", None)
    (MANIFESTS / STATIC_POD.name).unlink()
    eventually(lambda: not system.get("fairlead-node-1"), what="the mirror pod is gone")
