"""Mutated Reservations: one that makes no sense is one sentence, and ends nothing but itself."""

import json
from collections.abc import Iterable
from random import Random

import pytest

from fairlead.engine import events
from fairlead.engine.instructions import AdvanceStatusChanged
from fairlead.kube.advance import ServedAdvance, decode_advance
from fuzz.gangs import drawn_pod
from fuzz.mutations import mutated
from fuzz.objects import Json
from fuzz.searching import batches
from fuzz.target import Target

CASES, STEPS = 40, 30

#: With much in it that can be changed. The clock of the target is at 1,000 s.
OBJECTS: tuple[Json, ...] = (
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


def show(target: Target, rng: Random) -> None:
    obj = mutated(rng, rng.choice(OBJECTS))
    obj = obj if isinstance(obj, dict) else {}
    obj["metadata"] = {"name": rng.choice("abc"), "uid": "u", "resourceVersion": "7"}
    seen = decode_advance(json.dumps(obj).encode())
    assert len(seen.described.problem) < 2000
    target.feed(events.AdvanceSeen(seen.described))
    for made in target.engine.tend(now=target._now):
        if isinstance(made, AdvanceStatusChanged):
            json.dumps(ServedAdvance("v1alpha1").body(seen, made.status, "now"))


@pytest.mark.parametrize("seeds", batches(CASES))
def test_no_reservation_ends_anything_but_itself(seeds: Iterable[int]) -> None:
    for seed in seeds:
        rng = Random(seed)
        target = Target(rng)
        for number in range(STEPS):
            roll = rng.random()
            if roll < 0.4:
                show(target, rng)
            elif roll < 0.5:
                target.feed(events.AdvanceGone(rng.choice("abc")))
            else:
                pod = drawn_pod(rng, rng.randint(0, number))
                target.show(pod, "DELETED" if rng.random() < 0.1 else "ADDED")
            target.decide(rng.choice((0, 1, 3)))
        for name in "abc":
            target.feed(events.AdvanceGone(name))
        target.check()
