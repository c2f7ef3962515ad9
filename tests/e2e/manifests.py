"""What stands in deploy/, by component, kind and name."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

from fairlead.sim.controlplane import ControlPlane, served, service_account
from yaml_texts import yamls_of

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "fairlead"
FAIRLEAD = DEPLOY / "fairlead.yaml"
STATIC_POD = DEPLOY / "static-pod.yaml"
CRDS = DEPLOY / "crds.yaml"
INJECT = DEPLOY / "inject-policy.yaml"
NAMESPACE = "fairlead-system"
SCHEDULER = service_account(NAMESPACE, "fairlead")
WEBHOOK = service_account(NAMESPACE, "fairlead-webhook")
AGENT = service_account(NAMESPACE, "fairlead-agent")
COMPONENT = "app.kubernetes.io/component"
HERE = ("--address=127.0.0.1", "--port=0")  # said last, so it counts
#: What a pod does without being told.
AS_IN_A_POD = ("--leader-elect", f"--leader-elect-resource-namespace={NAMESPACE}")

Object = dict[str, Any]
#: One right of each role of a component.
_RIGHTS: dict[str, list[tuple[str, str, dict[str, str]]]] = {
    "scheduler": [
        ("watch", "pods", {}),
        ("get", "leases", {
            "group": "coordination.k8s.io", "namespace": NAMESPACE, "name": "fairlead",
        }),
    ],
    "webhook": [
        ("update", "secrets", {"namespace": NAMESPACE, "name": "fairlead-webhook-tls"}),
        ("patch", "mutatingwebhookconfigurations", {
            "group": "admissionregistration.k8s.io", "name": "fairlead",
        }),
    ],
    "agent": [("watch", "pods", {})],
}  # fmt: skip


def documents(path: Path = FAIRLEAD, component: str = "") -> list[Object]:
    """The objects in a file, of one component if it is named."""
    found = yamls_of(path)
    return [one for one in found if component in ("", one["metadata"]["labels"].get(COMPONENT, ""))]


def the(kind: str, path: Path = FAIRLEAD, component: str = "scheduler") -> Object:
    (found,) = [one for one in documents(path, component) if one["kind"] == kind]
    return found


def policy(name: str, path: Path = FAIRLEAD) -> list[Object]:
    """A policy and its binding."""
    found = [one for one in documents(path, "policy") if one["metadata"]["name"] == name]
    assert len(found) == 2, name
    return found


def kubectl(plane: ControlPlane, command: str) -> str:
    words = [plane.program("kubectl"), "--kubeconfig", str(plane.kubeconfig_for())]
    done = subprocess.run(
        [*words, *shlex.split(command)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"kubectl {command}: {done.stderr}"
    return done.stdout


def warnings_of(plane: ControlPlane, namespace: str, body: Object) -> str:
    """What kubectl tells of warnings when it tries to create the object."""
    words = [plane.program("kubectl"), "--kubeconfig", str(plane.kubeconfig_for())]
    tries = ["create", "-n", namespace, "--dry-run=server", "-f", "-"]
    body = {"apiVersion": "v1", "kind": "Pod", **body}
    done = subprocess.run(
        [*words, *tries], input=json.dumps(body), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def apply(plane: ControlPlane, component: str) -> str:
    """Apply one component of deploy/fairlead.yaml, as docs/install.md says."""
    return kubectl(plane, f"apply -f {FAIRLEAD} -l {COMPONENT}={component}")


def wait_for_rights(plane: ControlPlane, component: str = "scheduler") -> None:
    """Returns when RBAC knows the roles that were installed with this component."""
    user = {"scheduler": SCHEDULER, "webhook": WEBHOOK, "agent": AGENT}[component]
    for verb, resource, where in _RIGHTS[component]:
        served.wait_allowed(plane, user, verb, resource, **where)
