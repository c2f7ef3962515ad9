"""deploy/static-pod.yaml, put where a kubelet looks for it: as it is, and with impatient probes."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from clusters import RealCluster
from fairleads import eventually
from manifests import STATIC_POD
from workloads import Workloads, container, frozen
from yaml_texts import yaml_of

MANIFESTS = Path("/etc/kubernetes/manifests")
LOGIN = Path("/etc/kubernetes/scheduler.conf")
MIRROR = "fairlead-node-1"


@contextmanager
def static_pod(cluster: RealCluster, manifest: str) -> Iterator[Workloads]:
    """It runs meanwhile; the pods of its namespace."""
    shutil.copy(cluster.plane.kubeconfig_for("system:kube-scheduler"), LOGIN)
    (MANIFESTS / STATIC_POD.name).write_text(manifest)
    system = Workloads(cluster.plane, "kube-system")
    eventually(lambda: system.ready(MIRROR), what="the mirror pod is ready")
    yield system
    (MANIFESTS / STATIC_POD.name).unlink()
    eventually(lambda: not system.get(MIRROR), what="the mirror pod is gone")


def test_a_static_pod_schedules(
    cluster: RealCluster, not_installed: None, work: Workloads, two_gpus: list[str]
) -> None:
    # There is no admission, so the author refers to the annotation.
    source = {"fieldRef": {"fieldPath": "metadata.annotations['fairlead.dev/gpus']"}}
    variable = {"name": "CUDA_VISIBLE_DEVICES", "valueFrom": source}
    with static_pod(cluster, STATIC_POD.read_text()):
        containers = [container(env=[variable])]
        work.run("plain", {"fairlead.dev/gpu-share": "0.5"}, containers=containers)
        work.wait_running("plain")

        assert work.gpus("plain") == ("GPU-a0", None)


def test_a_scheduler_that_hangs_is_restarted_and_schedules_again(
    cluster: RealCluster, not_installed: None, work: Workloads, two_gpus: list[str]
) -> None:
    with static_pod(cluster, impatient(STATIC_POD.read_text())) as system:
        with frozen(system, MIRROR, "scheduler"):
            work.run("meanwhile", {"fairlead.dev/gpu-share": "0.5"})
            eventually(lambda: system.restarts(MIRROR) == 1, what="the kubelet restarts it")
        work.wait_running("meanwhile")


def impatient(manifest: str) -> str:
    """The same probes, with less patience for a scheduler that has started."""
    pod = yaml_of(manifest)
    (scheduler,) = pod["spec"]["containers"]
    often = {"periodSeconds": 1, "timeoutSeconds": 1}
    scheduler["startupProbe"] = {**scheduler["livenessProbe"], **often, "failureThreshold": 60}
    scheduler["livenessProbe"] |= {**often, "failureThreshold": 5}
    pod["spec"]["terminationGracePeriodSeconds"] = 1
    text: str = yaml.safe_dump(pod)
    return text
