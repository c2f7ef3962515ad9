"""Objects that the API server itself acts on, created so that it acts on them.

Admission and RBAC decide by caches that follow a watch. For some time after a write was answered
they decide by what was there before. So what relies on such an object has to wait until the
server shows that it knows it, and after a removal until it shows that it has forgotten it.

No waiting is needed where a cache that misses something reads it from the store: namespaces,
RuntimeClasses and ServiceAccounts that never existed before.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from fairlead.sim.controlplane.client import Answer
from fairlead.sim.controlplane.process import ControlPlaneError

Object = dict[str, Any]

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
#: Where objects that belong to no namespace are created, by kind.
COLLECTIONS = {
    "ValidatingAdmissionPolicy": f"{_ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_ADMISSION}/validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": f"{_ADMISSION}/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": f"{_ADMISSION}/mutatingadmissionpolicybindings",
    "MutatingWebhookConfiguration": f"{_ADMISSION}/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": f"{_ADMISSION}/validatingwebhookconfigurations",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
}
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
#: An informer of the API server that met an error waits up to a minute before it tries again.
_TIMEOUT_S, _PAUSE_S = 150.0, 0.05


class ApiClient(Protocol):
    """What is needed of a control plane, or of a client."""

    def api(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer: ...


class NamespaceApi(ApiClient, Protocol):
    """A control plane that can empty a namespace."""

    def delete_namespace(self, name: str) -> None: ...


def until(holds: Callable[[], bool], what: str) -> None:
    """Returns when the API server shows that it knows of a change."""
    give_up_at = time.monotonic() + _TIMEOUT_S
    while not holds():
        if time.monotonic() > give_up_at:
            raise ControlPlaneError(f"Not within {_TIMEOUT_S:.0f} s: {what}.")
        time.sleep(_PAUSE_S)


def create(plane: ApiClient, body: Mapping[str, Any], path: str = "") -> str:
    """Create an object, without waiting; its path. `path` is its collection, if not by kind."""
    collection = path or COLLECTIONS[body["kind"]]
    status, answer = plane.api("POST", collection, body)
    if status != 201:
        name = body["metadata"]["name"]
        raise ControlPlaneError(f"{collection}/{name} is not created: {answer.get('message')}")
    return f"{collection}/{answer['metadata']['name']}"


# Priority admission


def priority_class(plane: ApiClient, name: str, value: int, **more: Any) -> None:
    """A PriorityClass that pods may name from now on; it may be there already."""
    body = {"metadata": {"name": name}, "value": value, **more}
    if plane.api("GET", f"{PRIORITY_CLASSES}/{name}")[0] != 200:
        create(plane, body, PRIORITY_CLASSES)
    until(lambda: not _unknown(plane, name), f"pods may have the PriorityClass {name}")


@contextmanager
def priority_classes(plane: ApiClient, values: Mapping[str, int]) -> Iterator[None]:
    """PriorityClasses by name, for the time of a block."""
    for name, value in values.items():
        priority_class(plane, name, value)
    yield
    for name in values:
        plane.api("DELETE", f"{PRIORITY_CLASSES}/{name}")
    until(
        lambda: all(_unknown(plane, name) for name in values),
        f"the PriorityClasses {', '.join(values)} are forgotten",
    )


def _unknown(plane: ApiClient, name: str) -> bool:
    """Whether admission refuses a pod because it has not seen this class."""
    container = {"name": "main", "image": "x"}
    spec = {"priorityClassName": name, "schedulerName": "none", "containers": [container]}
    body = {"metadata": {"name": "priority-probe"}, "spec": spec}
    _, answer = plane.api("POST", "/api/v1/namespaces/default/pods?dryRun=All", body)
    return f"no PriorityClass with name {name} was found" in answer.get("message", "")


# RBAC


def allowed(
    plane: ApiClient, user: str, verb: str, resource: str, groups: Sequence[str] = (), **more: str
) -> bool:
    """Whether RBAC lets the user do this now; `more` is a group, namespace, name, subresource."""
    asked = {"verb": verb, "resource": resource, **more}
    spec = {"user": user, "groups": list(groups), "resourceAttributes": asked}
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    _, answer = plane.api("POST", _REVIEWS, {**kind, "spec": spec})
    return bool(answer["status"]["allowed"])


def wait_allowed(
    plane: ApiClient, user: str, verb: str, resource: str, groups: Sequence[str] = (), **more: str
) -> None:
    """Returns when RBAC has seen the roles and bindings that let the user do this."""
    until(
        lambda: allowed(plane, user, verb, resource, groups, **more),
        f"{user or groups} may {verb} {resource}",
    )


# Policies and webhooks


@contextmanager
def policy(
    plane: ApiClient, objects: Sequence[Mapping[str, Any]], acts: Callable[[], bool]
) -> Iterator[None]:
    """A policy and its bindings, in force for the time of a block; `acts` sees its effect."""
    names = ", ".join(sorted({str(one["metadata"]["name"]) for one in objects}))
    paths = [create(plane, one) for one in objects]
    try:
        until(acts, f"{names} is in force")
        yield
    finally:
        for path in reversed(paths):
            plane.api("DELETE", path)
        until(lambda: not acts(), f"{names} is forgotten")


# Namespaces


def remove_namespace(plane: NamespaceApi, name: str) -> None:
    """Delete a namespace; returns when another of that name may be created and used.

    As long as the API server remembers that it was going, nothing can be created in a new one.
    """
    plane.delete_namespace(name)
    path = f"/api/v1/namespaces/{name}/configmaps?dryRun=All"
    probe = {"metadata": {"name": "namespace-probe"}}
    until(lambda: plane.api("POST", path, probe)[0] != 403, f"namespace {name} is forgotten")
