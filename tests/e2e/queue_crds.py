"""Kinds of queues on a control plane: our own as it is shipped, and those of others."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import manifests
from fairlead.kube.queues.api import QueueKind
from fairlead.kube.queues.registry import DIALECTS
from fairlead.sim.controlplane import ControlPlane, ControlPlaneError, served

Json = dict[str, Any]
QUEUES = "/apis/fairlead.dev/v1alpha1/queues"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAME = "queues.fairlead.dev"
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def install(plane: ControlPlane) -> None:
    """Returns when queues can be created."""
    kinds = manifests.documents(manifests.CRDS, "queues")
    kind = next(each for each in kinds if each["metadata"]["name"] == _NAME)
    status, said = plane.api("POST", _CRDS, kind)
    assert status in (201, 409), said
    served.until(lambda: _is_listed(plane) and is_discovered(plane, QUEUES), "queues are served")


def uninstall(plane: ControlPlane) -> None:
    """Returns when the kind is not served any more."""
    status, said = plane.api("DELETE", f"{_CRDS}/{_NAME}")
    assert status == 200, said
    gone = "queues are not served"
    served.until(lambda: not (_is_listed(plane) or is_discovered(plane, QUEUES)), gone)


@contextmanager
def installed(plane: ControlPlane) -> Iterator[None]:
    install(plane)
    yield
    uninstall(plane)


def create(plane: ControlPlane, name: str, **spec: Any) -> tuple[int, Json]:
    body = {
        "apiVersion": "fairlead.dev/v1alpha1", "kind": "Queue",
        "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip
    return plane.api("POST", QUEUES, body)


def is_discovered(plane: ControlPlane, path: str) -> bool:
    """Whether discovery names the kind of this path; it lags behind what is served.

    kubectl, watches of kinds that come and go, and what empties a namespace read it.
    """
    folder, _, plural = path.rpartition("/")
    try:
        found = plane.api("GET", folder)[1].get("resources", ())
    except ControlPlaneError:  # a group that is gone answers in plain text
        return False
    return any(each["name"] == plural for each in found)


def _is_listed(plane: ControlPlane) -> bool:
    try:
        return plane.api("GET", QUEUES)[0] == 200
    except ControlPlaneError:  # a group that is gone answers in plain text
        return False


# -- kinds of others -------------------------------------------------------------------------------


def kind_of_queues(dialect: str) -> QueueKind:
    kind = next(each.kind for each in DIALECTS if each.name == dialect)
    assert kind is not None
    return kind


@contextmanager
def foreign(plane: ControlPlane, dialect: str) -> Iterator[None]:
    """A definition that accepts nearly everything, so that a test can write what others refuse."""
    kind = kind_of_queues(dialect)
    body = {
        "metadata": {
            "name": kind.full_name,
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": kind.group,
            "scope": "Cluster" if kind.kind == "Queue" else "Namespaced",
            "names": {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind},
            "versions": [
                {
                    "name": kind.versions[0], "served": True, "storage": True,
                    "schema": {"openAPIV3Schema": _ANYTHING}, "subresources": {"status": {}},
                }
            ],
        },
    }  # fmt: skip
    status, said = plane.api("POST", _CRDS, body)
    assert status == 201, said
    path, name = kind.path(kind.versions[0]), kind.full_name
    served.until(
        lambda: _is_served(plane, kind) and is_discovered(plane, path), f"{name} are served"
    )
    yield
    assert plane.api("DELETE", f"{_CRDS}/{name}")[0] == 200
    served.until(
        lambda: not (_is_served(plane, kind) or is_discovered(plane, path)),
        f"{name} are not served",
    )


def create_foreign(plane: ControlPlane, dialect: str, namespace: str, body: Json) -> str:
    """Returns the path of the object."""
    kind = kind_of_queues(dialect)
    version = kind.versions[0]
    within = "" if kind.kind == "Queue" else f"namespaces/{namespace}/"
    path = f"/apis/{kind.group}/{version}/{within}{kind.plural}"
    whole = {"apiVersion": f"{kind.group}/{version}", "kind": kind.kind, **body}
    status, answer = plane.api("POST", path, whole)
    assert status == 201, answer
    return f"{path}/{body['metadata']['name']}"


def _is_served(plane: ControlPlane, kind: QueueKind) -> bool:
    try:
        return plane.api("GET", kind.path(kind.versions[0]))[0] == 200
    except ControlPlaneError:
        return False
