"""Controllers of pods, and what Kueue knows about them, with much in them that can be changed."""

import asyncio
import contextlib
import json
from random import Random
from typing import cast

from fairlead.apps.run.owner_reader import OwnerReader
from fairlead.engine import events
from fairlead.kube.codec import decode_pod
from fairlead.kube.http.client import Client
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.kube.kueue_workloads import WORKLOADS
from fairlead.kube.owner_kinds import OWNER_KINDS
from fairlead.kube.writes.job_survival import job_problem
from fuzz.mutations import mutated
from fuzz.objects import SCHEDULER, Json, _small_pod
from fuzz.target import Target

STEPS = 40

_META: Json = {
    "name": "a", "uid": "o", "namespace": "default",
    "labels": {"kueue.x-k8s.io/queue-name": "q",
               "kueue.x-k8s.io/max-exec-time-seconds": "600"},
    "annotations": {"fairlead.dev/run-time": "1h", "fairlead.dev/estimated-run-time": "30m"},
    "ownerReferences": [{"kind": "RayJob", "name": "b", "controller": True}],
}  # fmt: skip
JOB: Json = {
    "metadata": _META,
    "spec": {
        "activeDeadlineSeconds": 3600, "backoffLimit": 6, "backoffLimitPerIndex": 1,
        "runningEstimate": "30m",
        "podFailurePolicy": {"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
    },
    "status": {"startTime": "2026-01-01T00:00:00Z", "failed": 1},
}  # fmt: skip
_KUBEFLOW: Json = {
    "metadata": _META,
    "spec": {"runPolicy": {"activeDeadlineSeconds": 3600, "suspend": False}},
    "status": {"startTime": "2026-01-01T00:00:00Z"},
}
WORKLOAD: Json = {
    "metadata": {"name": "w"},
    "spec": {"maximumExecutionTimeSeconds": 600},
    "status": {
        "accumulatedPastExecutionTimeSeconds": 100, "accumulatedPastExexcutionTimeSeconds": 100,
        "conditions": [{"type": "Admitted", "status": "True",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    },
}  # fmt: skip


def owner(kind: str) -> Json:
    found = OWNER_KINDS[kind]
    body = _KUBEFLOW if found.group == "kubeflow.org" else JOB
    return {**body, "apiVersion": f"{found.group}/{found.versions[0]}", "kind": kind}


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


def owners_story(seed: int) -> int:
    """How many owners were read."""
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
