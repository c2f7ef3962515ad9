"""Pods that the kubelet rejects after the bind."""

import time
from collections.abc import Sequence

import pytest

from clusters import NODE, RealCluster
from fairleads import eventually
from plugin_servers import DevicePlugin
from vendors import GPUS
from workloads import Workloads, container

pytestmark = pytest.mark.usefixtures("installed")

LIMIT = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}


def failing(ids: Sequence[str]) -> dict[str, str]:
    raise RuntimeError(f"no driver for {ids}")


def test_pods_that_the_kubelet_rejects_are_reported_and_replaced_without_a_loop(
    cluster: RealCluster, work: Workloads
) -> None:
    selector = {"matchLabels": {"app": "rejected"}}
    template = {
        "metadata": {"labels": {"app": "rejected"}},
        "spec": {"schedulerName": "gpu-scheduler", "containers": [container(**LIMIT)]},
    }
    body = {
        "metadata": {"name": "rejected"},
        "spec": {"replicas": 1, "selector": selector, "template": template},
    }
    path = f"/apis/apps/v1/namespaces/{work.namespace}/replicasets"
    with cluster.serving(DevicePlugin("nvidia.com/gpu", GPUS, failing)):
        status, answer = cluster.plane.api("POST", path, body)
        assert status == 201, answer
        eventually(lambda: len(rejected(work)) >= 3, what="three pods are rejected")
        said = eventually(lambda: waits_because(work), what="the next one waits")
        assert f"on node {NODE}: UnexpectedAdmissionError" in said
        began, before = time.monotonic(), len(work.nodes())
        eventually(lambda: len(work.nodes()) > before, what="one more is tried")
        # The pause doubles each time. Without it there are dozens a second.
        assert len(work.nodes()) - before <= 1 + (time.monotonic() - began)
        (first, *_) = rejected(work)
        (report, *_) = eventually(lambda: work.events(first, "RejectedByKubelet"))
        assert "UnexpectedAdmissionError" in report["note"]
        cluster.plane.api("DELETE", f"{path}/rejected")
        eventually(lambda: not work.nodes(), what="the pods are gone")


def rejected(work: Workloads) -> list[str]:
    return [name for name in work.nodes() if work.phase(name) == "Failed"]


def waits_because(work: Workloads) -> str:
    """What a pod that waits says about the rejections before it."""
    for name in work.nodes():
        message = str(work.condition(name).get("message", ""))
        if "the kubelet rejected" in message:
            return message
    return ""
