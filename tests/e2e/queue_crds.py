"""Our own kind of queues as it is shipped, on a control plane."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import manifests
from fairlead.sim.controlplane import ControlPlane, ControlPlaneError, served

Json = dict[str, Any]
QUEUES = "/apis/fairlead.dev/v1alpha1/queues"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAME = "queues.fairlead.dev"


def install(plane: ControlPlane) -> None:
    """Returns when queues can be created."""
    (kind,) = manifests.documents(manifests.CRDS, "queues")
    status, said = plane.api("POST", _CRDS, kind)
    assert status in (201, 409), said
    served.until(lambda: _is_listed(plane), "queues are served")


def uninstall(plane: ControlPlane) -> None:
    """Returns when the kind is not served any more."""
    status, said = plane.api("DELETE", f"{_CRDS}/{_NAME}")
    assert status == 200, said
    served.until(lambda: not _is_listed(plane), "queues are not served")


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


def _is_listed(plane: ControlPlane) -> bool:
    try:
        return plane.api("GET", QUEUES)[0] == 200
    except ControlPlaneError:  # a group that is gone answers in plain text
        return False
