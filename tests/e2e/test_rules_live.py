"""Rules of the administrator with a running scheduler, and the audit of what is bound."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.model.rules import NODE_RULE
from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, Pods, eventually, fairlead

pytestmark = pytest.mark.server

LABEL = "example.node-restriction.kubernetes.io/region"
MERGE = "application/merge-patch+json"


def label(plane: ControlPlane, node: str, region: str | None) -> None:
    body = {"metadata": {"labels": {LABEL: region}}}
    assert plane.api("PATCH", f"/api/v1/nodes/{node}", body, content_type=MERGE)[0] == 200


def audit(plane: ControlPlane, config: Path) -> subprocess.CompletedProcess[str]:
    command = [str(FAIRLEAD), "audit", "--config", str(config), "-o", "json"]
    command += ["--kubeconfig", str(plane.kubeconfig_for())]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_rule_holds_when_pods_are_placed_and_the_audit_says_where_it_does_not_now(
    control_plane: ControlPlane, pods: Pods, create_nodes: Callable[..., None], tmp_path: Path
) -> None:
    create_nodes(["ruled"])
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: fairlead.dev/v1alpha1\nkind: SchedulerConfiguration\nuserRules: true\n"
        f"rules:\n  - name: eu-only\n    namespaces: [{pods.namespace}]\n"
        f"    nodes: node.labels[?'{LABEL}'].orValue('') == 'eu'\n    message: data stays\n"
    )
    with fairlead(control_plane, "--config", str(config)):
        pods.create("pod")
        eventually(
            lambda: "the rule eu-only (data stays)" in pods.condition("pod").get("message", "")
        )
        assert pods.condition("pod")["reason"] == "Unschedulable"
        label(control_plane, "ruled", "eu")
        pods.wait_bound("pod")
        pods.create("picky", metadata={"annotations": {NODE_RULE: "size(gpus) > 0"}})
        eventually(lambda: "the rule of the pod" in pods.condition("picky").get("message", ""))
    done = audit(control_plane, config)
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    label(control_plane, "ruled", None)
    done = audit(control_plane, config)
    (found,) = json.loads(done.stdout)
    assert done.returncode == 1
    assert (found["pod"], found["node"]) == (f"{pods.namespace}/pod", "ruled")
    assert found["why"] == "the rule eu-only (data stays)"
