"""Mutated objects about data and pods that read it: no object ends anything but itself."""

import copy
import json
from collections.abc import Iterable
from random import Random

import pytest

from fairlead.apps.config.profiles import aiming, built_in
from fairlead.engine import events
from fairlead.kube.data_objects import (
    DATASET,
    MODEL_CACHE,
    MODEL_NODE,
    NAMESPACE_CACHE,
    data_decoder,
    gone,
)
from fairlead.model.data_sets import DATA, MODEL
from fairlead.plugins.fetch_time import FetchTime
from fairlead.plugins.goals import GoalLevel, Goals
from fuzz.gangs import drawn_pod
from fuzz.mutations import mutated
from fuzz.objects import Json
from fuzz.searching import batches
from fuzz.target import SCHEDULER, Target

CASES, STEPS = 40, 40
BY_DATA = aiming(
    built_in(SCHEDULER), Goals((GoalLevel(((FetchTime(cache_prefix="zone/"), 1.0),)),))
)

OBJECTS = {
    DATASET: {
        "spec": {"mounts": [{"mountPoint": "s3://data", "name": "a"}]},
        "status": {"ufsTotal": "2.5GiB", "cacheStates": {"cached": "1GiB"}, "phase": "Bound"},
    },
    MODEL_CACHE: {"spec": {"modelSize": "140Gi", "nodeGroups": ["a"]}, "status": {"copies": {}}},
    NAMESPACE_CACHE: {"spec": {"modelSize": "1Gi"}},
    MODEL_NODE: {"status": {"modelStatus": {"a": "ModelDownloaded", "b": "ModelDownloading"}}},
}  # fmt: skip
_ASKED = (
    "dataset/a", "model/a, model/b", "a=5Gi", "a=", "=", ",", "a=1e400", "model/", "a=-1",
    "x" * 5000,
)  # fmt: skip


def show(target: Target, rng: Random) -> None:
    kind = rng.choice(list(OBJECTS))
    obj: Json = mutated(rng, copy.deepcopy(OBJECTS[kind]))
    obj = obj if isinstance(obj, dict) else {}
    obj["metadata"] = {"name": rng.choice("abc"), "namespace": rng.choice(("", "default"))}
    seen = data_decoder(kind)(json.dumps(obj).encode())
    target.feed(events.DataSeen(gone(kind, seen.key) if rng.random() < 0.2 else seen.described))


@pytest.mark.parametrize("seeds", batches(CASES))
def test_no_object_about_data_ends_anything_but_itself(seeds: Iterable[int]) -> None:
    for seed in seeds:
        rng = Random(seed)
        target = Target(rng, BY_DATA)
        for number in range(STEPS):
            if rng.random() < 0.5:
                show(target, rng)
            else:
                pod = drawn_pod(rng, rng.randint(0, number))
                pod["metadata"].setdefault("annotations", {})
                if isinstance(pod["metadata"]["annotations"], dict):
                    pod["metadata"]["annotations"] |= {DATA: rng.choice(_ASKED), MODEL: "a"}
                target.show(pod, "DELETED" if rng.random() < 0.1 else "ADDED")
            target.decide(rng.choice((0, 1, 3)))
        target.check()
