"""An object of every kind that is read, with much in it that can be changed."""

import json
from typing import Any

from builders import SCHEDULER

Json = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SELECTOR = {
    "matchLabels": {"app": "a"},
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["x", "y"]}],
}
GPUS = json.dumps({
    "version": 2,
    "gpus": [
        {"uuid": f"GPU-{n}", "index": n, "model": "H100", "memoryMib": 16_000} for n in range(4)
    ],
})  # fmt: skip
GPU_MIB = 16_000
SCHEDULING_MAP = "0=gpus-0:0,1\n1=gpus-0:GPU-2\n2=sane-0:\n"

#: Words about GPUs, of all dialects, for pods and for nodes.
POD_WORDS = (
    "fairlead.dev/gpu-share", "fairlead.dev/gpu-memory", "fairlead.dev/gpu-count",
    "fairlead.dev/gpu-model", "fairlead.dev/gpu-slice", "fairlead.dev/gpu-fraction",
    "gpu-scheduling-map", "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices",
    "nvidia.com/use-gputype", "nvidia.com/nouse-gpuuuid", "volcano.sh/vgpu-use-gpuuuid",
    "ai.centaurus.io/gpu-name", "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-node",
    "ALIYUN_COM_GPU_MEM_IDX", "fairlead.dev/epoch", "fairlead.dev/service-class",
)  # fmt: skip
NODE_WORDS = (
    "fairlead.dev/inventory", "hami.io/node-nvidia-register", "hami.io/mutex.lock",
    "hami.io/node-handshake", "volcano.sh/node-vgpu-register", "volcano.sh/node-vgpu-handshake",
    "ai.centaurus.io/gpu-static", "gpu-node-name",
)  # fmt: skip
RESOURCES = (
    "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage",
    "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "aliyun.com/gpu-mem",
    "nvidia.com/mig-1g.10gb", "alnair/vgpu-memory", "alnair/vgpu-compute", "cpu", "memory",
    "ephemeral-storage", "pods", "example.com/foo", "hugepages-2Mi",
)  # fmt: skip


def pod() -> Json:
    amounts = {"cpu": "100m", "memory": "64Mi", "nvidia.com/gpu": "1"}
    term = {
        "labelSelector": SELECTOR, "topologyKey": "kubernetes.io/hostname",
        "namespaceSelector": {"matchLabels": {"team": "a"}}, "namespaces": ["default"],
        "matchLabelKeys": ["version"],
    }  # fmt: skip
    line = {"key": "disk", "operator": "NotIn", "values": ["hdd"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p", "labels": {"app": "a", "tier": "z"},
            "annotations": {"example.com/note": "x"},
        },
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 0,
            "priority": 0,
            "nodeSelector": {"disk": "ssd"},
            "containers": [
                {
                    "name": "main", "image": "example.com/a:1",
                    "resources": {"limits": amounts, "requests": amounts},
                    "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}],
                    "env": [{"name": "A", "value": "b"}],
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                },
                {"name": "second", "image": "example.com/b:1"},
            ],
            "initContainers": [
                {
                    "name": "first", "image": "example.com/c:1", "restartPolicy": "Always",
                    "resources": {"requests": {"cpu": "50m"}},
                }
            ],
            "volumes": [
                {"name": "v", "persistentVolumeClaim": {"claimName": "persistentvolumeclaim-0"}}
            ],
            "tolerations": [
                {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}
            ],
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [line]}]},
                    PREFERRED: [{"weight": 5, "preference": {"matchExpressions": [line]}}],
                },
                "podAffinity": {PREFERRED: [{"weight": 7, "podAffinityTerm": term}]},
                "podAntiAffinity": {REQUIRED: [term]},
            },
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": SELECTOR, "minDomains": None,
                    "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore",
                }
            ],
            "schedulingGates": [{"name": "example.com/gate"}],
        },
    }  # fmt: skip


def small_pods() -> list[Json]:
    """Pods that would be placed as they are, one for each way to ask."""
    ways: list[tuple[Json, Json]] = [
        ({}, {"nvidia.com/gpu": "1"}),
        ({}, {"cpu": "1"}),
        ({"fairlead.dev/gpu-share": "0.5"}, {}),
        ({"fairlead.dev/gpu-memory": "4Gi", "fairlead.dev/gpu-count": "2"}, {}),
        ({"fairlead.dev/gpu-model": "H100"}, {"nvidia.com/gpu": "2"}),
        ({}, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000", "nvidia.com/gpucores": "30"}),
        ({}, {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4000"}),
        ({}, {"aliyun.com/gpu-mem": "4"}),
        ({"gpu-fraction": "0.3"}, {}),
        ({"gpu-scheduling-map": SCHEDULING_MAP}, {}),
        ({"gpu-scheduling-map": SCHEDULING_MAP}, {"nvidia.com/gpu": "2"}),
    ]
    return [*(_small_pod(words, limits) for words, limits in ways), _owned_pod()]


def _owned_pod() -> Json:
    """Its place in the map is chosen by the scheduler."""
    found = _small_pod({"gpu-scheduling-map": SCHEDULING_MAP}, {})
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "r",
        "uid": "r",
        "controller": True,
    }
    found["metadata"] |= {
        "labels": {"app": "a", "pod-template-hash": "abc"},
        "ownerReferences": [owner],
    }
    return found


def _small_pod(words: Json, limits: Json) -> Json:
    amounts = {"limits": limits, "requests": limits}  # as the API server would complete it
    container = {"name": "c", "image": "example.com/a:1", "resources": amounts}
    labels = {"app": "a", "apps.kubernetes.io/pod-index": "0"}
    meta = {"name": "p", "annotations": words, "labels": labels}
    spec = {"schedulerName": SCHEDULER, "containers": [container], "priority": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def node() -> Json:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "4"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "n", "labels": {"kubernetes.io/hostname": "n", "zone": "z1", "disk": "ssd"},
            "annotations": {"fairlead.dev/inventory": GPUS},
        },
        "spec": {
            "unschedulable": False,
            "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
        },
        "status": {
            "allocatable": amounts, "capacity": amounts,
            "images": [{"names": ["example.com/a:1"], "sizeBytes": 1000}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }  # fmt: skip


def _selecting(api: str, kind: str, selector: Json, **spec: Any) -> Json:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "s"},
            "spec": {"selector": selector, **spec}}  # fmt: skip


def _template() -> Json:
    container = {"name": "c", "image": "example.com/a:1"}
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}


def _storage(kind: str, **fields: Any) -> Json:
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": "s"}, **fields}


def _resource(kind: str, **fields: Any) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "s"}, **fields}


_APP = {"matchLabels": {"app": "a"}}
_TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}

#: Where each kind is created and listed, and one of it.
KINDS: dict[str, tuple[str, Json]] = {
    "Pod": ("/api/v1/namespaces/{namespace}/pods", pod()),
    "Node": ("/api/v1/nodes", node()),
    "Namespace": (
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace",
         "metadata": {"name": "n", "labels": {"team": "a"}}},
    ),
    "PodDisruptionBudget": (
        "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
        _selecting("policy/v1", "PodDisruptionBudget", SELECTOR, minAvailable="50%"),
    ),
    "PersistentVolumeClaim": (
        "/api/v1/namespaces/{namespace}/persistentvolumeclaims",
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
         "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "storageclass-0",
                  "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem",
                  "selector": SELECTOR}},
    ),
    "PersistentVolume": (
        "/api/v1/persistentvolumes",
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
         "spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"],
                  "storageClassName": "storageclass-0", "persistentVolumeReclaimPolicy": "Retain",
                  "csi": {"driver": "example.com", "volumeHandle": "h"},
                  "claimRef": {"namespace": "default", "name": "persistentvolumeclaim-0"},
                  "nodeAffinity": {"required": {"nodeSelectorTerms": [_TERM]}}}},
    ),
    "StorageClass": (
        "/apis/storage.k8s.io/v1/storageclasses",
        _storage("StorageClass", provisioner="example.com", reclaimPolicy="Delete",
                 volumeBindingMode="WaitForFirstConsumer",
                 allowedTopologies=[{"matchLabelExpressions": [
                     {"key": "zone", "values": ["z1"]}]}]),
    ),
    "CSINode": (
        "/apis/storage.k8s.io/v1/csinodes",
        _storage("CSINode", spec={"drivers": [
            {"name": "example.com", "nodeID": "i", "topologyKeys": ["zone"],
             "allocatable": {"count": 3}}]}),
    ),
    "CSIDriver": (
        "/apis/storage.k8s.io/v1/csidrivers",
        _storage("CSIDriver", spec={"attachRequired": True, "storageCapacity": True}),
    ),
    "CSIStorageCapacity": (
        "/apis/storage.k8s.io/v1/namespaces/{namespace}/csistoragecapacities",
        _storage("CSIStorageCapacity", storageClassName="storageclass-0", capacity="5Gi",
                 maximumVolumeSize="3Gi", nodeTopology=SELECTOR),
    ),
    "VolumeAttachment": (
        "/apis/storage.k8s.io/v1/volumeattachments",
        _storage("VolumeAttachment", spec={"attacher": "example.com", "nodeName": "node-0",
                                           "source": {"persistentVolumeName": "v"}}),
    ),
    "ResourceSlice": (
        "/apis/resource.k8s.io/v1/resourceslices",
        _resource("ResourceSlice", spec={
            "driver": "gpu.example.com", "nodeName": "sane-0",
            "pool": {"name": "sane-0", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": "gpu-0", "allowMultipleAllocations": True,
                 "attributes": {"index": {"int": 0}, "model": {"string": "a"},
                                "healthy": {"bool": True}, "version": {"version": "1.2.3"}},
                 "capacity": {"memory": {"value": "80Gi", "requestPolicy": {
                     "default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}}},
                 "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
                {"name": "gpu-1", "bindsToNode": True, "bindingConditions": ["Ready"],
                 "bindingFailureConditions": ["Failed"]},
            ]}),
    ),
    "DeviceClass": (
        "/apis/resource.k8s.io/v1/deviceclasses",
        _resource("DeviceClass", spec={
            "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
            "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"a": 1}}}],
            "extendedResourceName": "example.com/gpu"}),
    ),
    "ResourceClaim": (
        "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims",
        _resource("ResourceClaim", spec={"devices": {
            "requests": [
                {"name": "one", "exactly": {
                    "deviceClassName": "deviceclass-0", "allocationMode": "ExactCount", "count": 1,
                    "selectors": [{"cel": {"expression": "device.driver != ''"}}],
                    "tolerations": [{"key": "k", "operator": "Exists"}],
                    "capacity": {"requests": {"memory": "2Gi"}}}},
                {"name": "several", "firstAvailable": [
                    {"name": "a", "deviceClassName": "deviceclass-1", "count": 2},
                    {"name": "b", "deviceClassName": "deviceclass-2", "allocationMode": "All"}]},
            ],
            "constraints": [{"requests": ["one"], "matchAttribute": "gpu.example.com/model"},
                            {"distinctAttribute": "gpu.example.com/index"}],
            "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"a": 1}}}]}}),
    ),
    "Service": (
        "/api/v1/namespaces/{namespace}/services",
        _selecting("v1", "Service", {"app": "a"}, ports=[{"port": 80}]),
    ),
    "ReplicationController": (
        "/api/v1/namespaces/{namespace}/replicationcontrollers",
        _selecting("v1", "ReplicationController", {"app": "a"}, replicas=0, template=_template()),
    ),
    "ReplicaSet": (
        "/apis/apps/v1/namespaces/{namespace}/replicasets",
        _selecting("apps/v1", "ReplicaSet", _APP, replicas=0, template=_template()),
    ),
    "StatefulSet": (
        "/apis/apps/v1/namespaces/{namespace}/statefulsets",
        _selecting("apps/v1", "StatefulSet", _APP, replicas=0, serviceName="s",
                   template=_template()),
    ),
}  # fmt: skip


def lease() -> Json:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
            "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 1,
                     "acquireTime": "2026-01-01T00:00:00.000000Z",
                     "renewTime": "2026-01-01T00:00:00.000000Z"}}  # fmt: skip


def review() -> Json:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {"uid": "u", "operation": "CREATE", "namespace": "default",
                        "kind": {"group": "", "version": "v1", "kind": "Pod"},
                        "resource": {"group": "", "version": "v1", "resource": "pods"},
                        "object": pod()}}  # fmt: skip


def question() -> Json:
    """What kube-scheduler asks an extender: all three of its questions read parts of it."""
    return {"Pod": pod(), "NodeNames": ["sane-0", "gpus-0", "nowhere"],
            "NodeNameToVictims": {"sane-0": {"Pods": [pod()], "NumPDBViolations": 1}},
            "NodeNameToMetaVictims": {"sane-0": {"Pods": [{"UID": "u"}], "NumPDBViolations": 0}},
            "PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "sane-0"}  # fmt: skip


def replies() -> list[Json]:
    """What else the API server answers: epochs, reviews of users and rights, its version."""
    user = {"username": "u", "uid": "1", "groups": ["a", "b"], "extra": {"k": ["v"]}}
    return [
        {"metadata": {"name": "fairlead", "resourceVersion": "7"}, "spec": {"epoch": "3 me"}},
        {"status": {"authenticated": True, "user": user}},
        {"status": {"allowed": True, "denied": False}},
        {"major": "1", "minor": "36+"},
        {"kind": "Status", "reason": "NotFound", "details": {"name": "fairlead"}},
    ]


def configurations() -> list[Json]:
    """Files that a ConfigMap holds for the scheduler."""
    ours = {
        "apiVersion": "fairlead.dev/v1alpha1", "kind": "SchedulerConfiguration",
        "profiles": [
            {"schedulerName": SCHEDULER, "profile": SCHEDULER},
            {"schedulerName": "other",
             "filters": {"enabled": ["GpuFit"], "disabled": ["NodePorts"]},
             "scores": [{"plugin": "ImageLocality", "weight": 2}, "NodeAffinity"],
             "overcommit": {"limit": 2.0, "highWater": 0.5}},
        ],
        "leaderElection": {"leaderElect": True, "leaseDuration": "15s"},
    }  # fmt: skip
    plugins = {
        "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ImageLocality", "weight": 3}]},
        "filter": {"disabled": [{"name": "NodePorts"}]},
    }
    strategy = {"type": "MostAllocated", "resources": [{"name": "nvidia.com/gpu", "weight": 5}]}
    arguments = [
        {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}},
        {"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": []}},
    ]
    theirs = {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": SCHEDULER, "plugins": plugins, "pluginConfig": arguments},
        ],
        "leaderElection": {"leaderElect": False},
    }  # fmt: skip
    return [ours, theirs]
