"""A cluster with a real node, for the tests of this folder: they run in `make test-node` alone."""

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import RealCluster
from fairleads import eventually
from installing import Manifests
from machine import INSIDE
from workloads import Workloads, inventory

_numbers = itertools.count()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Outside the namespaces of `make test-node` these tests are not there.

    Those that bring a Fairlead of their own come first: installing takes longer than most tests,
    and for five minutes a kubelet shows the GPUs of a device plugin that has gone.
    """
    if INSIDE in os.environ:
        items.sort(key=lambda item: "not_installed" not in getattr(item, "fixturenames", ()))
        return
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    items[:] = [item for item in items if item not in here]
    config.hook.pytest_deselected(items=here)


@pytest.fixture(scope="session")
def cluster() -> Iterator[RealCluster]:
    """etcd, kube-apiserver, kube-scheduler, kube-controller-manager, containerd and a kubelet."""
    with RealCluster.start() as started:
        yield started


@pytest.fixture
def namespace(cluster: RealCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own, with its default ServiceAccount."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))
    name = f"{words[:40].strip('-')}-{next(_numbers)}"
    path = "/api/v1/namespaces"
    status, answer = cluster.plane.api("POST", path, {"metadata": {"name": name}})
    assert status == 201, answer
    account = f"{path}/{name}/serviceaccounts/default"
    eventually(lambda: cluster.plane.api("GET", account)[0] == 200, what="a ServiceAccount")
    yield name
    cluster.plane.api("DELETE", f"{path}/{name}")


@pytest.fixture
def work(cluster: RealCluster, namespace: str) -> Iterator[Workloads]:
    """Pods in a namespace of the test's own; they are gone from the node after the test."""
    pods = Workloads(cluster.plane, namespace)
    yield pods
    pods.delete_all()


@pytest.fixture(scope="session")
def manifests(cluster: RealCluster) -> Manifests:
    """deploy/fairlead.yaml, installed once for all tests that use it; it ends with the cluster."""
    return Manifests(cluster)


@pytest.fixture
def installed(manifests: Manifests) -> None:
    """deploy/fairlead.yaml, as it is."""
    manifests.install()


@pytest.fixture(scope="session")
def not_installed(manifests: Manifests) -> None:
    """No Fairlead but the one that the test brings. These tests come first."""
    manifests.remove()


@pytest.fixture
def two_gpus(cluster: RealCluster) -> Iterator[list[str]]:
    """The node lists two GPUs, of which it gives shares."""
    uuids = ["GPU-a0", "GPU-a1"]
    cluster.annotate_node(inventory(*uuids))
    yield uuids
    cluster.annotate_node(dict.fromkeys(inventory()))
