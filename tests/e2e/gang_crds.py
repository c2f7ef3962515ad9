"""Definitions of the objects of gangs, no more of them than the tests need.

They accept nearly everything, so that a test can also write what the real definitions refuse.
"""

from typing import Any

from fairlead.kube.gangs.api import GangKind
from fairlead.kube.gangs.registry import DIALECTS
from fairlead.sim.controlplane import ControlPlane, ControlPlaneError
from fairleads import eventually

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
    eventually(lambda: _is_served(plane, kind), what=f"{kind.full_name} is served")


def uninstall_kind(plane: ControlPlane, kind: GangKind) -> None:
    """Returns when the kind is not served any more."""
    status, answer = plane.api("DELETE", f"{_CRDS}/{kind.full_name}")
    assert status == 200, answer
    eventually(lambda: _is_gone(plane, kind), what=f"{kind.full_name} is gone")


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


def _is_served(plane: ControlPlane, kind: GangKind) -> bool:
    """Also to clients that ask which kinds there are: these are told a moment later."""
    groups = plane.api("GET", "/apis")[1]["groups"]
    offered = {each["groupVersion"] for group in groups for each in group["versions"]}
    is_offered = f"{kind.group}/{kind.versions[0]}" in offered
    return is_offered and _is_named(plane, kind) and _listed(plane, kind) == 200


def _is_gone(plane: ControlPlane, kind: GangKind) -> bool:
    return _listed(plane, kind) == 404 and not _is_named(plane, kind)


def _is_named(plane: ControlPlane, kind: GangKind) -> bool:
    """Whether it is among the kinds of its group."""
    found = _asked(plane, f"/apis/{kind.group}/{kind.versions[0]}")[1].get("resources", ())
    return any(each["name"] == kind.plural for each in found)


def _listed(plane: ControlPlane, kind: GangKind) -> int:
    return _asked(plane, kind.path(kind.versions[0]))[0]


def _asked(plane: ControlPlane, path: str) -> tuple[int, Json]:
    try:
        return plane.api("GET", path)
    except ControlPlaneError:  # a group that is gone answers in plain text
        return 404, {}
