"""Policies of the API server that deny the bind of one pod in a namespace, or of all of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from fairlead.sim.controlplane import ControlPlane, served
from fairleads import Pods, eventually

_NAME = "no-bind"
_SAYS = "not this one"
_MERGE = "application/merge-patch+json"
#: The label of a namespace that names the pod.
_LABEL = "deny"
_DENIED = (
    f"has(namespaceObject.metadata.labels.{_LABEL}) && "
    f"namespaceObject.metadata.labels.{_LABEL} == object.metadata.name"
)


class BindDenials:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["pods/binding"]}  # fmt: skip
        validation = {"expression": f"!({_DENIED})", "message": _SAYS}
        policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
        scope = {"policyName": _NAME, "validationActions": ["Deny"]}
        kind = "ValidatingAdmissionPolicy"  # that it is enforced shows with the first denial
        for name, spec in ((kind, policy), (f"{kind}Binding", scope)):
            body = {"kind": name, "metadata": {"name": _NAME}, "spec": spec}
            status, said = plane.api("POST", served.COLLECTIONS[name], body)
            assert status in (201, 409), said  # another test of this server may have made it

    def deny(self, namespace: str, pod: str) -> None:
        self._say(namespace, pod)
        eventually(lambda: self._is_denied(namespace, pod), what="binds are denied")

    def allow(self, namespace: str, pod: str) -> None:
        self._say(namespace, None)
        eventually(lambda: not self._is_denied(namespace, pod), what="binds are allowed")

    def _say(self, namespace: str, pod: str | None) -> None:
        patch = {"metadata": {"labels": {_LABEL: pod}}}
        path = f"/api/v1/namespaces/{namespace}"
        assert self._plane.api("PATCH", path, patch, content_type=_MERGE)[0] == 200

    def _is_denied(self, namespace: str, pod: str) -> bool:
        body = {"metadata": {"name": pod}, "target": {"name": "x"}}
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/binding?dryRun=All"
        return _SAYS in str(self._plane.api("POST", path, body)[1].get("message", ""))


@contextmanager
def no_binds(pods: Pods) -> Iterator[None]:
    """A third party denies every bind in their namespace, for the time of a block."""
    rule = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["pods/binding"],
    }  # fmt: skip
    name, kind = f"no-binds-in-{pods.namespace}", "ValidatingAdmissionPolicy"
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "not today"}],
    }
    there = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": pods.namespace}}}
    scope = {"policyName": name, "validationActions": ["Deny"], "matchResources": there}
    objects = [
        {"kind": each, "metadata": {"name": name}, "spec": spec}
        for each, spec in ((kind, policy), (f"{kind}Binding", scope))
    ]
    pods.create("probe", scheduler="nobody")
    with served.policy(pods.plane, objects, lambda: _is_denied(pods, "probe")):
        yield


def _is_denied(pods: Pods, name: str) -> bool:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "a"}}
    path = f"{pods.path}/{name}/binding?dryRun=All"
    return pods.plane.api("POST", path, body)[0] in (403, 422)
