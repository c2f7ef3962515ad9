"""A cluster with controllers of other projects: these tests run in `make test-peers` alone."""

import functools
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.sim.controlplane import ControlPlane
from peer_controllers import PEERS, Peers

_numbers = itertools.count()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Outside of `make test-peers` these tests are not there."""
    if PEERS in os.environ:
        return
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    items[:] = [item for item in items if item not in here]
    config.hook.pytest_deselected(items=here)


@pytest.fixture(scope="session")
def control_plane(
    assets: Path, kwok_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """kube-apiserver, etcd, kube-controller-manager and KWOK, shared by the tests here."""
    start = functools.partial(ControlPlane.start, assets, tmp_path_factory.mktemp("peers"))
    with start(disable_admission=()) as plane:
        plane.start_controller_manager()
        plane.start_kwok()
        yield plane


@pytest.fixture(scope="session")
def peers(control_plane: ControlPlane) -> Iterator[Peers]:
    """Starts controllers beside the control plane; they end with the tests."""
    with Peers(control_plane) as started:
        yield started


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    name = f"peers-{next(_numbers)}"
    status, answer = control_plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert status == 201, answer
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture(autouse=True)
def nodes(control_plane: ControlPlane) -> Iterator[list[str]]:
    """Four nodes with eight GPUs each, two in each rack."""
    names = [
        name
        for rack in ("a", "b")
        for name in control_plane.create_nodes(
            2,
            prefix=f"rack-{rack}-",
            allocatable={"nvidia.com/gpu": "8"},
            labels={"example.com/rack": rack},
        )
    ]
    yield names
    for name in names:
        control_plane.api("DELETE", f"/api/v1/nodes/{name}")
