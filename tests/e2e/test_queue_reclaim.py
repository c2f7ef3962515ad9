"""Reclaim between queues on the real API server."""

import pytest

import queue_crds
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead

pytestmark = pytest.mark.server

GPU, QUEUE = "nvidia.com/gpu", "fairlead.dev/queue"


def test_a_queue_gets_its_share_back_and_no_more(
    control_plane: ControlPlane, create_nodes, pods: Pods
) -> None:
    create_nodes(["reclaim"], allocatable={GPU: "4"})
    with queue_crds.installed(control_plane):
        for name in ("red", "blue"):
            assert queue_crds.create(control_plane, name)[0] == 201
        with fairlead(control_plane, kubeconfig=control_plane.kubeconfig_for()):
            red = [f"red-{number}" for number in range(4)]
            for name in red:
                pods.create(name, 1, metadata={"labels": {QUEUE: "red"}})
            pods.wait_bound(*red)
            blue = [f"blue-{number}" for number in range(3)]
            for name in blue:
                pods.create(name, 1, metadata={"labels": {QUEUE: "blue"}})

            def leaving() -> list[str]:
                found = {name: pods.get(name) for name in red}
                return [n for n, pod in found.items() if pod["metadata"].get("deletionTimestamp")]

            eventually(lambda: len(leaving()) == 2, what="two of red make room")
            for name in leaving():
                pods.delete(name)
            eventually(lambda: sum(bool(pods.node(name)) for name in blue) == 2)
            waiting = next(name for name in blue if not pods.node(name))
            assert "does not help" in pods.wait_refused(waiting)["message"]
            assert sum(bool(pods.get(name)) for name in red) == 2
