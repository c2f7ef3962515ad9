"""The webhook of deploy/fairlead.yaml fits together, and may be applied again."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.apps.config import profiles
from fairlead.sim.controlplane import ControlPlane, served
from manifests import (
    COMPONENT,
    FAIRLEAD,
    INJECT,
    NAMESPACE,
    apply,
    documents,
    kubectl,
    policy,
    wait_for_rights,
)
from manifests import the as the_one
from test_deploy import installed_on
from webhooks import free_port, webhook
from webhooks import pod as a_pod


def the(kind: str) -> dict[str, Any]:
    return the_one(kind, component="webhook")


@pytest.fixture
def installed(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    with installed_on(control_plane):
        yield control_plane
        kubectl(control_plane, f"delete --ignore-not-found -f {FAIRLEAD} -l {COMPONENT}=webhook")
        served.until(lambda: _admits(control_plane), "the webhook is not asked any more")


def _admits(plane: ControlPlane) -> bool:
    path = "/api/v1/namespaces/default/pods?dryRun=All"
    return plane.api("POST", path, a_pod("probe"))[0] == 201


def test_it_may_be_applied_again_and_keeps_what_the_program_wrote(
    installed: ControlPlane,
) -> None:
    apply(installed, "webhook")
    wait_for_rights(installed, "webhook")
    port = free_port()
    with webhook(installed, port):
        pass  # it has filled the Secret and the bundles

    again = apply(installed, "webhook").splitlines()

    assert len(again) == len(documents(component="webhook"))
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
        hook, *others = the(f"{kind}WebhookConfiguration")["webhooks"]
        assert [other["name"] for other in others] == ["queues.fairlead.dev"] * (
            kind == "Validating"
        )
        assert all(other["clientConfig"] == hook["clientConfig"] for other in others)
        assert hook["failurePolicy"] == "Fail"
        (condition,) = hook["matchConditions"]
        assert condition["expression"].endswith(f"object.spec.schedulerName in {names}")
        assert hook["clientConfig"]["service"] == {
            "namespace": NAMESPACE, "name": the("Service")["metadata"]["name"], "path": route,
        }  # fmt: skip
    injects, _ = policy("fairlead-inject", INJECT)
    (condition,) = injects["spec"]["matchConditions"]
    assert condition["expression"].endswith(f"object.spec.schedulerName in {names}")


def test_it_survives_the_loss_of_a_node() -> None:
    spec = the("Deployment")["spec"]

    assert spec["replicas"] == 2
    assert the("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert spec["template"]["spec"]["schedulerName"] == "default-scheduler"
