"""Mutated owners of pods (Jobs and others) and Workloads of Kueue: each ends only itself."""

import asyncio
import contextlib
import json
from collections.abc import Iterable
from random import Random
from typing import cast

import pytest

from fairlead.apps.run.owner_reader import OwnerReader
from fairlead.engine import events
from fairlead.kube.codec import decode_pod
from fairlead.kube.http.client import Client
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.kueue_workloads import WORKLOADS, read_workloads
from fairlead.kube.owner_kinds import OWNER_KINDS
from fairlead.kube.owner_run_times import read_owner
from fairlead.kube.writes.job_survival import job_problem
from fuzz.mutations import mutated
from fuzz.objects import SCHEDULER, Json, _small_pod
from fuzz.owners import JOB, WORKLOAD, owner
from fuzz.searching import batches
from fuzz.target import Target

CASES, STEPS = 40, 40


class _Server:
    """Has any owner that is asked for, of a kind that it draws, and its Workload."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    async def request(self, _method: str, path: str, *, timeout_s: float) -> Reply:
        if WORKLOADS.plural in path:
            body = {"items": [mutated(self._rng, WORKLOAD)]}
        else:
            body = mutated(self._rng, owner(self._rng.choice(list(OWNER_KINDS))))
        return Reply(200 if self._rng.random() < 0.9 else 404, json.dumps(body).encode())


def _a_pod(rng: Random, number: int) -> Json:
    """One with a GPU, created by a controller."""
    found = _small_pod({}, {"nvidia.com/gpu": str(rng.choice((1, 2, 64)))})
    of = {"apiVersion": "batch/v1", "kind": rng.choice(list(OWNER_KINDS)), "name": rng.choice("ab"),
          "uid": "o", "controller": True}  # fmt: skip
    found["metadata"] |= {"name": f"p-{number}", "ownerReferences": [of]}
    return found


def _look(reader: OwnerReader) -> None:
    """As its `run` does, for all pods that wait."""
    while not reader._pods.empty():
        with contextlib.suppress(*UNREADABLE):
            asyncio.run(reader._look(reader._pods.get_nowait()))


def _try(seed: int) -> int:
    rng = Random(seed)
    target = Target(rng)
    client = cast(Client, _Server(rng))
    reader = OwnerReader(client, target.feed, {SCHEDULER}, lambda: 1000.0 * target._now)
    for number in range(STEPS):
        shown = target.show(_a_pod(rng, rng.randint(0, number)))
        reader.note(events.PodSeen(decode_pod(json.dumps(shown).encode())))
        _look(reader)
        target.decide(rng.choice((0, 1, 3)))
        assert job_problem(Reply(200, json.dumps(mutated(rng, JOB)).encode()), 1) is not None
    target.check()
    return len(list(target.engine.run_times.owners))


@pytest.mark.parametrize("seeds", batches(CASES))
def test_no_owner_of_pods_ends_anything_but_itself(seeds: Iterable[int]) -> None:
    known = [_try(seed) for seed in seeds]
    assert sum(known) > len(known), "too few were read to try anything"


@pytest.mark.parametrize("kind", OWNER_KINDS)
def test_the_owners_that_are_mutated_declare_a_run_time(kind: str) -> None:
    found = read_owner(json.dumps(owner(kind)).encode(), kind)
    assert found.run_time is not None
    assert found.kueue_uid


def test_the_workload_that_is_mutated_has_a_limit() -> None:
    found = read_workloads(json.dumps({"items": [WORKLOAD]}).encode())
    assert found is not None
    assert found[0].bound_s == 500.0
