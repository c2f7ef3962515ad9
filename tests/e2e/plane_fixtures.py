"""What a test has of its own on a shared control plane: a namespace, nodes, claims, a scheduler.

All go after the test. They follow `control_plane`, whatever a folder or a module says that it is.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dra_objects import DraObjects
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, Running, fairlead

__all__ = ["claims_controller", "create_nodes", "dra", "namespace", "pods", "running"]

_numbers = itertools.count()


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh namespace on the shared control plane; it goes, with all in it, after the test."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))
    name = f"{words[:40].strip('-')}-{next(_numbers)}"
    status, answer = control_plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert status == 201, answer
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Pods:
    """Pods in the fresh namespace."""
    return Pods(control_plane, namespace)


@pytest.fixture(scope="module")
def claims_controller(control_plane: ControlPlane) -> Iterator[None]:
    """It makes claims from templates, and frees those whose pods are gone."""
    with control_plane.start_controller_manager(["resourceclaim-controller"]):
        yield


@pytest.fixture
def dra(
    control_plane: ControlPlane, namespace: str, claims_controller: None
) -> Iterator[DraObjects]:
    """Slices, classes and claims; they go after the test."""
    made = DraObjects(control_plane, namespace)
    yield made
    made.remove_all()


@pytest.fixture
def running(control_plane: ControlPlane) -> Iterator[Running]:
    """`fairlead run` with an administrator's rights, for the time of one test."""
    with fairlead(control_plane, kubeconfig=control_plane.kubeconfig_for()) as process:
        yield process


@pytest.fixture
def create_nodes(control_plane: ControlPlane) -> Iterator[Callable[..., list[str]]]:
    """`ControlPlane.create_nodes` on the shared control plane; the nodes go after the test."""
    created: list[str] = []

    def create(*arguments: Any, **options: Any) -> list[str]:
        names = control_plane.create_nodes(*arguments, **options)
        created.extend(names)
        return names

    yield create
    for name in created:
        control_plane.api("DELETE", f"/api/v1/nodes/{name}")
