"""Queues of absurd depth and length on the real API server: one sentence, and nothing stops."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

import queue_crds
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, eventually, fairlead
from test_queue_scheduler import message, named

GPU = "nvidia.com/gpu"
DEEP = 1000


@pytest.fixture
def plane(control_plane: ControlPlane, create_nodes: Any) -> Iterator[ControlPlane]:
    create_nodes(1, prefix="sizes-", allocatable={GPU: "8"})
    with queue_crds.installed(control_plane):
        yield control_plane


def test_a_chain_of_a_thousand_queues(plane: ControlPlane, namespace: str) -> None:
    """Beyond 32 levels a queue is invalid; the others go on."""
    for number in range(DEEP):
        parent = {"parent": f"chain-{number - 1}"} if number else {}
        assert queue_crds.create(plane, f"chain-{number}", **parent)[0] == 201
    pods = Pods(plane, namespace)
    with fairlead(plane, kubeconfig=plane.kubeconfig_for()):
        pods.create("deep", 1, metadata=named(f"chain-{DEEP - 1}"))
        sentence = f"queue chain-{DEEP - 1} has {DEEP - 1} levels above it; at most 31 are allowed"
        eventually(lambda: message(pods, "deep") == sentence)
        pods.create("top", 1, metadata=named("chain-3"))
        pods.wait_bound("top")
        # The chain comes apart.
        path = f"{queue_crds.QUEUES}/chain-10"
        assert plane.api("DELETE", path)[0] == 200
        broken = "queue chain-11 names the parent chain-10, which does not exist"
        eventually(lambda: _answer(pods, "middle", "chain-12") == broken)
        pods.create("more", 1, metadata=named("chain-5"))
        pods.wait_bound("more")


def _answer(pods: Pods, name: str, queue: str) -> str:
    """What a new pod is told. Bound, it came before the change of queues was seen, and goes."""
    pods.create(name, 1, metadata=named(queue))
    said = eventually(lambda: pods.node(name) or message(pods, name))
    pods.delete(name)
    return str(said)


def test_queues_of_a_megabyte(plane: ControlPlane, namespace: str) -> None:
    """As long as the API server accepts: thousands of namespaces, resources and annotations."""
    many = [f"namespace-{number:06d}" for number in range(40_000)]
    status, answer = queue_crds.create(plane, "namespaces", namespaces=many)
    resources = {f"example.com/r{number}": "1" for number in range(20_000)}
    other, _ = queue_crds.create(plane, "resources", limit={**resources, GPU: 2})
    assert len(json.dumps(many)) > 700_000
    pods = Pods(plane, namespace)
    assert queue_crds.create(plane, "plain", limit={GPU: 2})[0] == 201
    with fairlead(plane, kubeconfig=plane.kubeconfig_for()):
        pods.create("plain", 1, metadata=named("plain"))
        pods.wait_bound("plain")
        for name, created in (("namespaces", status), ("resources", other)):
            if created != 201:
                assert created == 422, answer  # the schema has a bound, and says so
                continue
            pods.create(name, 1, metadata=named(name))
            said = eventually(lambda name=name: message(pods, name))
            assert len(said) < 1000, said
