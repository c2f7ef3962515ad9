"""Only the scheduler creates reservation pods, and no others: a policy in deploy/fairlead.yaml."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairlead.kube.reservations import LABEL, ReservationPlan, reservation_object
from fairlead.sim.controlplane import ControlPlane, served, service_account
from fairlead.sim.controlplane.client import MERGE_PATCH, SyncClient
from manifests import policy
from test_chart import enforcing

SCHEDULER = service_account("fairlead-system", "fairlead")
PODS = "/api/v1/namespaces/default/pods"
DRY = f"{PODS}?dryRun=All"


def a_reservation(namespace: str = "default", **spec: Any) -> dict[str, Any]:
    body = reservation_object(ReservationPlan(namespace, "fairlead:test"), "n1", "", 0)
    return {**body, "spec": {**body["spec"], **spec}}


def a_pod(**labels: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "x"}]
    meta = {"name": "of-a-user", "labels": labels}
    return {"metadata": meta, "spec": {"containers": containers, "schedulerName": "none"}}


@pytest.fixture(scope="module")
def guarded(real_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The API server with the policy in force, and a scheduler with every right."""
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reserving"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin",
        },
        "subjects": [
            {"kind": "ServiceAccount", "name": "fairlead", "namespace": "fairlead-system"}
        ],
    }  # fmt: skip
    home = {"metadata": {"name": "fairlead-system"}}
    is_new = real_plane.api("POST", "/api/v1/namespaces", home)[0] == 201
    path = served.create(real_plane, binding)
    served.wait_allowed(real_plane, str(SCHEDULER), "create", "pods", [])

    def in_force() -> bool:
        return real_plane.api("POST", DRY, a_pod(**{LABEL: "0"}))[0] == 422

    with served.policy(real_plane, policy("fairlead-reservations"), in_force):
        yield real_plane
    real_plane.api("DELETE", path)
    served.until(
        lambda: not served.allowed(real_plane, str(SCHEDULER), "create", "pods"),
        "the rights are forgotten",
    )
    if is_new:
        served.remove_namespace(real_plane, "fairlead-system")


@pytest.fixture
def scheduler(guarded: ControlPlane) -> Iterator[SyncClient]:
    with guarded.connect(SCHEDULER) as client:
        yield client


def test_a_user_cannot_make_a_pod_a_reservation(guarded: ControlPlane) -> None:
    assert guarded.api("POST", DRY, a_reservation())[0] == 422
    assert guarded.api("POST", PODS, a_pod())[0] == 201
    path, body = f"{PODS}/of-a-user", {"metadata": {"labels": {LABEL: "1"}}}
    try:
        assert guarded.api("PATCH", path, body, content_type=MERGE_PATCH)[0] == 422
        other = {"metadata": {"labels": {"app": "x"}}}
        assert guarded.api("PATCH", path, other, content_type=MERGE_PATCH)[0] == 200
    finally:
        guarded.api("DELETE", f"{path}?gracePeriodSeconds=0")


def test_the_scheduler_creates_reservation_pods(scheduler: SyncClient) -> None:
    status, answer = scheduler.api("POST", DRY, a_reservation())
    assert status == 201, answer


@pytest.mark.parametrize(
    "body",
    [
        a_pod(),
        a_reservation(automountServiceAccountToken=True),
        a_reservation(volumes=[{"name": "v", "secret": {"secretName": "s"}}]),
        a_reservation(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
    ],
    ids=["no reservation", "with a token", "with a Secret", "with the host"],
)
def test_the_scheduler_creates_no_other_pods(
    scheduler: SyncClient, body: dict[str, Any]
) -> None:  # fmt: skip
    status, answer = scheduler.api("POST", DRY, body)
    assert status == 422, answer


def test_reservation_pods_meet_the_restricted_standard(control_plane: ControlPlane) -> None:
    with enforcing(control_plane, "restricted") as pods:
        namespace = pods.split("/")[4]
        body = a_reservation(namespace)
        del body["metadata"]["labels"]  # the policy above is about them
        status, answer = control_plane.api("POST", f"{pods}?dryRun=All", body)
        assert status == 201, answer
