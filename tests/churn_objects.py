"""Objects of a cluster in which no name comes back, as the API server has them."""

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
#: By the last part of its path, or by its kind: an object, and of which kind.
Told = tuple[str, Json]

SCHEDULERS = ("gpu-scheduler", "default-scheduler")
ZONE = "topology.kubernetes.io/zone"
DRIVER = "gpu.example.com"
#: Steps differ in what comes with them.
_TURNS = 2


def a_node(number: int) -> Told:
    name = f"node-{number}"
    offered = {f"example.com/device-{number}-{n}": "4" for n in range(3)}
    gpus = [
        {"index": n, "uuid": f"GPU-{name}-{n}", "model": f"Model-{number}", "memoryMib": 81559}
        for n in range(2)
    ]
    listed = json.dumps({"version": 2, "gpus": gpus})
    return "nodes", {
        "metadata": {
            "name": name, "uid": f"uid-{name}",
            "labels": {
                "kubernetes.io/hostname": name, ZONE: f"zone-{number}", f"label-{number}": "x",
                "rank": str(number),
            },
            "annotations": {"fairlead.dev/inventory": listed, f"note-{number}": "x" * 100},
        },
        "spec": {"taints": [{"key": f"key-{number}", "effect": "PreferNoSchedule"}]},
        "status": {
            "allocatable": {
                "cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "2", **offered,
            },
            "images": [{"names": [f"example.com/image-{number}:v1"], "sizeBytes": 1 << 30}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }  # fmt: skip


def a_pod(number: int, n: int, namespace: str) -> Told:
    """Every kind of rule that pods have, each with values of its own."""
    kinds = _KINDS[number % _TURNS] + _KINDS[(number + 1) % _TURNS]
    spec, annotations = kinds[n % len(kinds)](number, n)
    cpu = f"{1 + (number * 7 + n) % 4000}m"
    container = {
        "name": "main", "image": f"example.com/image-{number}:v1",
        "resources": {"requests": {"cpu": cpu, **spec.pop("amounts", {})}},
        "ports": spec.pop("ports", []),
    }  # fmt: skip
    return "pods", {
        "metadata": {
            "name": f"pod-{n}", "namespace": namespace, "uid": f"uid-{number}-{n}",
            "labels": {
                "app": f"app-{number}-{n}", f"label-{number}": str(n), **spec.pop("labels", {}),
            },
            "annotations": annotations,
        },
        "spec": {
            "schedulerName": SCHEDULERS[(number + n) % 2], "containers": [container],
            "priority": n % 3, **spec,
        },
        "status": {"phase": "Pending"},
    }  # fmt: skip


def around(number: int, namespace: str) -> Iterator[Told]:
    """What else there is about a namespace and a node."""
    meta = {"name": f"of-{number}", "namespace": namespace, "uid": f"uid-of-{number}"}
    selector = {"app": f"app-{number}-0"}
    yield (
        "namespaces",
        {"metadata": {"name": namespace, "uid": f"uid-{namespace}", "labels": {"team": namespace}}},
    )
    yield "services", {"metadata": dict(meta), "spec": {"selector": selector}}
    yield (
        "poddisruptionbudgets",
        {
            "metadata": dict(meta),
            "spec": {"selector": {"matchLabels": selector}},
            "status": {"disruptionsAllowed": 1},
        },
    )
    drivers = [{"name": f"driver-{number}.example.com", "allocatable": {"count": 4}}]
    name = f"node-{number}"
    yield (
        "csinodes",
        {"metadata": {"name": name, "uid": f"csi-{name}"}, "spec": {"drivers": drivers}},
    )
    for what, body in (*_devices(number), *_storage(number), *_teams(number), *_places(number)):
        named = {"name": f"of-{number}", "uid": f"{what}-{number}"}
        if what in NAMESPACED:
            named["namespace"] = namespace
        yield what, {"metadata": named | body.pop("metadata", {}), **body}


NAMESPACED = frozenset({
    "resourceclaims.resource.k8s.io", "computedomains.resource.nvidia.com",
    "persistentvolumeclaims", "csistoragecapacities", "podgroups.scheduling.x-k8s.io",
    "datasets.data.fluid.io", "localmodelnamespacecaches.serving.kserve.io",
})  # fmt: skip


def _devices(number: int) -> Iterator[Told]:
    node = f"node-{number}"
    devices = [
        {
            "name": f"gpu-{n}",
            "attributes": {"uuid": {"string": f"GPU-{number}-{n}"}, "rank": {"int": number}},
            "capacity": {f"memory-{number}": {"value": "80Gi"}},
        }
        for n in range(2)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    yield "resourceslices.resource.k8s.io", {"spec": spec}
    chosen = {"cel": {"expression": f"device.attributes['{DRIVER}'].rank == {number}"}}
    yield "deviceclasses.resource.k8s.io", {"spec": {"selectors": [chosen]}}
    taint = {"key": f"key-{number}", "effect": "NoSchedule"}
    rule = {"taint": taint, "deviceSelector": {"driver": DRIVER, "pool": f"other-{number}"}}
    yield "devicetaintrules.resource.k8s.io", {"spec": rule}
    channel = {"resourceClaimTemplate": {"name": f"channel-{number}"}}
    domain = {"status": "Ready", "nodes": [{"name": node, "cliqueID": f"c.{number}"}]}
    spec = {"numNodes": 1, "channel": channel}
    yield "computedomains.resource.nvidia.com", {"spec": spec, "status": domain}
    asked = {"name": "gpu", "exactly": {"deviceClassName": f"of-{number}", "count": 1}}
    yield "resourceclaims.resource.k8s.io", {"spec": {"devices": {"requests": [asked]}}}


def _storage(number: int) -> Iterator[Told]:
    """The volume is bound when the first pod needs it."""
    driver = f"driver-{number}.example.com"
    waits = {"provisioner": driver, "volumeBindingMode": "WaitForFirstConsumer"}
    yield "storageclasses", waits
    yield "csidrivers", {"metadata": {"name": driver}, "spec": {"storageCapacity": True}}
    capacity = {"storageClassName": f"of-{number}", "capacity": "10Gi"}
    topology = {"matchLabels": {ZONE: f"zone-{number}"}}
    yield "csistoragecapacities", {**capacity, "nodeTopology": topology}
    size = {"storage": "1Gi"}
    modes = {"accessModes": ["ReadWriteOnce"], "storageClassName": f"of-{number}"}
    volume = {"capacity": size, "csi": {"driver": driver, "volumeHandle": f"h-{number}"}}
    yield "persistentvolumes", {"spec": {**modes, **volume}, "status": {"phase": "Available"}}
    yield "persistentvolumeclaims", {"spec": {**modes, "resources": {"requests": size}}}
    attached = {"attacher": driver, "nodeName": f"node-{number}"}
    source = {"persistentVolumeName": f"of-{number}"}
    yield "volumeattachments", {"spec": {**attached, "source": source}}


def _teams(number: int) -> Iterator[Told]:
    yield "podgroups.scheduling.x-k8s.io", {"spec": {"minMember": 2}}
    queue = {"guaranteed": {"cpu": "100"}, "weight": 1 + number % 5, "order": "Fair"}
    yield "queues.fairlead.dev", {"spec": queue}
    yield "countedresources.fairlead.dev", {"spec": {"total": 100, "unit": f"seats-{number}"}}
    later = {"start": "2099-11-20T09:00:00Z", "duration": "3h", "namespaces": [f"ns-{number}"]}
    selector = {f"label-{number}": "x"}
    yield "reservations.fairlead.dev", {"spec": {**later, "nodeSelector": selector}}


def _places(number: int) -> Iterator[Told]:
    node = f"node-{number}"
    member = {"type": "Node", "selector": {"exactMatch": {"name": node}}}
    yield "hypernodes.topology.volcano.sh", {"spec": {"tier": 1, "members": [member]}}
    yield "topologies.kai.scheduler", {"spec": {"levels": [{"nodeLabel": f"label-{number}"}]}}
    cached = {"ufsTotal": "4GiB", "cacheStates": {"cached": "1GiB"}}
    yield "datasets.data.fluid.io", {"status": cached}
    yield "localmodelcaches.serving.kserve.io", {"spec": {"modelSize": "1Gi"}}
    there = {"modelStatus": {f"of-{number}": "ModelDownloaded"}}
    yield "localmodelnodes.serving.kserve.io", {"metadata": {"name": node}, "status": there}


Kind = tuple[Json, Json]


def _plain(number: int, n: int) -> Kind:
    return {}, {f"note-{number}-{n}": "x" * 50}


def _selecting(number: int, n: int) -> Kind:
    rank = {"key": "rank", "operator": "Gt", "values": [str(max(0, number - 5))]}
    line = {"key": f"label-{number}", "operator": "Exists"}
    terms = [{"matchExpressions": [rank]}, {"matchExpressions": [line]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}, {}


def _apart(number: int, n: int) -> Kind:
    return {"affinity": {"podAntiAffinity": _required(number, n)}}, {}


def _wishing(number: int, n: int) -> Kind:
    (term,) = _required(number, n)["requiredDuringSchedulingIgnoredDuringExecution"]
    wish = {"weight": 10, "podAffinityTerm": term}
    return {
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    }, {}


def _required(number: int, n: int) -> Json:
    selector = {"matchLabels": {"app": f"app-{number}-{n}"}}
    term = {"topologyKey": ZONE, "labelSelector": selector}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _spread(number: int, n: int) -> Kind:
    rule = {
        "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {f"label-{number}": str(n)}},
    }  # fmt: skip
    return {"topologySpreadConstraints": [rule]}, {}


def _share(number: int, n: int) -> Kind:
    share = f"0.{1 + number % 400:03d}"
    words = {"fairlead.dev/gpu-share": share, "fairlead.dev/gpu-model": f"Model-{number}"}
    return {"schedulerName": SCHEDULERS[0]}, words


def _whole(number: int, n: int) -> Kind:
    return {"amounts": {"nvidia.com/gpu": "1"}, "schedulerName": SCHEDULERS[0]}, {}


def _rare(number: int, n: int) -> Kind:
    return {"amounts": {f"example.com/device-{number}-0": "1"}}, {}


def _volume(number: int, n: int) -> Kind:
    volumes = [{"name": "v", "csi": {"driver": f"driver-{number}.example.com"}}]
    return {"volumes": volumes}, {}


def _port(number: int, n: int) -> Kind:
    port = 1024 + (number * 31 + n) % 60_000
    return {"ports": [{"hostPort": port, "containerPort": port}]}, {}


def _claiming(number: int, n: int) -> Kind:
    return {"resourceClaims": [{"name": "gpu", "resourceClaimName": f"of-{number}"}]}, {}


def _bound_volume(number: int, n: int) -> Kind:
    claim = {"claimName": f"of-{number}"}
    return {"volumes": [{"name": "v", "persistentVolumeClaim": claim}]}, {}


def _said_gang(number: int, n: int) -> Kind:
    """By annotations of the pods alone."""
    words = {"gang": f"gang-{number}", "gang-min": "2", "gang-topology": f"required: {ZONE}"}
    named = {f"fairlead.dev/{word}": text for word, text in words.items()}
    return {"schedulerName": SCHEDULERS[0], "priority": 1}, named


def _pod_group(number: int, n: int) -> Kind:
    labels = {"scheduling.x-k8s.io/pod-group": f"of-{number}"}
    return {"labels": labels, "schedulerName": SCHEDULERS[0], "priority": 1}, {}


def _queued(number: int, n: int) -> Kind:
    return {"labels": {"fairlead.dev/queue": f"of-{number}"}}, {}


def _counted(number: int, n: int) -> Kind:
    return {}, {"fairlead.dev/counted-resources": f"of-{number}=2"}


def _reading(number: int, n: int) -> Kind:
    return {}, {"fairlead.dev/data": f"dataset/of-{number}, model/of-{number}"}


#: Members of a gang come one after the other.
_KINDS = (
    (_plain, _selecting, _apart, _spread, _share, _whole, _rare, _wishing, _volume, _port),
    (_said_gang, _said_gang, _pod_group, _pod_group, _claiming, _bound_volume, _queued, _counted,
     _reading, _whole),
)  # fmt: skip
