"""Shares beside a device plugin like NVIDIA's: GPUs are taken from it by reservation pods."""

from typing import Any

import pytest

from clusters import RealCluster
from fairleads import eventually
from plugin_servers import DevicePlugin
from test_rejected import LIMIT, failing
from vendors import GPUS, nvidia
from workloads import Workloads, container

pytestmark = pytest.mark.usefixtures("installed")

HALF = {"fairlead.dev/gpu-share": "0.5"}
RESERVED = "/api/v1/namespaces/fairlead-system/pods?labelSelector=fairlead.dev%2Freservation"


def reservations(cluster: RealCluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.plane.api("GET", RESERVED)[1]["items"]
    return found


def test_two_halves_share_a_gpu_that_the_plugin_chose_and_give_it_back(
    cluster: RealCluster, work: Workloads
) -> None:
    with cluster.serving(nvidia(*GPUS)):
        work.run("ada", HALF)
        work.run("ben", HALF)
        work.wait_running("ada", "ben")
        (pod,) = reservations(cluster)
        (init,) = pod["status"]["initContainerStatuses"]
        chosen = init["state"]["terminated"]["message"]
        assert chosen in GPUS
        assert work.gpus("ada") == work.gpus("ben") == (chosen, chosen)

        # The container that holds the GPU has the one that the init container reported.
        held = Workloads(cluster.plane, "fairlead-system")
        name = pod["metadata"]["name"]
        assert held.exec(name, "printenv", "NVIDIA_VISIBLE_DEVICES").strip() == chosen
        work.run("whole", containers=[container(**LIMIT)])
        work.wait_running("whole")
        assert {work.gpus("whole")[1], chosen} == set(GPUS)

        work.kubectl("delete", "pod", "ada", "ben", "--wait=false")
        eventually(lambda: not reservations(cluster), what="the reservation pod is gone")
        work.run("other", containers=[container(**LIMIT)])
        work.wait_running("other")
        work.delete_all()


def test_a_reservation_that_the_kubelet_rejects_is_reported_and_removed(
    cluster: RealCluster, work: Workloads
) -> None:
    with cluster.serving(DevicePlugin("nvidia.com/gpu", GPUS, failing)):
        work.run("ada", HALF)

        def reported() -> str:
            notes = [event["note"] for event in work.events("ada", "FailedScheduling")]
            return next((note for note in notes if "UnexpectedAdmissionError" in note), "")

        assert "rejected the reservation pod" in eventually(reported)
        work.delete_all()
        eventually(lambda: not reservations(cluster), what="no reservation pod is left")


def test_a_reservation_and_its_shares_survive_restarts(
    cluster: RealCluster, work: Workloads
) -> None:
    with cluster.serving(nvidia(*GPUS)):
        work.run("ada", HALF)
        work.wait_running("ada")
        (before,) = reservations(cluster)
        cluster.kubelet.process.kill()
        cluster.kubelet.start()
        work.run("ben", HALF)
        work.wait_running("ben", timeout_s=120)
        (after,) = reservations(cluster)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert work.gpus("ada") == work.gpus("ben")
        work.delete_all()
        eventually(lambda: not reservations(cluster), what="the reservation pod is gone")
