"""What stands in deploy/, by component, kind and name."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import yaml

from fairlead.sim.controlplane import ControlPlane, service_account

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "fairlead"
FAIRLEAD = DEPLOY / "fairlead.yaml"
STATIC_POD = DEPLOY / "static-pod.yaml"
INJECT = DEPLOY / "inject-policy.yaml"
NAMESPACE = "fairlead-system"
SCHEDULER = service_account(NAMESPACE, "fairlead")
WEBHOOK = service_account(NAMESPACE, "fairlead-webhook")
COMPONENT = "app.kubernetes.io/component"
HERE = ("--address=127.0.0.1", "--port=0")  # said last, so it counts
#: What a pod does without being told.
AS_IN_A_POD = ("--leader-elect", f"--leader-elect-resource-namespace={NAMESPACE}")

Object = dict[str, Any]


def documents(path: Path = FAIRLEAD, component: str = "") -> list[Object]:
    """The objects in a file, of one component if it is named."""
    found = [one for one in yaml.safe_load_all(path.read_text()) if one]
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


def apply(plane: ControlPlane, component: str) -> str:
    """Apply one component of deploy/fairlead.yaml, as docs/install.md says."""
    return kubectl(plane, f"apply -f {FAIRLEAD} -l {COMPONENT}={component}")


def may(plane: ControlPlane, verb: str, resource: str, **more: str) -> bool:
    """Does the API server know yet that the ServiceAccount may do this?"""
    asked = {"verb": verb, "resource": resource, **more}
    review = {"user": SCHEDULER, "resourceAttributes": asked}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": review}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    _, answer = plane.api("POST", path, body)
    return bool(answer["status"]["allowed"])
