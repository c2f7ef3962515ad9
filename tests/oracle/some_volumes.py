"""Volumes, claims, classes and drivers drawn by lot, and the pods that use them."""

from collections.abc import Sequence

from oracle.case import NAMESPACES, Object
from oracle.draws import HOST, ZONE, Draw

DRIVER = "csi.oracle.example"
NOBODY = "kubernetes.io/no-provisioner"
BOUND = "pv.kubernetes.io/bind-completed"
SELECTED = "volume.kubernetes.io/selected-node"
KEEP = "oracle.example/keep"
#: Bound at once; when a pod comes; when a pod comes, and never provisioned.
NOW, LATER, LOCAL = "now", "later", "local"
_SIZES = ("1Gi", "5Gi", "20Gi")
_STORAGE = "storage.k8s.io/v1"


def storage(draw: Draw, nodes: Sequence[str]) -> list[Object]:
    """Everything about volumes in one cluster."""
    volumes = [_volume(draw, f"pv-{n}", nodes) for n in range(draw.randint(1, 6))]
    claims = [_claim(draw, f"claim-{n}", volumes, nodes) for n in range(draw.randint(2, 7))]
    _bind_back(draw, volumes, claims)
    attached = [_attachment(draw, f"attached-{n}", nodes) for n in range(draw.randint(0, 2))]
    capacities = [_capacity(draw, f"capacity-{n}") for n in range(draw.randint(0, 3))]
    driver = _object("CSIDriver", DRIVER, spec={"storageCapacity": draw.chance(0.5)})
    return [
        *_classes(draw),
        driver,
        *(_csi_node(draw, name) for name in nodes if draw.chance(0.8)),
        *capacities,
        *(attached if nodes else []),
        *volumes,
        *claims,
    ]


def use_volumes(draw: Draw, pod: Object, things: Sequence[Object]) -> None:
    """Gives the pod one or two volumes, of claims in its namespace for the most part."""
    own = pod["metadata"]["namespace"]
    claims = [
        found["metadata"]["name"]
        for found in things
        if found["kind"] == "PersistentVolumeClaim" and found["metadata"]["namespace"] == own
    ]
    pod["spec"]["volumes"] = [
        {"name": f"v{n}", **_source(draw, claims)} for n in range(draw.weighted({1: 3, 2: 1}))
    ]


def part_claims(pods: Sequence[Object], things: Sequence[Object]) -> None:
    """Lets only one of these pods have a claim that is for one pod alone, as a kubelet would.

    kube-scheduler counts such a claim as taken once, however many have it.
    """
    alone = {
        (claim["metadata"]["namespace"], claim["metadata"]["name"])
        for claim in things
        if claim["kind"] == "PersistentVolumeClaim"
        and claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    }
    taken = set()
    for pod in pods:
        for volume in pod["spec"].get("volumes", ()):
            source = volume.get("persistentVolumeClaim", {})
            key = pod["metadata"]["namespace"], source.get("claimName")
            if key in taken:
                del volume["persistentVolumeClaim"]  # what is left is an emptyDir
            elif key in alone:
                taken.add(key)


def _source(draw: Draw, claims: Sequence[str]) -> Object:
    what = draw.weighted({"claim": 16, "missing": 0.5, "disk": 5, "ephemeral": 0.5})
    if what == "claim" and claims:
        return {"persistentVolumeClaim": {"claimName": draw.one(claims)}}
    if what == "ephemeral":
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        return {"ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    if what == "missing":
        return {"persistentVolumeClaim": {"claimName": "missing"}}
    return _disk(draw)


def _disk(draw: Draw) -> Object:
    read_only = draw.chance(0.4)
    return draw.one(
        (
            {"gcePersistentDisk": {"pdName": "disk", "readOnly": read_only}},
            {"awsElasticBlockStore": {"volumeID": "disk", "readOnly": read_only}},
            {
                "iscsi": {
                    "targetPortal": "10.0.0.1",
                    "iqn": "iqn.2026-01.example:disk",
                    "lun": 0,
                    "readOnly": read_only,
                }
            },
            {
                "rbd": {
                    "monitors": draw.some(("a", "b", "c"), 1, 2),
                    "image": "disk",
                    "pool": draw.one(("fast", "slow")),
                    "readOnly": read_only,
                }
            },
        )
    )


# -- classes and drivers -------------------------------------------------------------------------


def _classes(draw: Draw) -> list[Object]:
    later = _class(LATER, DRIVER, "WaitForFirstConsumer")
    if draw.chance(0.3):
        zones = draw.some(("z1", "z2", "z3"), 1, 2)
        later["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]
    return [
        _class(NOW, DRIVER, "Immediate"),
        later,
        _class(LOCAL, NOBODY, "WaitForFirstConsumer"),
    ]


def _class(name: str, provisioner: str, mode: str) -> Object:
    return {**_object("StorageClass", name), "provisioner": provisioner, "volumeBindingMode": mode}


def _csi_node(draw: Draw, name: str) -> Object:
    driver: Object = {"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE]}
    if draw.chance(0.7):
        driver["allocatable"] = {"count": draw.one((1, 2, 5))}
    return _object("CSINode", name, spec={"drivers": [driver] if draw.chance(0.9) else []})


def _capacity(draw: Draw, name: str) -> Object:
    found = _object("CSIStorageCapacity", name, namespace=NAMESPACES[0])
    found |= {"storageClassName": draw.one((LATER, LATER, NOW)), "capacity": draw.one(_SIZES)}
    if draw.chance(0.8):
        zone = draw.one(("z1", "z2", "z3"))
        found["nodeTopology"] = {"matchLabels": {ZONE: zone}} if draw.chance(0.8) else {}
    if draw.chance(0.3):
        found["maximumVolumeSize"] = draw.one(_SIZES)
    return found


def _attachment(draw: Draw, name: str, nodes: Sequence[str]) -> Object:
    source = {"persistentVolumeName": draw.one(("pv-0", "pv-1", "pv-9"))}
    where = draw.one((*nodes, "gone"))
    spec = {"attacher": DRIVER, "nodeName": where, "source": source}
    return _object("VolumeAttachment", name, spec=spec)


# -- volumes and claims --------------------------------------------------------------------------


def _volume(draw: Draw, name: str, nodes: Sequence[str]) -> Object:
    spec: Object = {
        "capacity": {"storage": draw.one(_SIZES)},
        "accessModes": draw.one((["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"])),
        "storageClassName": draw.one((LOCAL, LOCAL, LATER, NOW)),
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    labels = {}
    if draw.chance(0.5):
        key, values = draw.one(((ZONE, ("z1", "z2", "z3")), (HOST, (*nodes, "n0"))))
        line = {"key": key, "operator": "In", "values": [draw.one(values)]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}
    if draw.chance(0.2):
        labels[ZONE] = draw.one(("z1", "z2", "z1__z2"))
    if draw.chance(0.4):
        labels["speed"] = draw.one(("fast", "slow"))
    return _object("PersistentVolume", name, labels, spec=spec, status={"phase": "Available"})


def _claim(draw: Draw, name: str, volumes: Sequence[Object], nodes: Sequence[str]) -> Object:
    mode = draw.weighted({"ReadWriteOnce": 6, "ReadWriteOncePod": 2, "ReadOnlyMany": 1})
    spec: Object = {
        "accessModes": [mode],
        "resources": {"requests": {"storage": draw.one(("1Gi", "1Gi", "5Gi", "20Gi"))}},
        "storageClassName": draw.weighted({LATER: 5, LOCAL: 5, NOW: 0.7, "unheard-of": 0.3}),
    }
    claim = _object("PersistentVolumeClaim", name, namespace=draw.one(NAMESPACES[:2]), spec=spec)
    state = draw.weighted(
        {"bound": 6, "waits": 9, "selected": 1, "lost": 0.7, "leaves": 1, "gone": 0.7}
    )
    match state:
        case "bound":
            spec["volumeName"] = draw.one(volumes)["metadata"]["name"]
        case "gone":
            spec["volumeName"] = "pv-gone"
        case "selected" if nodes:
            claim["metadata"]["annotations"] = {SELECTED: draw.one(nodes)}
        case "lost":
            claim["status"] = {"phase": "Lost"}
        case "leaves":
            claim["metadata"] |= {"finalizers": [KEEP], "deletionTimestamp": "soon"}
        case _ if draw.chance(0.2):
            spec["selector"] = {"matchLabels": {"speed": draw.one(("fast", "slow"))}}
    if "volumeName" in spec:
        claim["metadata"]["annotations"] = {BOUND: "yes"}
        claim["status"] = {"phase": "Bound"}
    return claim


def _bind_back(draw: Draw, volumes: Sequence[Object], claims: Sequence[Object]) -> None:
    """A bound volume names its claim, too; now and then it names another, or is not ready yet."""
    for volume in volumes:
        name = volume["metadata"]["name"]
        mine = next((c for c in claims if c["spec"].get("volumeName") == name), None)
        if mine is not None and draw.chance(0.9):
            reference = {key: mine["metadata"][key] for key in ("name", "namespace")}
            volume["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", **reference}
            volume["status"] = {"phase": "Bound"}
        elif draw.chance(0.1):
            volume["status"] = {"phase": draw.one(("Released", "Pending"))}


def _object(
    kind: str,
    name: str,
    labels: dict[str, str] | None = None,
    namespace: str = "",
    **parts: Object,
) -> Object:
    core = kind in ("PersistentVolume", "PersistentVolumeClaim")
    metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {})}
    if labels:
        metadata["labels"] = labels
    version = "v1" if core else _STORAGE
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}
