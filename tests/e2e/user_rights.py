"""A user of the API server with few rights, for the time of a test."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairlead.sim.controlplane import ControlPlane, served

_GROUP = "rbac.authorization.k8s.io"


@contextmanager
def granted(plane: ControlPlane, who: str, rules: Sequence[dict[str, Any]]) -> Iterator[Path]:
    """A kubeconfig of a user with these rights and no others; one is to watch pods."""
    role = {"kind": "ClusterRole", "metadata": {"name": who}, "rules": list(rules)}
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": who},
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": who},
        "subjects": [{"kind": "User", "name": who, "apiGroup": _GROUP}],
    }
    paths = [served.create(plane, each) for each in (role, binding)]
    served.wait_allowed(plane, who, "watch", "pods")
    yield plane.kubeconfig_for(who)
    for path in reversed(paths):
        plane.api("DELETE", path)
    served.until(
        lambda: not served.allowed(plane, who, "watch", "pods"), "the rights are forgotten"
    )
