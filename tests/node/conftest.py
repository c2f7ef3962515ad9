"""A cluster with a real node, for the tests of this folder: they run in `make test-node` alone."""

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import RealCluster
from fairleads import eventually
from machine import INSIDE
from manifests import FAIRLEAD, kubectl
from webhooks import injects
from workloads import Workloads, inventory

_numbers = itertools.count()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Outside the namespaces of `make test-node` these tests are not there."""
    if INSIDE in os.environ:
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


@pytest.fixture(scope="module")
def installed(cluster: RealCluster) -> Iterator[None]:
    """deploy/fairlead.yaml, as it is."""
    kubectl(cluster.plane, f"apply -f {FAIRLEAD}")
    for name in ("fairlead", "fairlead-webhook"):
        eventually(lambda name=name: cluster.available(name), what=f"{name} is available")
    eventually(lambda: injects(cluster.plane, "default"), what="the webhook is asked")
    yield
    kubectl(cluster.plane, f"delete -f {FAIRLEAD}")


@pytest.fixture
def two_gpus(cluster: RealCluster) -> Iterator[list[str]]:
    """The node lists two GPUs, of which it gives shares."""
    uuids = ["GPU-a0", "GPU-a1"]
    cluster.annotate_node(inventory(*uuids))
    yield uuids
    cluster.annotate_node(dict.fromkeys(inventory()))
