"""Pods with volumes, told by the real kube-scheduler and by Fairlead: every word must agree."""

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from fairleads import Pods, eventually, fairlead
from storages import STORAGE, Storage, uses

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
TWO_ZONES = {"a": {ZONE: "z1"}, "b": {ZONE: "z2"}}
DRIVER = "disks.example.com"
CSI = {"driver": DRIVER, "volumeHandle": "disk-1"}

FAILED = "FailedScheduling"
Setup = Callable[[Storage], None]


@dataclass(frozen=True)
class Scene:
    """Labels of nodes, storage and pods that are there, and the volumes of the pod that asks."""

    setup: Setup
    volumes: list[dict[str, Any]]
    nodes: dict[str, dict[str, str]] = field(default_factory=lambda: {"a": {}, "b": {}})
    there: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def nothing(_: Storage) -> None: ...


def steps(*several: Setup) -> Setup:
    def run(storage: Storage) -> None:
        for step in several:
            step(storage)

    return run


def a_class(**more: Any) -> Setup:
    return lambda storage: storage.a_class(**more) and None


def a_claim(name: str = "data", **more: Any) -> Setup:
    return lambda storage: storage.a_claim(name, **more) and None


def a_volume(name: str = "disk", **more: Any) -> Setup:
    return lambda storage: storage.a_volume(name, **more) and None


def bound(name: str = "data", **more: Any) -> Setup:
    return lambda storage: storage.bound(name, **more)


def deleting(storage: Storage) -> None:
    storage.a_claim("data", meta={"finalizers": ["example.com/keep"]})
    path = f"/api/v1/namespaces/{storage.namespace}/persistentvolumeclaims/data"
    assert storage.plane.api("DELETE", path)[0] == 200


def a_limit(node: str, count: int) -> Setup:
    driver = {"name": DRIVER, "nodeID": node, "allocatable": {"count": count}}
    body = {"metadata": {"name": node}, "spec": {"drivers": [driver]}}
    return lambda storage: storage.make(f"{STORAGE}/csinodes", body) and None


def a_driver(storage: Storage) -> None:
    spec = {"storageCapacity": True, "attachRequired": False}
    storage.make(f"{STORAGE}/csidrivers", {"metadata": {"name": DRIVER}, "spec": spec})


def a_capacity(capacity: str, **labels: str) -> Setup:
    def run(storage: Storage) -> None:
        body = {
            "metadata": {"name": f"cap-{capacity.lower()}"},
            "storageClassName": "waiting",
            "capacity": capacity,
            "nodeTopology": {"matchLabels": labels},
        }
        path = f"{STORAGE}/namespaces/{storage.namespace}/csistoragecapacities"
        storage.make(path, body)

    return run


EPHEMERAL = {
    "name": "scratch",
    "ephemeral": {
        "volumeClaimTemplate": {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "waiting",
                "resources": {"requests": {"storage": "1Gi"}},
            }
        }
    },
}
PD = {"name": "d", "gcePersistentDisk": {"pdName": "shared"}}
EBS = {"name": "d", "awsElasticBlockStore": {"volumeID": "vol-1", "readOnly": True}}

SCENES = {
    "a claim that is not there": Scene(nothing, uses("data")),
    "a claim that nobody has bound": Scene(a_claim(storage_class=""), uses("data")),
    "a claim whose class is gone": Scene(a_claim(storage_class="gone"), uses("data")),
    "a claim that binds at once but has not yet": Scene(
        steps(a_class(volumeBindingMode="Immediate"), a_claim()), uses("data")
    ),
    "a claim that waits for a volume it names": Scene(
        steps(a_class(), a_claim(volumeName="later")), uses("data")
    ),
    "a claim that lost its volume": Scene(
        a_claim(volumeName="gone", status={"phase": "Lost"}), uses("data")
    ),
    "a claim that is being deleted": Scene(deleting, uses("data")),
    "a claim bound to a volume that is not there": Scene(
        a_claim(volumeName="gone", meta={"annotations": {"pv.kubernetes.io/bind-completed": "y"}}),
        uses("data"),
    ),
    "a volume of its own that is not made yet": Scene(nothing, [EPHEMERAL]),
    "a volume of its own that is another's": Scene(
        steps(a_claim("theirs-scratch"), a_claim("ours-scratch")), [EPHEMERAL]
    ),
    "a bound volume on a node that is not there": Scene(bound(node="elsewhere"), uses("data")),
    "a bound volume in another zone": Scene(
        bound(meta={"labels": {ZONE: "z9"}}), uses("data"), TWO_ZONES
    ),
    "a bound volume in several other zones": Scene(
        bound(meta={"labels": {ZONE: "z8__z9"}}),
        uses("data"),
        {"a": {ZONE: "z1"}, "b": {"failure-domain.beta.kubernetes.io/zone": "z2"}},
    ),
    "a bound volume out of reach, and a claim that nothing serves": Scene(
        steps(a_class(), bound(node="elsewhere"), a_claim("more")), uses("data", "more")
    ),
    "no volume that is large enough": Scene(
        steps(a_class(), a_claim(size="5Gi"), a_volume(size="1Gi", node="a")), uses("data")
    ),
    "two claims and one volume": Scene(
        steps(a_class(), a_claim(), a_claim("more"), a_volume(node="a")), uses("data", "more")
    ),
    "a volume of another mode, and one that another claim has": Scene(
        steps(
            a_class(),
            a_claim(),
            a_volume("raw", volumeMode="Block", node="a"),
            a_volume("taken", node="a", claimRef={"namespace": "default", "name": "other"}),
        ),
        uses("data"),
    ),
    "volumes that the claim does not select": Scene(
        steps(
            a_class(),
            a_claim(selector={"matchLabels": {"kind": "fast"}}),
            a_volume(node="a", meta={"labels": {"kind": "slow"}}),
        ),
        uses("data"),
    ),
    "an access mode that the volume has not": Scene(
        steps(a_class(), a_claim(accessModes=["ReadWriteMany"]), a_volume(node="a")), uses("data")
    ),
    "a claim that was sent to a node that is not there": Scene(
        steps(
            a_class(provisioner=DRIVER),
            a_claim(meta={"annotations": {"volume.kubernetes.io/selected-node": "elsewhere"}}),
        ),
        uses("data"),
    ),
    "a class that does not provision here": Scene(
        steps(
            a_class(
                provisioner=DRIVER,
                allowedTopologies=[
                    {"matchLabelExpressions": [{"key": ZONE, "values": ["z8", "z9"]}]}
                ],
            ),
            a_claim(),
        ),
        uses("data"),
        TWO_ZONES,
    ),
    "a driver without room": Scene(
        steps(
            a_driver,
            a_class(provisioner=DRIVER),
            a_claim(size="10Gi"),
            a_capacity("100Gi", **{ZONE: "z9"}),
            a_capacity("1Gi", **{ZONE: "z1"}),
        ),
        uses("data"),
        TWO_ZONES,
    ),
    "a claim for one pod that another has": Scene(
        bound(accessModes=["ReadWriteOncePod"]), uses("data"), there={"a": uses("data")}
    ),
    "a disk that another pod writes to": Scene(nothing, [PD], {"a": {}}, there={"a": [PD]}),
    "an EBS volume that another pod reads": Scene(nothing, [EBS], {"a": {}}, there={"a": [EBS]}),
    "a node that cannot attach another volume": Scene(
        steps(
            # First, so that they are known when the pods come, which would be bound without them.
            a_limit("a", 1),
            a_limit("b", 0),
            bound("first", csi=CSI),
            bound("second", csi={**CSI, "volumeHandle": "disk-2"}),
        ),
        uses("second"),
        there={"a": uses("first")},
    ),
}


@pytest.fixture(scope="module")
def arena(real_plane):
    """One API server, with kube-scheduler and Fairlead at work on it."""
    with real_plane.start_kube_scheduler(), fairlead(real_plane):
        yield real_plane


_numbers = itertools.count()


@pytest.fixture
def pods(arena):
    name = f"volumes-{next(_numbers)}"
    assert arena.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0] == 201
    yield Pods(arena, name)
    arena.delete_namespace(name)


@pytest.fixture
def storage(arena, pods):
    made = Storage(arena, pods.namespace)
    yield made
    made.remove_all()


@pytest.fixture
def nodes(arena):
    made: list[str] = []

    def make(labels: dict[str, dict[str, str]]) -> None:
        for name, own in labels.items():
            made.append(name)
            arena.create_nodes([name], labels=own)

    yield make
    for name in made:
        arena.api("DELETE", f"/api/v1/nodes/{name}")


UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
UNBINDABLE = "didn't find available persistent volumes to bind"
#: What both come to say in the end: at first one of them may not have seen all of the storage.
SAYS = {
    "a claim that is not there": "not found",
    "a claim that nobody has bound": UNBOUND,
    "a claim whose class is gone": UNBOUND,
    "a claim that binds at once but has not yet": UNBOUND,
    "a claim that waits for a volume it names": UNBOUND,
    "a claim that lost its volume": "bound to non-existent persistentvolume",
    "a claim that is being deleted": "is being deleted",
    "a claim bound to a volume that is not there": 'persistentvolume "gone" not found',
    "a volume of its own that is not made yet": "waiting for ephemeral volume controller",
    "a volume of its own that is another's": "(pod is not owner)",
    "a bound volume on a node that is not there": "PersistentVolume's node affinity",
    "a bound volume in another zone": "no available volume zone",
    "a bound volume in several other zones": "no available volume zone",
    "a bound volume out of reach, and a claim that nothing serves": "node affinity",
    "a driver without room": "did not have enough free storage",
    "a claim for one pod that another has": "ReadWriteOncePod",
    "a disk that another pod writes to": "no available disk",
    "an EBS volume that another pod reads": "no available disk",
    "a node that cannot attach another volume": "2 node(s) exceed max volume count",
}


@pytest.mark.parametrize("name", SCENES)
def test_the_words_are_kube_schedulers(pods, storage, nodes, name: str) -> None:
    scene, says = SCENES[name], SAYS.get(name, UNBINDABLE)
    nodes(scene.nodes)
    scene.setup(storage)
    for node, volumes in scene.there.items():
        pods.create(f"there-{node}", nodeName=node, volumes=volumes)

    pods.create("theirs", scheduler="default-scheduler", volumes=scene.volumes)
    pods.create("ours", scheduler="gpu-scheduler", volumes=scene.volumes)

    ours = _settled(pods, says)
    eventually(lambda: ours["message"] in {e["note"] for e in pods.events("ours", FAILED)})


def _settled(pods: Pods, says: str) -> dict[str, str]:
    """What both say in the end, with this in it: before, one may not have seen all nodes."""
    said: list[dict[str, str]] = []

    def are_alike() -> bool:
        found = (pods.condition(pod) for pod in ("theirs", "ours"))
        said[:] = [{key: one.get(key, "") for key in ("reason", "message")} for one in found]
        said[0]["message"] = said[0]["message"].replace("theirs", "ours")
        return said[0] == said[1] and says in said[0]["message"]

    with contextlib.suppress(AssertionError):
        eventually(are_alike)
    theirs, ours = said
    assert ours == theirs
    assert says in ours["message"]
    return ours
