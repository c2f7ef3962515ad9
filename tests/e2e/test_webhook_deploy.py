"""deploy/webhook.yaml: what it asks for is what it uses, and it is admitted as it is."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.apps import profiles
from fairlead.sim.controlplane import ControlPlane
from fairleads import eventually
from test_deploy import (
    AUDIT_POLICY,
    _audited,
    _granted,
    _permission_of,
    documents,
    install,
    kubectl,
)
from test_webhook import asks
from webhooks import IDENTITY, NAMESPACE, ROOT, WEBHOOK, configured, free_port, webhook

INJECT = ROOT / "deploy" / "policies" / "inject.yaml"


def the(kind: str, path: Path = WEBHOOK) -> dict[str, Any]:
    (found,) = [one for one in documents(path) if one["kind"] == kind]
    return found


@pytest.fixture
def installed(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    install(control_plane)
    yield control_plane
    kubectl(control_plane, f"delete --ignore-not-found -f {WEBHOOK}")
    kubectl(control_plane, "delete clusterrole,clusterrolebinding fairlead")
    control_plane.delete_namespace(NAMESPACE)


def test_it_may_be_applied_again_and_keeps_what_the_program_wrote(
    installed: ControlPlane,
) -> None:
    kubectl(installed, f"apply -f {WEBHOOK}")
    port = free_port()
    with webhook(installed, port):
        pass  # it has filled the Secret and the bundles

    again = kubectl(installed, f"apply -f {WEBHOOK}").splitlines()

    assert len(again) == len(documents(WEBHOOK))
    changed = [line.split()[0] for line in again if not line.endswith(" unchanged")]
    # kubectl writes the selector of a budget anew each time, even if it is the same.
    assert changed == ["poddisruptionbudget.policy/fairlead-webhook"]
    template = "jsonpath={.webhooks[0].clientConfig.caBundle}"
    assert kubectl(installed, f"get mutatingwebhookconfiguration fairlead -o {template}")
    template = "'jsonpath={.data.tls\\.key}'"
    assert kubectl(installed, f"get secret -n {NAMESPACE} fairlead-webhook-tls -o {template}")


def test_its_pods_are_admitted_where_pod_security_is_restricted(installed: ControlPlane) -> None:
    template = the("Deployment")["spec"]["template"]
    pod = {**template, "metadata": {**template["metadata"], "name": "as-shipped"}}

    status, answer = installed.api("POST", f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All", pod)

    assert status == 201, answer


def test_everything_fits_together() -> None:
    (container,) = the("Deployment")["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    (served,) = the("Service")["spec"]["ports"]
    assert f"--port={port['containerPort']}" in container["args"]
    assert served["targetPort"] == port["name"]
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"] | {"path": ""} == {
            "path": "", "port": port["name"], "scheme": "HTTPS",
        }  # fmt: skip

    names = f"[{', '.join(repr(name) for name in profiles.SERVED_BY_DEFAULT)}]"
    for kind, route in (("Mutating", "/mutate"), ("Validating", "/validate")):
        (hook,) = the(f"{kind}WebhookConfiguration")["webhooks"]
        assert hook["failurePolicy"] == "Fail"
        (condition,) = hook["matchConditions"]
        assert condition["expression"].endswith(f"object.spec.schedulerName in {names}")
        assert hook["clientConfig"]["service"] == {
            "namespace": NAMESPACE, "name": the("Service")["metadata"]["name"], "path": route,
        }  # fmt: skip
    (condition,) = the("MutatingAdmissionPolicy", INJECT)["spec"]["matchConditions"]
    assert condition["expression"].endswith(f"object.spec.schedulerName in {names}")


def test_it_survives_the_loss_of_a_node() -> None:
    spec = the("Deployment")["spec"]

    assert spec["replicas"] == 2
    assert the("PodDisruptionBudget")["spec"]["minAvailable"] == 1
    assert spec["template"]["spec"]["schedulerName"] == "default-scheduler"


def test_it_has_the_rights_that_it_uses_and_no_others(
    new_control_plane: Callable[..., ControlPlane], tmp_path: Path
) -> None:
    policy, audit = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(AUDIT_POLICY)
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit}"]
    plane, port = new_control_plane(apiserver_flags=flags), free_port()

    with configured(plane, port), webhook(plane, port):
        asks(plane)

    asked = [entry for entry in _audited(audit) if entry["user"]["username"] == IDENTITY]
    eventually(lambda: asked)
    assert [e for e in asked if e["responseStatus"].get("code") in (401, 403)] == []
    used = {_permission_of(entry) for entry in asked}
    granted = {*_granted(the("ClusterRole")), *_granted(the("Role"))}
    assert used == granted
