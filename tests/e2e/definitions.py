"""CustomResourceDefinitions on a control plane, for as long as a test needs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import manifests
from fairlead.sim.controlplane import ControlPlane, ControlPlaneError, served

Json = dict[str, Any]
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def ours(plural: str) -> Json:
    """One of our own kinds, as it is shipped."""
    kinds = manifests.documents(manifests.CRDS)
    return next(each for each in kinds if each["metadata"]["name"] == f"{plural}.fairlead.dev")


def definition(
    group: str, version: str, names: Json, scope: str = "Namespaced", spec: Json = ANYTHING,
    **more: Any,
) -> Json:  # fmt: skip
    """One that accepts nearly everything unless `spec` says what; `more` is of its version."""
    properties = {"spec": spec, "status": ANYTHING}
    schema = ANYTHING if spec is ANYTHING else {"type": "object", "properties": properties}
    # A group of *.k8s.io has to name who approved it.
    approved = {"api-approved.kubernetes.io": "unapproved, for tests"}
    one = {"name": version, "served": True, "storage": True,
           "schema": {"openAPIV3Schema": schema}, **more}  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}", "annotations": approved},
        "spec": {"group": group, "scope": scope, "versions": [one],
                 "names": {"singular": names["kind"].lower(), **names}},
    }  # fmt: skip


@contextmanager
def installed(plane: ControlPlane, kind: Json) -> Iterator[None]:
    install(plane, kind)
    yield
    uninstall(plane, kind)


def install(plane: ControlPlane, kind: Json) -> None:
    """Returns when objects of the kind can be created; it may be there already."""
    status, answer = plane.api("POST", _CRDS, kind)
    assert status in (201, 409), answer
    served.until(
        lambda: _is_listed(plane, kind) and _is_named(plane, kind), f"{_name(kind)} are served"
    )


def uninstall(plane: ControlPlane, kind: Json) -> None:
    """Returns when the kind is not served any more."""
    status, answer = plane.api("DELETE", f"{_CRDS}/{_name(kind)}")
    assert status == 200, answer
    served.until(
        lambda: not (_is_listed(plane, kind) or _is_named(plane, kind)),
        f"{_name(kind)} are not served",
    )


def _name(kind: Json) -> str:
    return str(kind["metadata"]["name"])


def _folder(kind: Json) -> str:
    return f"/apis/{kind['spec']['group']}/{kind['spec']['versions'][0]['name']}"


def _is_listed(plane: ControlPlane, kind: Json) -> bool:
    path = f"{_folder(kind)}/{kind['spec']['names']['plural']}"
    return _asked(plane, path)[0] == 200


def _is_named(plane: ControlPlane, kind: Json) -> bool:
    """Whether discovery names it; it lags behind what is served.

    kubectl, watches of kinds that come and go, and what empties a namespace read it.
    """
    groups = _asked(plane, "/apis")[1]["groups"]
    offered = {f"/apis/{each['groupVersion']}" for group in groups for each in group["versions"]}
    found = _asked(plane, _folder(kind))[1].get("resources", ())
    plural = kind["spec"]["names"]["plural"]
    return _folder(kind) in offered and any(each["name"] == plural for each in found)


def _asked(plane: ControlPlane, path: str) -> tuple[int, Json]:
    try:
        return plane.api("GET", path)
    except ControlPlaneError:  # a group that is gone answers in plain text
        return 404, {}
