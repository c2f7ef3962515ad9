"""Mutated objects of queues and pods that name them: no object ends anything but itself."""

import copy
import json
from collections.abc import Iterable
from random import Random

import pytest
import yaml

from fairlead.engine import events
from fairlead.kube.admission.queue_reviews import QueueReviews
from fairlead.kube.queues.api import QueueStanding
from fairlead.kube.queues.registry import DIALECTS, decode_queue
from fairlead.kube.queues.yunikorn_config import decode_yunikorn
from fairlead.model.queues import PastUse, QueueStatus
from fuzz.gangs import drawn_pod
from fuzz.mutations import mutated
from fuzz.objects import Json
from fuzz.searching import batches
from fuzz.target import Target

CASES, STEPS = 40, 40
_KOORDINATOR = "quota.scheduling.koordinator.sh/"
_STATUS = QueueStatus((("nvidia.com/gpu", 1500),), (), PastUse(1e9, 1.0), 1, 2, 3)

#: An object of each dialect with much in it that can be changed.
OBJECTS: dict[str, Json] = {
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


def test_every_dialect_with_objects_is_mutated() -> None:
    assert set(OBJECTS) == {each.name for each in DIALECTS if each.kind}


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


def show_yunikorn(target: Target, rng: Random) -> None:
    text = yaml.safe_dump(mutated(rng, copy.deepcopy(YUNIKORN)), allow_unicode=True)
    meta = {"name": "yunikorn-configs", "namespace": "team", "uid": "u", "resourceVersion": "7"}
    body = {"metadata": meta, "data": {"queues.yaml": text}}
    found = decode_yunikorn("yunikorn", json.dumps(body).encode())
    for spec in found.queues:
        target.feed(events.QueueSeen(spec))
    kind = events.QueueKindSeen("yunikorn", is_served=True, problem=found.problem)
    target.feed(kind)


def show(target: Target, reviews: QueueReviews, rng: Random) -> None:
    dialect = rng.choice([each for each in DIALECTS if each.kind])
    obj = mutated(rng, copy.deepcopy(OBJECTS[dialect.name]))
    obj = obj if isinstance(obj, dict) else {}
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    # Not that of the pod that is placed in the end: a quota applies to its whole namespace.
    known = {"name": rng.choice("abc"), "namespace": "team", "uid": "u", "resourceVersion": "7"}
    obj["metadata"] = meta | known
    raw = json.dumps(obj).encode()
    try:
        seen = decode_queue(dialect, raw)
    except ValueError:
        return  # its metadata: the API server writes no such
    target.feed(events.QueueSeen(seen.spec))
    standing = QueueStanding(obj["status"] if isinstance(obj.get("status"), dict) else {}, 1)
    json.dumps(dialect.status(standing, _STATUS, "now"))
    reviews.problem_with_queue(raw)
    if dialect.name == "fairlead":
        reviews.seen(seen.spec)


@pytest.mark.parametrize("seeds", batches(CASES))
def test_no_queue_ends_anything_but_itself(seeds: Iterable[int]) -> None:
    for seed in seeds:
        rng = Random(seed)
        target, reviews = Target(rng), QueueReviews()
        reviews.is_complete = True
        for number in range(STEPS):
            roll = rng.random()
            if roll < 0.35:
                show(target, reviews, rng)
            elif roll < 0.4:
                show_yunikorn(target, rng)
            elif roll < 0.5:
                name = rng.choice(list(OBJECTS))
                target.feed(events.QueueGone(f"{name}/{rng.choice('abc')}"))
                target.feed(events.QueueKindSeen(name, is_served=rng.random() < 0.8))
            else:
                pod = drawn_pod(rng, rng.randint(0, number))
                word = rng.choice([key for each in DIALECTS for key in each.label_keys])
                pod["metadata"].setdefault("labels", {})
                if isinstance(pod["metadata"]["labels"], dict):
                    pod["metadata"]["labels"][word] = rng.choice("abc")
                target.show(pod, "DELETED" if rng.random() < 0.1 else "ADDED")
            target.decide(rng.choice((0, 1, 3)))
        target.check()
