"""Zones of volumes, as a table; what else volumes are refused for is in the oracle's scenes."""

import pytest

from builders import a_node, a_pod, a_request, selects
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.volume_outlook import MOST_WAITING
from fairlead.model.behaviour import KUBERNETES_1_37
from fairlead.model.pods import NodeTerm
from fairlead.model.selectors import Requirement
from fairlead.model.storage import (
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeClaim,
)
from fairlead.model.volumes import CsiVolume, Disk, PodVolumes, VolumeClaimUse
from fairlead.plugins.node_volume_limits import NodeVolumeLimits
from fairlead.plugins.shapes import ShapePoint
from fairlead.plugins.volume_binding import VolumeBinding
from fairlead.plugins.volume_restrictions import VolumeRestrictions
from fairlead.plugins.volume_zone import VolumeZone

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


@pytest.mark.parametrize(
    ("of_volume", "of_node", "allowed"),
    [
        pytest.param({}, {ZONE: "a"}, True, id="a volume that names no zone"),
        pytest.param({ZONE: "a"}, {ZONE: "a"}, True, id="the same zone"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, False, id="another zone"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, True, id="one of several zones"),
        pytest.param({ZONE: "a"}, {}, True, id="a node that is nowhere"),
        pytest.param({ZONE: "a"}, {REGION: "r"}, False, id="a node with a region and no zone"),
        pytest.param({OLD_ZONE: "a"}, {ZONE: "a"}, True, id="an old label on the volume"),
        pytest.param({ZONE: "a"}, {OLD_ZONE: "a"}, False, id="an old label on the node is another"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "q"}, False, id="both count"),
        pytest.param({ZONE: "a____b"}, {ZONE: "z"}, True, id="a list with a hole is no list"),
    ],
)
def test_zones(of_volume: dict[str, str], of_node: dict[str, str], allowed: bool) -> None:
    cluster = Cluster()
    cluster.put_node(a_node(labels=of_node))
    cluster.put_storage(VolumeClaim("default", "data", volume="v", bind_completed=True))
    cluster.put_storage(Volume("v", labels=of_volume))
    request = a_request(volumes=PodVolumes((VolumeClaimUse("default/data"),)))

    assert VolumeZone().allows(request, cluster.nodes).tolist() == [allowed]


@pytest.mark.parametrize(
    ("there", "asked", "allowed"),
    [
        pytest.param(Disk("d", True), Disk("d", True), True, id="both read"),
        pytest.param(Disk("d"), Disk("d", True), False, id="one writes"),
        pytest.param(Disk("d", True), Disk("d"), False, id="the other writes"),
        pytest.param(Disk("d"), Disk("e"), True, id="another disk"),
    ],
)
def test_disks(there: Disk, asked: Disk, allowed: bool) -> None:
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.put_node(a_node(name))
    user = a_pod("user", node="n1", volumes=PodVolumes(disks=(there,)))
    cluster.confirm(user)
    request = a_request(volumes=PodVolumes(disks=(asked,)))

    assert VolumeRestrictions().allows(request, cluster.nodes).tolist() == [allowed, True]
    cluster.remove(user.uid)
    assert VolumeRestrictions().allows(request, cluster.nodes).all()


def test_from_1_37_on_a_driver_must_be_installed_if_it_says_so() -> None:
    cluster = Cluster()
    for name in ("has", "lacks"):
        cluster.put_node(a_node(name))
    cluster.put_storage(CsiDriver("csi", must_be_installed=True))
    cluster.put_storage(CsiNode("has", drivers=("csi",)))
    cluster.put_storage(VolumeClaim("default", "data", volume="v", bind_completed=True))
    cluster.put_storage(Volume("v", csi=CsiVolume("csi", "h")))
    request = a_request(volumes=PodVolumes((VolumeClaimUse("default/data"),)))

    assert NodeVolumeLimits().allows(request, cluster.nodes).tolist() == [True, True]
    cluster.behaviour = KUBERNETES_1_37
    strict = NodeVolumeLimits()
    assert strict.allows(request, cluster.nodes).tolist() == [True, False]
    (reason, _) = strict.reasons(request, cluster.nodes)
    assert reason.text == "csi CSI driver is not installed on the node"
    assert reason.where.tolist() == reason.resolvable.tolist() == [False, True]


def with_storages() -> Cluster:
    """Nodes with more and less room for a claim of 10 bytes."""
    cluster = Cluster()
    for name in ("roomy", "tight", "bound", "unknown"):
        cluster.put_node(a_node(name, labels={"host": name}))
    cluster.put_storage(StorageClass("s", waits=True, provisioner="csi"))
    cluster.put_storage(CsiDriver("csi", tracks_capacity=True))
    for name, capacity, largest in (
        ("roomy", 100, None),
        ("tight", 30, None),
        ("unknown", None, 99),
    ):
        topology = selects(host=name)
        cluster.put_storage(
            StorageCapacity("d", name, storage_class="s", topology=topology,
                            capacity_bytes=capacity, largest_bytes=largest)
        )  # fmt: skip
    tied = (NodeTerm((Requirement("host", "In", ("bound",)),)),)
    cluster.put_storage(
        Volume("v", storage_class="s", capacity_bytes=40, phase="Available", node_terms=tied)
    )
    cluster.put_storage(VolumeClaim("default", "data", storage_class="s", size_bytes=10))
    return cluster


def test_from_1_37_on_the_emptiest_storage_is_liked_most() -> None:
    cluster = with_storages()
    request = a_request(volumes=PodVolumes((VolumeClaimUse("default/data"),)))
    rule = VolumeBinding()

    assert not rule.applies_as_score(request, cluster.nodes)
    assert rule.rank(request, cluster.nodes, cluster.nodes.all()).tolist() == [0, 0, 0, 0]
    cluster.behaviour = KUBERNETES_1_37
    assert rule.applies_as_score(request, cluster.nodes)
    assert not rule.applies_as_score(a_request(), cluster.nodes)
    # Free afterwards: 90 of 100, 20 of 30 (66 %, 33 taken), 30 of 40, and no number at all.
    ranked = rule.rank(request, cluster.nodes, cluster.nodes.all())
    assert ranked.tolist() == [90, 67, 75, 0]


def test_the_storage_that_becomes_as_full_as_wanted_is_liked_most() -> None:
    cluster = with_storages()
    cluster.behaviour = KUBERNETES_1_37
    request = a_request(volumes=PodVolumes((VolumeClaimUse("default/data"),)))
    rule = VolumeBinding((ShapePoint(0, 0), ShapePoint(30, 10), ShapePoint(100, 0)))

    # Taken: 10 of 100, 10 of 30 (33 %), 10 of 40 (25 %), and no number at all.
    ranked = rule.rank(request, cluster.nodes, cluster.nodes.all())
    assert ranked.tolist() == [33, 96, 83, 0]


def test_a_shape_without_corners_is_none() -> None:
    with pytest.raises(ValueError, match="at least one"):
        VolumeBinding(())


def test_a_pod_for_which_too_many_claims_wait_is_told_so() -> None:
    cluster = Cluster()
    cluster.put_node(a_node())
    cluster.put_storage(StorageClass("late", provisioner="example.com", waits=True))
    uses = []
    for number in range(MOST_WAITING + 1):
        cluster.put_storage(VolumeClaim("default", f"c{number}", storage_class="late"))
        uses.append(VolumeClaimUse(f"default/c{number}"))
    rule = VolumeBinding()
    enough = a_request(volumes=PodVolumes(tuple(uses[:-1])))
    assert rule.pre_filter(enough, cluster.nodes) == ""
    assert rule.allows(enough, cluster.nodes).all()
    request = a_request(volumes=PodVolumes(tuple(uses)))
    assert rule.pre_filter(request, cluster.nodes) == (
        f"{MOST_WAITING + 1} claims wait for the pod; Fairlead binds {MOST_WAITING} for one"
    )
    assert not rule.allows(request, cluster.nodes).any()
