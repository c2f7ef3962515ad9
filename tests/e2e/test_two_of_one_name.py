"""A second scheduler of the same name does not start, where no election decides between the two."""

import signal
import subprocess

import pytest

from fairlead.sim.controlplane import ControlPlane, served
from fairleads import FAIRLEAD, PATIENCE_S, Pods, eventually, fairlead
from leaders import Lease
from preloaded import run

pytestmark = pytest.mark.server
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def holder(plane: ControlPlane, name: str) -> str | None:
    status, found = plane.api("GET", f"{LEASES}/fairlead-serves-{name}")
    return found["spec"].get("holderIdentity", "") if status == 200 else None


def grant_all_but_leases(plane: ControlPlane, user: str) -> None:
    groups = ["", "apps", "events.k8s.io", "policy", "storage.k8s.io", "resource.k8s.io"]
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]
    role = {"metadata": {"name": user}, "rules": rules}
    api = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
    }
    for kind, body in (("clusterroles", role), ("clusterrolebindings", binding)):
        status, answer = plane.api("POST", f"/apis/{api}/v1/{kind}", body)
        assert status == 201, answer
    served.wait_allowed(plane, user, "list", "pods")


def a_second(plane: ControlPlane, *options: str) -> subprocess.CompletedProcess[str]:
    kubeconfig = str(plane.kubeconfig_for())
    command = [str(FAIRLEAD), "run", "--port", "0", "--kubeconfig", kubeconfig, *options]
    return run(command, timeout=PATIENCE_S)


def test_the_second_ends_with_the_sentence_that_helps(control_plane: ControlPlane) -> None:
    admin = control_plane.kubeconfig_for()
    with fairlead(control_plane, "--scheduler-name", "twice", kubeconfig=admin) as first:
        eventually(lambda: holder(control_plane, "twice"))
        done = a_second(control_plane, "--scheduler-name", "twice")
        assert done.returncode == 1
        assert f"another scheduler (process {first.process.pid} on " in done.stderr
        assert "serves 'twice' in this cluster" in done.stderr
        assert "give this one another name with --scheduler-name, or run both" in done.stderr
        with fairlead(control_plane, "--scheduler-name", "other-one", kubeconfig=admin):
            eventually(lambda: holder(control_plane, "other-one"))
    assert holder(control_plane, "twice") == ""


def test_one_that_was_killed_is_not_waited_for(
    control_plane: ControlPlane, pods: Pods, create_nodes
) -> None:
    create_nodes(["alone"])
    admin, name = control_plane.kubeconfig_for(), ("--scheduler-name", "killed-one")
    with fairlead(control_plane, *name, kubeconfig=admin, ends_with=-9) as first:
        eventually(lambda: holder(control_plane, "killed-one"))
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(PATIENCE_S)
    with fairlead(control_plane, *name, kubeconfig=admin) as again:
        pods.create("p", scheduler="killed-one")
        eventually(lambda: pods.node("p"))
        assert "waiting to see" not in again.log.read_text()


def test_one_beside_an_elected_scheduler_warns(control_plane: ControlPlane, namespace: str) -> None:
    lease, admin = Lease(control_plane, namespace), control_plane.kubeconfig_for()
    elected = ("--scheduler-name", "elected", *lease.options())
    with fairlead(control_plane, *elected, kubeconfig=admin):
        eventually(lambda: lease.holder)
        with fairlead(control_plane, "--scheduler-name", "alone", kubeconfig=admin) as running:
            told = eventually(lambda: [r for r in running.records if "with election" in r["event"]])
    assert told[0]["namespace"] == namespace


def test_without_the_right_to_leases_it_schedules_all_the_same(
    control_plane: ControlPlane, pods: Pods, create_nodes
) -> None:
    create_nodes(["alone"])
    grant_all_but_leases(control_plane, "no-leases")
    access = control_plane.kubeconfig_for("no-leases")
    with fairlead(control_plane, "--scheduler-name", "no-leases", kubeconfig=access) as running:
        pods.create("p", scheduler="no-leases")
        eventually(lambda: pods.node("p"))
        sentence = "cannot look for another scheduler of this name"
        eventually(lambda: any(r["event"] == sentence for r in running.records), what=sentence)
