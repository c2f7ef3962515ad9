"""Kinds of queues on a control plane: our own as it is shipped, and those of others."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import definitions
from fairlead.kube.queues.api import QueueKind
from fairlead.kube.queues.registry import DIALECTS
from fairlead.sim.controlplane import ControlPlane

Json = dict[str, Any]
QUEUES = "/apis/fairlead.dev/v1alpha1/queues"


def install(plane: ControlPlane) -> None:
    """Returns when queues can be created."""
    definitions.install(plane, definitions.ours("queues"))


def uninstall(plane: ControlPlane) -> None:
    """Returns when the kind is not served any more."""
    definitions.uninstall(plane, definitions.ours("queues"))


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


# -- kinds of others -------------------------------------------------------------------------------


def kind_of_queues(dialect: str) -> QueueKind:
    kind = next(each.kind for each in DIALECTS if each.name == dialect)
    assert kind is not None
    return kind


def foreign(plane: ControlPlane, dialect: str) -> AbstractContextManager[None]:
    """A definition that accepts nearly everything, so that a test can write what others refuse."""
    kind = kind_of_queues(dialect)
    names = {"plural": kind.plural, "kind": kind.kind}
    scope = "Cluster" if kind.kind == "Queue" else "Namespaced"
    found = definitions.definition(
        kind.group, kind.versions[0], names, scope, subresources={"status": {}}
    )
    return definitions.installed(plane, found)


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
