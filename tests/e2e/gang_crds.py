"""Definitions of the objects of gangs, no more of them than the tests need.

They accept nearly everything, so that a test can also write what the real definitions refuse.
"""

from typing import Any

import definitions
from fairlead.kube.gangs.api import GangKind
from fairlead.kube.gangs.registry import DIALECTS
from fairlead.sim.controlplane import ControlPlane

Json = dict[str, Any]


def kind_of(dialect: str) -> GangKind:
    kind = next(each.kind for each in DIALECTS if each.name == dialect)
    assert kind is not None
    return kind


def definition(kind: GangKind, scope: str = "Namespaced") -> Json:
    names = {"plural": kind.plural, "kind": kind.kind}
    more = {"subresources": {"status": {}}} if kind.has_status_subresource else {}
    return definitions.definition(kind.group, kind.versions[0], names, scope, **more)


def install(plane: ControlPlane, dialect: str) -> None:
    """Returns when objects of the kind can be created."""
    install_kind(plane, kind_of(dialect))


def uninstall(plane: ControlPlane, dialect: str) -> None:
    """Returns when the kind is not served any more."""
    uninstall_kind(plane, kind_of(dialect))


def install_kind(plane: ControlPlane, kind: GangKind, scope: str = "Namespaced") -> None:
    """Returns when objects of the kind can be created."""
    definitions.install(plane, definition(kind, scope))


def uninstall_kind(plane: ControlPlane, kind: GangKind) -> None:
    """Returns when the kind is not served any more."""
    definitions.uninstall(plane, definition(kind))


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
