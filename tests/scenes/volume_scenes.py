"""Scenes about volumes, for all three tables. No controller runs here: claims are bound by hand."""

from typing import Any

import happenings as then
from filter_scenes import Scene
from preemption_scenes import Scene as Eviction
from queueing_turns import QUIET, TRIES, Turn
from tables import HOME, Body, lines, node, pod

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = f"/api/v1/namespaces/{HOME}/persistentvolumeclaims"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
DRIVER = "csi.example.com"
ONCE, ONE_POD = "ReadWriteOnce", "ReadWriteOncePod"
SIZE = {"storage": "1Gi"}

Made = tuple[str, Body]


def claim(name: str, mode: str = ONCE, storage_class: str = "") -> Made:
    """A claim that is bound to the volume of its name."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    spec = {
        "accessModes": [mode], "resources": {"requests": SIZE}, "volumeName": f"@{name}",
        "storageClassName": storage_class,
    }  # fmt: skip
    return CLAIMS, {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


def volume(name: str, mode: str = ONCE, labels: dict[str, str] | None = None, on: str = "") -> Made:
    spec = {
        "accessModes": [mode], "capacity": SIZE,
        "csi": {"driver": DRIVER, "volumeHandle": f"@{name}"},
        "claimRef": {"namespace": HOME, "name": name},
    }  # fmt: skip
    if on:
        terms = [{"matchExpressions": lines(on)}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return VOLUMES, {"metadata": {"name": f"@{name}", "labels": labels or {}}, "spec": spec}


def room_for(node_name: str, count: int) -> Made:
    """The node's driver can attach this many volumes."""
    driver = {"name": DRIVER, "nodeID": node_name, "allocatable": {"count": count}}
    return CSI_NODES, {"metadata": {"name": f"@{node_name}"}, "spec": {"drivers": [driver]}}


def uses(*claims: str, on: str = "", **more: Any) -> Body:
    mounted = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return pod(on=on, volumes=mounted, **more)


DATA = (volume("data"), claim("data"))
LOCAL = (volume("data", on="disk=ssd"), claim("data"))
SINGLE = (volume("data", ONE_POD), claim("data", ONE_POD))
ZONED = (volume("data", labels={"topology.kubernetes.io/zone": "z1"}), claim("data"))
Z1, Z2 = "topology.kubernetes.io/zone=z1", "topology.kubernetes.io/zone=z2"
TAKEN = "ReadWriteOncePod access mode already in-use"
ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
NO_ZONE = "node(s) had no available volume zone"
TOO_MANY = "node(s) exceed max volume count"
MISSING = 'persistentvolumeclaim "data" not found'
SSD = {"a": node("disk=hdd"), "b": node("disk=ssd")}
ONE = {"a": node()}
MORE = (volume("more"), claim("more"))

FILTERS = {
    "a claim that is bound": Scene(ONE, uses("data"), fits="a", objects=DATA),
    "a claim that is missing": Scene(ONE, uses("data"), refused=MISSING),
    "a claim that nobody has bound yet": Scene(
        ONE, uses("data"), refused="pod has unbound immediate PersistentVolumeClaims",
        objects=((CLAIMS, {"metadata": {"name": "data"}, "spec": {
            "accessModes": [ONCE], "resources": {"requests": SIZE}, "storageClassName": ""}}),),
    ),
    "a volume that is on some nodes": Scene(SSD, uses("data"), fits="b", objects=LOCAL),
    "a volume that is on no node here": Scene(
        {"a": node("disk=hdd")}, uses("data"), refused=ELSEWHERE, objects=LOCAL
    ),
    "a volume of another zone": Scene(
        {"a": node(Z2)}, uses("data"), refused=NO_ZONE, objects=ZONED
    ),
    "a volume of one of the zones": Scene(
        {"a": node(Z2), "b": node(Z1)}, uses("data"), fits="b", objects=ZONED
    ),
    "a volume for one pod, which nobody has": Scene(ONE, uses("data"), fits="a", objects=SINGLE),
    "a volume for one pod, which another has": Scene(
        {"a": node(), "b": node()}, uses("data"), refused=TAKEN, there=(uses("data", on="a"),),
        objects=SINGLE,
    ),
    "more volumes than the driver attaches": Scene(
        ONE, uses("data"), refused=TOO_MANY, there=(uses("more", on="a"),),
        objects=(*DATA, *MORE, room_for("a", 1)),
    ),
    "the last volume that the driver attaches": Scene(
        ONE, uses("data"), fits="a", there=(uses("more", on="a"),),
        objects=(*DATA, *MORE, room_for("a", 2)),
    ),
    "a volume that is attached already": Scene(
        ONE, uses("data"), fits="a", there=(uses("data", on="a"),),
        objects=(*DATA, room_for("a", 1)),
    ),
}  # fmt: skip

QUEUEING = {
    "the claim comes": Turn(
        ONE, uses("data"), MISSING, then.makes(*DATA[1]), objects=DATA[:1]
    ),
    "another claim comes": Turn(
        ONE, uses("data"), MISSING, then.makes(*MORE[1]), QUIET, objects=DATA[:1]
    ),
    "a node comes where the volume is": Turn(
        {"a": node("disk=hdd")}, uses("data"), ELSEWHERE, then.node_comes("b", node("disk=ssd")),
        objects=LOCAL,
    ),
    "the node turns out to have the volume": Turn(
        {"a": node("disk=hdd")}, uses("data"), ELSEWHERE, then.node_labelled("a", "disk=ssd"),
        objects=LOCAL,
    ),
    "the node gets another label": Turn(
        {"a": node("disk=hdd")}, uses("data"), ELSEWHERE, then.node_labelled("a", "rank=3"), QUIET,
        kube=TRIES,  # lazier
        objects=LOCAL,
    ),
    "who has the volume goes": Turn(
        ONE, uses("data"), TAKEN, then.goes("there-0"), there=(uses("data", on="a"),),
        objects=SINGLE,
    ),
    "who has another volume goes": Turn(
        ONE, uses("data"), TAKEN, then.goes("there-1"), QUIET,
        there=(uses("data", on="a"), uses("more", on="a")), objects=(*SINGLE, *MORE),
    ),
    "who has one of too many volumes goes": Turn(
        ONE, uses("data"), TOO_MANY, then.goes("there-0"), there=(uses("more", on="a"),),
        objects=(*DATA, *MORE, room_for("a", 1)),
    ),
    "the driver attaches more": Turn(
        ONE, uses("data"), TOO_MANY,
        lambda play: play.change(f"{CSI_NODES}/@a", room_for("a", 2)[1]),
        there=(uses("more", on="a"),), objects=(*DATA, *MORE, room_for("a", 1)),
    ),
    "who has no volume goes": Turn(
        ONE, uses("data"), TOO_MANY, then.goes("there-1"), QUIET,
        there=(uses("more", on="a"), pod(on="a")), objects=(*DATA, *MORE, room_for("a", 1)),
    ),
    "the volume comes into the zone of the node": Turn(
        {"a": node(Z2)}, uses("data"), NO_ZONE, then.node_comes("b", node(Z1)), objects=ZONED
    ),
}  # fmt: skip

PREEMPTION = {
    "who has the volume for one pod": Eviction(
        {"a": node(), "b": node()},
        {"x": uses("data", on="a", priorityClassName="low"), "y": pod(on="a")},
        uses("data", priorityClassName="high"), "x", "a", objects=SINGLE,
    ),
    "nobody, for a volume that is elsewhere": Eviction(
        {"a": node("disk=hdd")}, {"x": pod(on="a", priorityClassName="low")},
        uses("data", priorityClassName="high"), objects=LOCAL,
    ),
}  # fmt: skip
