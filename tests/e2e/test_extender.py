"""A real kube-scheduler places GPU pods on a real API server, and asks Fairlead about cards."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from extenders import SCHEDULER, advised, complaints, inventory
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods

pytestmark = pytest.mark.server

SHARE, GPUS = "fairlead.dev/gpu-share", "fairlead.dev/gpus"
HAMI = json.dumps([
    {"id": f"GPU-h{n}", "index": n, "count": 10, "devmem": 16000, "devcore": 100,
     "type": "NVIDIA-V100", "numa": 0, "mode": "hami-core", "health": True}
    for n in range(2)
])  # fmt: skip


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Pods:
    return Pods(control_plane, namespace)


def ask(pods: Pods, name: str, limits: dict[str, int] | None = None, **more: Any) -> None:
    texts = {key: str(value) for key, value in (limits or {}).items()}
    pods.create(name, scheduler=SCHEDULER, container={"resources": {"limits": texts}}, **more)


def share(pods: Pods, name: str, of_a_card: str, **more: Any) -> None:
    ask(pods, name, metadata={"annotations": {SHARE: of_a_card}}, **more)


def cards_of(pods: Pods, *names: str) -> list[str]:
    return [pods.get(name)["metadata"]["annotations"][GPUS] for name in names]


@pytest.mark.parametrize("cached", [True, False], ids=["names", "nodes in full"])
def test_whole_cards_are_each_given_once(
    cached: bool, control_plane: ControlPlane, create_nodes: Callable[..., Any], pods: Pods
) -> None:
    for node in ("w1", "w2"):
        create_nodes([node], annotations=inventory(node, 4), allocatable={"nvidia.com/gpu": "4"})
    create_nodes(["w3"])
    everybody = [f"p{n}" for n in range(4)]
    with advised(control_plane, nodeCacheCapable=cached):
        for name in everybody:
            ask(pods, name, {"nvidia.com/gpu": 2})
        pods.wait_bound(*everybody)
        given = ",".join(cards_of(pods, *everybody)).split(",")
        assert sorted(given) == [f"GPU-{node}-{n}" for node in ("w1", "w2") for n in range(4)]
        assert complaints(control_plane) == []
