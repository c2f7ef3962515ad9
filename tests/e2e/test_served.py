"""What the API server acts on is created so that it acts on it: the next request relies on it."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fairlead.sim.controlplane import ControlPlane, served, service_account
from fairleads import Pods

_numbers = itertools.count()
TIMES = range(8)


@pytest.mark.parametrize("_", TIMES)
def test_a_priority_class_may_be_used_at_once(
    control_plane: ControlPlane, pods: Pods, _: int
) -> None:
    with served.priority_classes(control_plane, {"served": 7}):
        assert pods.create("p", priorityClassName="served")["spec"]["priority"] == 7


@pytest.mark.parametrize("_", TIMES)
def test_rights_may_be_used_at_once(control_plane: ControlPlane, namespace: str, _: int) -> None:
    user = service_account(namespace, f"reader-{next(_numbers)}")
    _, _, account = user.rpartition(":")
    body = {
        "kind": "ClusterRoleBinding", "metadata": {"name": account},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin",
        },
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
    }  # fmt: skip
    with control_plane.connect(user) as reader:
        path = served.create(control_plane, body)
        served.wait_allowed(control_plane, user, "list", "pods")
        assert reader.api("GET", "/api/v1/pods?limit=1")[0] == 200
    control_plane.api("DELETE", path)


@pytest.fixture
def refuse(control_plane: ControlPlane, namespace: str) -> Iterator[Callable[[], Any]]:
    """A policy that refuses every ConfigMap of the namespace."""
    rule = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["configmaps"],
    }  # fmt: skip
    kind, meta = "ValidatingAdmissionPolicy", {"metadata": {"name": namespace}}
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    spec = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": here},
        "validations": [{"expression": "false"}],
    }
    scope = {"policyName": namespace, "validationActions": ["Deny"]}
    objects = (
        {"kind": kind, **meta, "spec": spec},
        {"kind": f"{kind}Binding", **meta, "spec": scope},
    )

    def refused() -> bool:
        path = f"/api/v1/namespaces/{namespace}/configmaps?dryRun=All"
        return control_plane.api("POST", path, {"metadata": {"name": "c"}})[0] == 422

    with served.policy(control_plane, objects, refused):
        yield refused
    assert not refused()


@pytest.mark.parametrize("_", TIMES)
def test_a_policy_acts_at_once_and_not_a_moment_longer(refuse: Callable[[], bool], _: int) -> None:
    assert refuse()


def test_a_namespace_that_was_removed_may_be_made_and_used_again(
    control_plane: ControlPlane,
) -> None:
    path = "/api/v1/namespaces/back-again"
    for _ in TIMES:
        body = {"metadata": {"name": "back-again"}}
        assert control_plane.api("POST", "/api/v1/namespaces", body)[0] == 201
        assert (
            control_plane.api("POST", f"{path}/configmaps", {"metadata": {"name": "c"}})[0] == 201
        )
        served.remove_namespace(control_plane, "back-again")
