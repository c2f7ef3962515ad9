"""GPU pods that were created while nothing put their variables in."""

import json
from collections.abc import Callable
from typing import Any

from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead
from leaders import inventory

LATER = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.annotations['fairlead.dev/gpus']"}}
INJECTED = [{"name": "CUDA_VISIBLE_DEVICES", "valueFrom": LATER}]
OWN = [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]
SHARE = {"annotations": {"fairlead.dev/gpu-share": "0.1"}}
MAP = {"annotations": {"gpu-scheduling-map": "0=v1:0"}}


def test_a_gpu_pod_without_its_variable_is_warned_about(
    control_plane: ControlPlane, create_nodes: Callable[..., Any], pods: Pods
) -> None:
    create_nodes(["v1"], annotations=inventory("v1", 2))
    with fairlead(control_plane, "--expect-variables"):
        for name, env, meta in (
            ("mapped-0", OWN, MAP), ("bare", [], SHARE), ("own", OWN, SHARE),
            ("good", INJECTED, SHARE), ("plain", [], {}),
        ):  # fmt: skip
            pods.create(name, container={"env": env}, metadata=meta)
            pods.wait_bound(name)
        for name in ("bare", "own"):
            (event,) = eventually(lambda name=name: pods.events(name, "VariablesMissing"))
            assert "delete the pod and create it again" in event["note"]
        fine = ("good", "plain", "mapped-0")
        eventually(lambda: all(pods.events(name, "Scheduled") for name in fine))
        assert not [name for name in fine if pods.events(name, "VariablesMissing")]


def test_where_nothing_is_expected_nothing_is_said(
    control_plane: ControlPlane, create_nodes: Callable[..., Any], pods: Pods
) -> None:
    create_nodes(["v2"], annotations=inventory("v2", 1))
    with fairlead(control_plane):
        pods.create("bare", metadata=SHARE)
        pods.wait_bound("bare")
        eventually(lambda: pods.events("bare", "Scheduled"))
    assert not pods.events("bare", "VariablesMissing")


def test_a_pod_without_the_variables_of_mps_is_not_placed(
    control_plane: ControlPlane, create_nodes: Callable[..., Any], pods: Pods
) -> None:
    """Without them no limit would hold."""
    gpu = {"uuid": "GPU-v3-0", "index": 0, "memoryMib": 16_000, "mps": 9}
    listed = json.dumps({"version": 2, "gpus": [gpu]})
    create_nodes(["v3"], annotations={"fairlead.dev/inventory": listed})
    words = {"fairlead.dev/gpu-share": "0.5", "fairlead.dev/gpu-isolation": "mps"}
    with fairlead(control_plane):
        pods.create("unseen", metadata={"annotations": words})
        message = pods.wait_refused("unseen")["message"]
    assert "node(s) cannot limit a pod without the MPS variables of admission" in message
