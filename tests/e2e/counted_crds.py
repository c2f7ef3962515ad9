"""The kind of counted resources on a control plane, as it is shipped."""

from collections.abc import Iterator
from contextlib import contextmanager

import manifests
from fairlead.sim.controlplane import ControlPlane, ControlPlaneError, served

PATH = "/apis/fairlead.dev/v1alpha1/countedresources"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAME = "countedresources.fairlead.dev"


@contextmanager
def counted_kind(plane: ControlPlane) -> Iterator[None]:
    """Served from the beginning to the end."""
    kinds = manifests.documents(manifests.CRDS)
    kind = next(each for each in kinds if each["metadata"]["name"] == _NAME)
    assert plane.api("POST", _CRDS, kind)[0] in (201, 409)
    served.until(lambda: _is_served(plane), "counted resources are served")
    yield
    assert plane.api("DELETE", f"{_CRDS}/{_NAME}")[0] == 200
    served.until(lambda: not _is_served(plane), "counted resources are not served")


def _is_served(plane: ControlPlane) -> bool:
    try:
        return plane.api("GET", PATH)[0] == 200
    except ControlPlaneError:  # a group that is gone answers in plain text
        return False
