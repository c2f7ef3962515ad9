"""The kubelet's PodResources API names the GPUs that a device plugin chose."""

import asyncio
from pathlib import Path

import pytest

from clusters import RealCluster
from fairlead.kube.pod_resources import PodResourcesError, picked_devices
from vendors import GPUS, nvidia
from workloads import Workloads, container

pytestmark = pytest.mark.usefixtures("installed")

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")


def test_the_kubelet_names_the_gpus_that_the_processes_see(
    cluster: RealCluster, work: Workloads
) -> None:
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    with cluster.serving(nvidia(*GPUS)):
        for name in ("one", "two"):
            work.run(name, containers=[container("idle"), container(**limits)])
        work.wait_running("one", "two")

        picked = asyncio.run(picked_devices(SOCKET))
        seen = {(work.namespace, name): {work.gpus(name)[1]} for name in ("one", "two")}
        assert {pod: picked[pod] for pod in seen} == seen
        work.delete_all()


def test_a_kubelet_that_is_not_there_is_an_error_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(PodResourcesError, match="UNAVAILABLE"):
        asyncio.run(picked_devices(tmp_path / "none.sock"))
