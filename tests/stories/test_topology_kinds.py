"""Topology of KAI and HyperNode of Volcano on a real API server, installed while we run."""

from collections.abc import Iterator
from typing import Any

import pytest

import gang_crds
from fairlead.kube.gangs.topology_objects import KINDS
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods, Running, eventually

RACK = "example.com/rack"


@pytest.fixture
def nodes(create_nodes: Any) -> None:
    """Two racks with two nodes of four GPUs each."""
    for rack in "ab":
        names = [f"rack-{rack}-{number}" for number in range(2)]
        create_nodes(names, allocatable={"nvidia.com/gpu": "4"}, labels={RACK: rack})


@pytest.fixture(params=["kai", "volcano"])
def dialect(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    name = str(request.param)
    gang_crds.install(control_plane, name)
    yield name
    gang_crds.uninstall(control_plane, name)
    gang_crds.uninstall_kind(control_plane, KINDS[name])


def describe(plane: ControlPlane, dialect: str) -> None:
    """Two domains, one for each rack."""
    if dialect == "kai":
        levels = {"levels": [{"nodeLabel": RACK}]}
        gang_crds.create_cluster_object(plane, KINDS[dialect], "cluster", levels)
        return
    for rack in "ab":
        member = {"type": "Node", "selector": {"regexMatch": {"pattern": f"^rack-{rack}-[0-9]$"}}}
        spec = {"tier": 1, "members": [member]}
        gang_crds.create_cluster_object(plane, KINDS[dialect], f"rack-{rack}", spec)


SPECS = {
    "kai": {
        "minMember": 6,
        "topologyConstraint": {"topology": "cluster", "requiredTopologyLevel": RACK},
    },
    "volcano": {
        "minMember": 6,
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    },
}
GROUPS = {"kai": "pod-group-name", "volcano": "scheduling.k8s.io/group-name"}
WAITING = {"kai": "the Topology cluster of kai", "volcano": "no node has the label"}


@pytest.mark.usefixtures("nodes")
def test_a_gang_waits_for_the_description_and_is_placed_by_it(
    control_plane: ControlPlane, pods: Pods, running: Running, dialect: str
) -> None:
    gang_crds.create(control_plane, dialect, pods.namespace, "train", SPECS[dialect])
    names = [f"train-{number}" for number in range(6)]
    for name in names:
        pods.create(name, gpus=1, metadata={"annotations": {GROUPS[dialect]: "train"}})
    waiting = WAITING[dialect]
    eventually(lambda: waiting in pods.condition("train-0").get("message", ""), what=waiting)
    gang_crds.install_kind(control_plane, KINDS[dialect], "Cluster")
    describe(control_plane, dialect)
    pods.wait_bound(*names)
    assert len({pods.node(name).rpartition("-")[0] for name in names}) == 1
