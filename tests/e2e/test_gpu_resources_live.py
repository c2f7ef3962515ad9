"""Shares of GPUs as autoscalers see them: agent, admission and scheduler on a real API server."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autoscaler_rules import added_for, is_removable
from fairlead.sim.controlplane import ControlPlane, served
from fairlead.sim.nvml import FileStore, machine_of
from fairleads import Pods, eventually, fairlead
from webhooks import configured, free_port, injects, webhook

pytestmark = pytest.mark.server

Json = dict[str, Any]
MILLI, MIB = "fairlead.dev/gpu-milli", "fairlead.dev/gpu-mib"


@pytest.fixture
def node(
    control_plane: ControlPlane,
    create_nodes: Callable[..., list[str]],
    namespace: str,
    tmp_path: Path,
) -> Iterator[str]:
    """With two GPUs that an agent serves; and another one without GPUs."""
    labels = {"pool": namespace}
    name, _ = create_nodes([f"{namespace}-gpu", f"{namespace}-cpu"], labels=labels)
    (proc := tmp_path / "proc").mkdir()
    FileStore(file := tmp_path / "machine.json", machine_of(2))
    with fairlead(
        control_plane, "--node", name, "--address", "127.0.0.1", "--proc", str(proc), "--nvml",
        "fairlead.sim.nvml.shared:library", "--gpu-resources", "parts", program="agent",
        kubeconfig=control_plane.kubeconfig_for(), env={"FAIRLEAD_NVML_FILE": str(file)},
    ):  # fmt: skip
        yield name


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str, node: str) -> Iterator[Pods]:
    """Pods that pass admission, and are scheduled."""
    port = free_port()
    with (
        configured(control_plane, port, namespace),
        webhook(control_plane, port, "--gpu-resources", "parts"),
        fairlead(control_plane, kubeconfig=control_plane.kubeconfig_for()),
    ):
        served.until(lambda: injects(control_plane, namespace), "the webhook is asked")
        yield Pods(control_plane, namespace)


def create(pods: Pods, name: str, **words: str) -> None:
    said = {f"fairlead.dev/gpu-{word}": text for word, text in words.items()}
    pods.create(name, metadata={"annotations": said}, nodeSelector={"pool": pods.namespace})


def template(pods: Pods, name: str, **more: str) -> Json:
    """A node that could be added."""
    return {
        "metadata": {"name": name, "labels": {"pool": pods.namespace}},
        "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", **more}},
    }


def without_parts(pod: Json) -> Json:
    found = copy.deepcopy(pod)
    del found["spec"]["containers"][0]["resources"]
    return found


def test_autoscalers_count_shares_of_nodes_that_an_agent_serves(
    control_plane: ControlPlane, pods: Pods, node: str
) -> None:
    create(pods, "a", share="0.9", memory="4Gi")
    create(pods, "b", share="0.9")
    assert set(pods.wait_bound("a", "b").values()) == {node}
    resources = pods.get("a")["spec"]["containers"][0]["resources"]
    assert resources["requests"] == resources["limits"] == {MILLI: "900", MIB: "4096"}

    create(pods, "c", share="0.9")
    assert pods.wait_refused("c")["reason"] == "Unschedulable"
    offers = [template(pods, "cpu"), template(pods, "agent", **{MILLI: "2k", MIB: "280000"})]
    waiting = pods.get("c")
    assert added_for(control_plane, waiting, offers) == ["agent"]
    assert added_for(control_plane, without_parts(waiting), offers) == [], "it fits a CPU node"
    assert not is_removable(control_plane, node)

    pods.delete("a")
    pods.wait_bound("c")
    for name in ("b", "c"):
        pods.delete(name)
    eventually(lambda: is_removable(control_plane, node), what="nothing needs the node")
