"""Definitions of the objects of gangs, no more of them than the tests need.

They accept nearly everything, so that a test can also write what the real definitions refuse.
"""

import time
from typing import Any

from fairlead.kube.gangs.api import GangKind
from fairlead.kube.gangs.registry import DIALECTS
from fairlead.sim.controlplane import ControlPlane, ControlPlaneError
from fairleads import PATIENCE_S

Json = dict[str, Any]
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def kind_of(dialect: str) -> GangKind:
    kind = next(each.kind for each in DIALECTS if each.name == dialect)
    assert kind is not None
    return kind


def definition(kind: GangKind, scope: str = "Namespaced") -> Json:
    names = {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind}
    version = {
        "name": kind.versions[0], "served": True, "storage": True,
        "schema": {"openAPIV3Schema": _ANYTHING},
        **({"subresources": {"status": {}}} if kind.has_status_subresource else {}),
    }  # fmt: skip
    # A group of *.k8s.io has to name who approved it.
    approved = {"api-approved.kubernetes.io": "unapproved, for tests"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.full_name, "annotations": approved},
        "spec": {
            "group": kind.group,
            "scope": scope,
            "names": names,
            "versions": [version],
        },
    }


def install(plane: ControlPlane, dialect: str) -> None:
    """Returns when objects of the kind can be created."""
    install_kind(plane, kind_of(dialect))


def uninstall(plane: ControlPlane, dialect: str) -> None:
    """Returns when the kind is not served any more."""
    uninstall_kind(plane, kind_of(dialect))


def install_kind(plane: ControlPlane, kind: GangKind, scope: str = "Namespaced") -> None:
    """Returns when objects of the kind can be created."""
    status, answer = plane.api("POST", _CRDS, definition(kind, scope))
    assert status == 201, answer
    _until_listed(plane, kind, 200)


def uninstall_kind(plane: ControlPlane, kind: GangKind) -> None:
    """Returns when the kind is not served any more."""
    status, answer = plane.api("DELETE", f"{_CRDS}/{kind.full_name}")
    assert status == 200, answer
    _until_listed(plane, kind, 404)


def create_cluster_object(plane: ControlPlane, kind: GangKind, name: str, spec: Any) -> Json:
    """An object without a namespace."""
    version = kind.versions[0]
    body = {
        "apiVersion": f"{kind.group}/{version}", "kind": kind.kind,
        "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip
    status, answer = plane.api("POST", kind.path(version), body)
    assert status == 201, answer
    return answer


def create(plane: ControlPlane, dialect: str, namespace: str, name: str, spec: Any) -> Json:
    kind = kind_of(dialect)
    version = kind.versions[0]
    body = {
        "apiVersion": f"{kind.group}/{version}", "kind": kind.kind,
        "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip
    path = f"/apis/{kind.group}/{version}/namespaces/{namespace}/{kind.plural}"
    status, answer = plane.api("POST", path, body)
    assert status == 201, answer
    return answer


def _until_listed(plane: ControlPlane, kind: GangKind, wanted: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while _listed(plane, kind) != wanted:
        assert time.monotonic() < until, f"{kind.full_name}: does not answer {wanted}"
        time.sleep(0.05)


def _listed(plane: ControlPlane, kind: GangKind) -> int:
    try:
        return plane.api("GET", kind.path(kind.versions[0]))[0]
    except ControlPlaneError:  # a group that is gone answers in plain text
        return 404
