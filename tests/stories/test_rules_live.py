"""Rules of the administrator with a running scheduler, and the audit of what is bound."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from extenders import inventory
from fairlead.model.rules import NODE_RULE
from fairlead.sim.controlplane import ControlPlane
from fairleads import FAIRLEAD, Pods, eventually, fairlead
from preloaded import run

LABEL = "example.node-restriction.kubernetes.io/region"
MERGE = "application/merge-patch+json"


def label(plane: ControlPlane, node: str, region: str | None) -> None:
    body = {"metadata": {"labels": {LABEL: region}}}
    assert plane.api("PATCH", f"/api/v1/nodes/{node}", body, content_type=MERGE)[0] == 200


def audit(plane: ControlPlane, config: Path) -> subprocess.CompletedProcess[str]:
    command = [str(FAIRLEAD), "audit", "--config", str(config), "-o", "json"]
    command += ["--kubeconfig", str(plane.kubeconfig_for())]
    return run(command)


@pytest.mark.real
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


def relabel(plane: ControlPlane, namespace: str, tenant: str) -> None:
    body = {"metadata": {"labels": {"example.com/tenant": tenant}}}
    path = f"/api/v1/namespaces/{namespace}"
    assert plane.api("PATCH", path, body, content_type=MERGE)[0] == 200


def test_pods_of_different_tenants_share_no_gpu_across_a_restart_and_a_relabelling(
    control_plane: ControlPlane,
    pods: Pods,
    create_nodes: Callable[..., None],
    tmp_path: Path,
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: fairlead.dev/v1alpha1\nkind: SchedulerConfiguration\n"
        "tenants: {namespaceLabel: example.com/tenant}\n"
    )
    other_pods = Pods(control_plane, f"{pods.namespace}-two")
    body = {"metadata": {"name": other_pods.namespace}}
    assert control_plane.api("POST", "/api/v1/namespaces", body)[0] == 201
    relabel(control_plane, pods.namespace, "one")
    relabel(control_plane, other_pods.namespace, "two")
    create_nodes(["tenants"], annotations=inventory("tenants", 1))
    share = {"annotations": {"fairlead.dev/gpu-share": "0.2"}}
    with fairlead(control_plane, "--config", str(config)):
        pods.create("first", metadata=share)
        pods.wait_bound("first")
        other_pods.create("second", metadata=share)
        refused = other_pods.wait_refused("second")
        assert "had only GPUs with pods of other tenants" in refused["message"]
    with fairlead(control_plane, "--config", str(config)):
        pods.create("third", metadata=share)
        pods.wait_bound("third")
        assert not other_pods.node("second")
        assert json.loads(audit(control_plane, config).stdout) == []
        relabel(control_plane, other_pods.namespace, "one")
        other_pods.wait_bound("second")
    relabel(control_plane, other_pods.namespace, "two")
    found = json.loads(audit(control_plane, config).stdout)
    mine, theirs = pods.namespace, other_pods.namespace
    assert {each["pod"] for each in found} == {f"{mine}/first", f"{mine}/third", f"{theirs}/second"}
    assert {each["why"] for each in found} == {"GPU GPU-tenants-0 has pods of the tenants one, two"}
