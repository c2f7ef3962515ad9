"""Storage objects as the API server writes them, and pods' volumes, in the model's words."""

import json
from typing import Any

import pytest

from fairlead.kube.codec import decode_pod
from fairlead.kube.storage_codec import (
    decode_attachment,
    decode_capacity,
    decode_class,
    decode_csi_driver,
    decode_csi_node,
    decode_volume,
    decode_volume_claim,
)
from fairlead.model.errors import QuantityError
from fairlead.model.pods import NodeTerm
from fairlead.model.selectors import LabelSelector, Requirement
from fairlead.model.volumes import CsiVolume, Disk, PodVolumes, VolumeClaimUse

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def encoded(spec: dict[str, Any] | None = None, meta: dict[str, Any] | None = None, **more: Any):
    named = {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "7", **(meta or {})}
    return json.dumps({"metadata": named, **({"spec": spec} if spec else {}), **more}).encode()


def test_a_claim() -> None:
    owner = [{"uid": "a"}, {"uid": "b", "controller": True}]
    notes = {
        "volume.kubernetes.io/selected-node": "n1",
        "pv.kubernetes.io/bind-completed": "yes",
        "volume.beta.kubernetes.io/storage-class": "older",
    }
    claim = decode_volume_claim(
        encoded(
            {
                "accessModes": ["ReadWriteOncePod"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": "v",
                "storageClassName": "newer",
                "volumeMode": "Block",
                "selector": {"matchLabels": {"kind": "fast"}},
            },
            {"annotations": notes, "ownerReferences": owner, "deletionTimestamp": "t"},
            status={"phase": "Lost"},
        )
    )
    assert (claim.key, claim.version, claim.size_bytes) == ("ns/x", "7", 1 << 30)
    assert claim.bound
    assert claim.lost
    assert claim.deleting
    assert (claim.storage_class, claim.selected_node, claim.owner) == ("older", "n1", "b")
    assert claim.selector == LabelSelector((Requirement("kind", "In", ("fast",)),))
    assert decode_volume_claim(encoded({})).size_bytes is None


def test_objects_that_differ_in_their_version_alone_are_the_same_to_us() -> None:
    assert decode_volume_claim(encoded()) == decode_volume_claim(
        encoded(meta={"resourceVersion": "8"})
    )


@pytest.mark.parametrize(
    ("terms", "reads"),
    [
        pytest.param(None, None, id="none: everywhere"),
        pytest.param([], (), id="no terms: nowhere"),
        pytest.param(
            [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}],
            (NodeTerm((Requirement("a", "Exists"),)),),
            id="labels",
        ),
        pytest.param(
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}],
            (),
            id="names match nobody, as in kube-scheduler",
        ),
        pytest.param(
            [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]}],
            (NodeTerm((Requirement("", "DoesNotExist"),)),),
            id="but everybody lacks a name",
        ),
    ],
)
def test_the_node_affinity_of_a_volume(terms: Any, reads: Any) -> None:
    affinity = None if terms is None else {"required": {"nodeSelectorTerms": terms}}
    assert decode_volume(encoded({"nodeAffinity": affinity})).node_terms == reads


def in_zone(key: str) -> dict[str, Any]:
    lines = [
        {"key": key, "operator": "In", "values": ["z1"]},
        {"key": OLD_REGION, "operator": "In", "values": ["r"]},
    ]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": lines}]}}


@pytest.mark.parametrize(
    ("spec", "labels", "reads"),
    [
        pytest.param(
            {"nodeAffinity": in_zone(OLD_ZONE)},
            {},
            [(EBS_ZONE, ("z1",)), ("topology.kubernetes.io/region", ("r",))],
            id="the zone is renamed, and with an old zone the region",
        ),
        pytest.param(
            {"nodeAffinity": in_zone(ZONE)},
            {},
            [(EBS_ZONE, ("z1",)), (OLD_REGION, ("r",))],
            id="with a zone of today the region stays",
        ),
        pytest.param(
            {}, {ZONE: "z2__z1"}, [(EBS_ZONE, ("z1", "z2"))], id="a label becomes affinity"
        ),
        pytest.param({}, {}, None, id="without a zone nothing changes"),
    ],
)
def test_a_volume_that_moved_to_csi(spec: Any, labels: Any, reads: Any) -> None:
    source = {"awsElasticBlockStore": {"volumeID": "aws://z1/vol-1"}}
    volume = decode_volume(encoded({**spec, **source}, {"labels": labels}))
    assert volume.csi == CsiVolume("ebs.csi.aws.com", "vol-1", "kubernetes.io/aws-ebs")
    found = volume.migrated_terms and [(x.key, x.values) for x in volume.migrated_terms[0].labels]
    assert found == reads


def test_a_class_its_drivers_and_their_capacity() -> None:
    topology = [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]
    found = decode_class(
        encoded(
            provisioner="p",
            volumeBindingMode="WaitForFirstConsumer",
            allowedTopologies=topology,
        )
    )
    assert found.waits
    assert found.provisions
    assert found.topologies == (NodeTerm((Requirement("zone", "In", ("a",)),)),)
    assert not decode_class(encoded(provisioner="kubernetes.io/no-provisioner")).provisions

    drivers = [{"name": "a", "allocatable": {"count": 3}}, {"name": "b"}]
    plugins = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/a,kubernetes.io/b"}
    node = decode_csi_node(encoded({"drivers": drivers}, {"annotations": plugins}))
    assert (node.drivers, node.limits) == (("a", "b"), (("a", 3),))
    assert node.migrated == {"kubernetes.io/a", "kubernetes.io/b"}

    assert decode_csi_driver(encoded({"storageCapacity": True})).tracks_capacity
    capacity = decode_capacity(encoded(capacity="1Gi", maximumVolumeSize="1Mi"))
    assert capacity.holds(1 << 20)
    assert not capacity.holds(1 << 21), "one volume cannot be larger"
    assert not decode_capacity(encoded()).holds(0), "no number, no room"
    spec = {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    attached = decode_attachment(encoded(spec))
    assert (attached.driver, attached.node, attached.volume) == ("d", "n", "v")


@pytest.mark.parametrize(
    ("decode", "spec"),
    [
        (decode_volume_claim, {"resources": {"requests": {"storage": "much"}}}),
        (decode_volume, {"capacity": {"storage": "some"}}),
    ],
)
def test_a_size_that_is_no_number_is_an_error_of_that_object(decode: Any, spec: Any) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        decode(encoded(spec))


def volumes_of(*volumes: dict[str, Any]) -> PodVolumes | None:
    return decode_pod(encoded({"volumes": list(volumes)})).request.volumes


TOKEN = {"name": "kube-api-access-x7k2p", "projected": {"sources": []}}


@pytest.mark.parametrize(
    ("volume", "reads"),
    [
        pytest.param(TOKEN, None, id="a token goes anywhere"),
        pytest.param({"name": "e", "emptyDir": {}}, None, id="and so does an empty dir"),
        pytest.param(
            {"name": "d", "persistentVolumeClaim": {"claimName": "c"}},
            PodVolumes((VolumeClaimUse("ns/c"),)),
            id="a claim",
        ),
        pytest.param(
            {"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            PodVolumes((VolumeClaimUse("ns/x-d", "ns/x", "u"),)),
            id="a claim of its own",
        ),
        pytest.param(
            {"name": "d", "rbd": {"monitors": ["a", "b"], "image": "i", "readOnly": True}},
            PodVolumes(disks=(Disk("rbd/a/rbd/i", True), Disk("rbd/b/rbd/i", True))),
            id="an RBD image is the same by any of its monitors",
        ),
        pytest.param(
            {"name": "d", "iscsi": {"iqn": "q"}},
            PodVolumes(disks=(Disk("iscsi/q"),)),
            id="iSCSI",
        ),
        pytest.param(
            {"name": "d", "azureDisk": {"diskURI": "/d", "kind": "Managed"}},
            PodVolumes(inline=(CsiVolume("disk.csi.azure.com", "/d", "kubernetes.io/azure-disk"),)),
            id="an in-tree disk that a driver serves",
        ),
        pytest.param(
            {"name": "d", "azureDisk": {"diskURI": "/d", "kind": "Dedicated"}},
            None,
            id="a kind of Azure disk that no driver serves",
        ),
    ],
)
def test_the_volumes_of_a_pod(volume: dict[str, Any], reads: PodVolumes | None) -> None:
    assert volumes_of(TOKEN, volume) == reads


def test_pods_that_differ_in_their_tokens_alone_share_their_answers() -> None:
    first, second = (
        decode_pod(encoded({"volumes": [{**TOKEN, "name": f"kube-api-access-{tail}"}]}))
        for tail in ("aaaaa", "bbbbb")
    )
    assert first.request is second.request
