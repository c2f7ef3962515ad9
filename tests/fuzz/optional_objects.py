"""An object of each kind that is not served everywhere, with much in it that can be changed."""

from fairlead.kube.data_objects import DATASET, MODEL_CACHE, MODEL_NODE, NAMESPACE_CACHE
from fairlead.kube.gangs.api import GangKind
from fairlead.kube.provisioning import REQUESTED_FOR
from fairlead.model.compute_domains import CHANNEL_DRIVER
from fuzz.objects import Json

_KOORDINATOR = "quota.scheduling.koordinator.sh/"
#: Queues, by dialect.
QUEUES: dict[str, Json] = {
    "fairlead": {
        "spec": {
            "parent": "b", "guaranteed": {"nvidia.com/gpu": 2, "cpu": "4"},
            "limit": {"nvidia.com/gpu": "8", "memory": "4Gi"}, "weight": 2.5, "priority": 1,
            "budgets": [{"period": "Day", "gpuHours": 10}], "namespaces": ["default"],
            "order": "FIFO", "minRunTime": "10m",
            "preemption": {"withinQueue": "Never", "reclaim": "Any", "reclaimable": True},
        },
        "status": {
            "used": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}],
            "pastUse": {"at": "2026-01-01T00:00:00Z", "gpuSeconds": 5, "dayGPUHours": 1},
        },
    },
    "kai": {
        "spec": {
            "parentQueue": "b", "priority": 5, "preemptMinRuntime": "1m",
            "reclaimMinRuntime": "2m",
            "resources": {
                "gpu": {"quota": 2.5, "overQuotaWeight": 1, "limit": -1},
                "cpu": {"quota": -1, "overQuotaWeight": 2, "limit": 8000},
                "memory": {"quota": 100, "overQuotaWeight": 0, "limit": 0},
            },
        },
    },
    "volcano": {
        "spec": {
            "weight": 2, "capability": {"nvidia.com/gpu": "8"}, "deserved": {"cpu": 4},
            "guarantee": {"resource": {"cpu": "1"}}, "reclaimable": False, "parent": "b",
            "priority": 3, "dequeueStrategy": "fifo",
        },
        "status": {"state": "Open", "allocated": {"cpu": "1"}},
    },
    "koordinator": {
        "metadata": {
            "labels": {f"{_KOORDINATOR}parent": "b", f"{_KOORDINATOR}is-parent": "false"},
            "annotations": {f"{_KOORDINATOR}shared-weight": '{"cpu": "10"}'},
        },
        "spec": {"min": {"cpu": 2}, "max": {"cpu": "8", "nvidia.com/gpu": 4}},
    },
    "elasticquota": {
        "spec": {"min": {"cpu": 2}, "max": {"cpu": "8", "nvidia.com/gpu": 4}},
    },
}  # fmt: skip

#: What YuniKorn reads from its ConfigMap.
YUNIKORN: Json = {
    "partitions": [
        {
            "name": "default",
            "queues": [
                {
                    "name": "root",
                    "properties": {"application.sort.policy": "fair", "priority.offset": "5"},
                    "queues": [
                        {
                            "name": "a",
                            "resources": {"guaranteed": {"vcore": 1}, "max": {"vcore": "20"}},
                            "properties": {"preemption.policy": "disabled"},
                        },
                        {"name": "b", "queues": [{"name": "c"}]},
                    ],
                }
            ],
        }
    ]
}

COUNTED_RESOURCE: Json = {
    "spec": {
        "total": 5, "unit": "W", "mode": "Tree", "perGpu": {"H100": 2, "*": 1},
        "layers": [
            {"name": "hall", "count": 9, "base": 1},
            {"name": "rack", "count": 3, "nodeLabel": "zone", "counts": {"a": 4}, "parent": "hall"},
            {"name": "one", "count": 2, "nodeSelector": {"zone": "a"}},
        ],
        "namespaces": ["default", "team"],
        "outside": {"maxAge": "10m", "fallback": 1, "includesPods": True},
    },
    "status": {"outsideUse": {"used": 2, "time": "2026-01-01T00:00:00Z"}, "used": 1},
}  # fmt: skip

#: What is read about data.
DATA_OBJECTS: dict[GangKind, Json] = {
    DATASET: {
        "spec": {"mounts": [{"mountPoint": "s3://data", "name": "a"}]},
        "status": {"ufsTotal": "2.5GiB", "cacheStates": {"cached": "1GiB"}, "phase": "Bound"},
    },
    MODEL_CACHE: {"spec": {"modelSize": "140Gi", "nodeGroups": ["a"]}, "status": {"copies": {}}},
    NAMESPACE_CACHE: {"spec": {"modelSize": "1Gi"}},
    MODEL_NODE: {"status": {"modelStatus": {"a": "ModelDownloaded", "b": "ModelDownloading"}}},
}  # fmt: skip

#: Reservations. The clock of the target is at 1,000 s.
RESERVATIONS: tuple[Json, ...] = (
    {
        "spec": {
            "start": "1970-01-01T00:10:00Z", "duration": "3h", "gpus": 2, "gpuModel": "H100",
            "namespaces": ["team"], "queues": ["a"], "preempt": True,
        },
        "status": {"phase": "Pending", "nodes": ["sane-0"], "gpus": 2, "conflicts": 1},
    },
    {
        "spec": {
            "start": "1970-01-01T00:15:00Z", "duration": "1h", "gpus": 4, "gpusPerNode": 2,
            "namespaces": ["team"], "preempt": True,
        },
        "status": {"nodes": ["sane-0"], "gpusByNode": [{"node": "sane-0", "gpus": 2}]},
    },
    {
        "spec": {
            "start": "1970-01-01T00:20:00Z", "end": "1970-01-02T00:00:00Z",
            "nodeSelector": {"kubernetes.io/hostname": "sane-0"}, "maintenance": True,
        },
    },
)  # fmt: skip

DOMAIN: Json = {
    "spec": {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "t"}}},
    "status": {"status": "NotReady", "nodes": [{"name": "sane-0", "cliqueID": "a.1"}]},
}

#: A claim of a channel of it.
CHANNEL: Json = {
    "spec": {"devices": {
        "requests": [{"name": "c", "exactly": {"deviceClassName": "deviceclass-0", "count": 1,
                                               "allocationMode": "ExactCount"}}],
        "config": [{"opaque": {"driver": CHANNEL_DRIVER, "parameters": {
            "kind": "ComputeDomainChannelConfig", "domainID": "u-a"}}}]}},
}  # fmt: skip

#: Gangs for which nodes are requested.
GANGS = tuple(f"fairlead/default/{name}" for name in "gh")
REQUEST: Json = {
    "metadata": {"annotations": {REQUESTED_FOR: GANGS[0]}},
    "spec": {
        "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
        "parameters": {"ValidUntilSeconds": "600"},
        "podSets": [{"count": 2, "podTemplateRef": {"name": "fairlead-a-0"}}],
    },
    "status": {
        "conditions": [
            {"type": "Accepted", "status": "True", "message": "accepted"},
            {"type": "Provisioned", "status": "False", "message": "no room"},
            {"type": "Failed", "status": "False", "message": "failed"},
        ],
        "provisioningClassDetails": {"a": "b"},
    },
}  # fmt: skip
