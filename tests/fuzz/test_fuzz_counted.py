"""Mutated counted resources and pods that ask for them: no object ends anything but itself."""

import copy
import json
from collections.abc import Iterable
from random import Random

import pytest

from fairlead.engine import events
from fairlead.kube.counted import ServedCounted, decode_counted
from fairlead.kube.counted_words import COUNTED
from fairlead.model.counted import CountedStatus
from fuzz.gangs import drawn_pod
from fuzz.mutations import mutated
from fuzz.objects import Json
from fuzz.searching import batches
from fuzz.target import Target

CASES, STEPS = 40, 40
_STATUS = CountedStatus(1, 2, 0, (("default", 1),), (("rack/a", 1, 3),), "")

OBJECT: Json = {
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
_ASKED = ("a=1", "b=2,c=1", "a=1,a=1", "a=0", "a=x", "=", "a", ",", "a=999999999999999", "a = 1 ")


def show(target: Target, rng: Random) -> None:
    obj = mutated(rng, copy.deepcopy(OBJECT))
    obj = obj if isinstance(obj, dict) else {}
    obj["metadata"] = {"name": rng.choice("abc"), "uid": "u", "resourceVersion": "7"}
    seen = decode_counted(json.dumps(obj).encode())
    target.feed(events.CountedSeen(seen.described))
    json.dumps(ServedCounted("v1alpha1").body(seen, _STATUS, "now"))


@pytest.mark.parametrize("seeds", batches(CASES))
def test_no_counted_resource_ends_anything_but_itself(seeds: Iterable[int]) -> None:
    for seed in seeds:
        rng = Random(seed)
        target = Target(rng)
        for number in range(STEPS):
            roll = rng.random()
            if roll < 0.4:
                show(target, rng)
            elif roll < 0.5:
                target.feed(events.CountedGone(rng.choice("abc")))
            else:
                pod = drawn_pod(rng, rng.randint(0, number))
                pod["metadata"].setdefault("annotations", {})
                if isinstance(pod["metadata"]["annotations"], dict):
                    pod["metadata"]["annotations"][COUNTED] = rng.choice(_ASKED)
                target.show(pod, "DELETED" if rng.random() < 0.1 else "ADDED")
            target.decide(rng.choice((0, 1, 3)))
        for name in "abc":
            target.feed(events.CountedGone(name))
        target.check()
