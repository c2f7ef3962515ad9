"""Mutated objects that the real API server accepts: the scheduler goes on, and sells nothing twice.

`make fuzz SEED= FOR=` tries others, as tests/fuzz does without a server.
"""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest

from fairleads import Pods
from fuzz.cases import drawn
from fuzz.objects import GPU_MIB, GPUS, KINDS, Json, small_pods
from fuzz.searching import cases, no_timeout
from raw_audit import ASSIGNMENT, given_twice
from test_faults import scheduling, until

pytestmark = [pytest.mark.server, pytest.mark.slow]

#: Objects that are sent in one go, and goes; about half of the objects are accepted.
OBJECTS, BATCHES = 100, 20
_GPU = "nvidia.com/gpu"
_GPUS = 8
#: What we created, to be deleted again: everything of these kinds, or under these names.
_ALL_OF = {kind: path for kind, (path, _) in KINDS.items() if kind not in ("Namespace", "Node")}


class Fuzzed:
    """One control plane and one scheduler, told more and more."""

    def __init__(self, plane: Any, scheduler: Any, pods: Pods) -> None:
        self.plane, self.scheduler, self.pods = plane, scheduler, pods
        self.accepted: Counter[str] = Counter()
        #: Pods whose JSON says more than what we were told to write there.
        self.others: set[str] = set()

    def path(self, kind: str) -> str:
        return KINDS[kind][0].format(namespace=self.pods.namespace)

    def send(self, obj: Json) -> None:
        kind = obj["kind"]
        status, answer = self.plane.api("POST", self.path(kind), obj)
        if status != 201:
            return
        self.accepted[kind] += 1
        meta = answer["metadata"]
        if kind == "Pod" and (
            answer["spec"].get("nodeName") or ASSIGNMENT in meta.get("annotations", {})
        ):
            self.others.add(meta["uid"])
        if kind == "Node":  # its kubelet's part
            patch = {"status": obj.get("status")}
            path = f"{self.path(kind)}/{meta['name']}/status"
            self.plane.api("PATCH", path, patch, content_type="application/merge-patch+json")

    def annotate(self, obj: Json) -> None:
        """Writes what the object says to one of its kind that is there already."""
        said = obj["metadata"].get("annotations")
        found = self.plane.api("GET", self.path(obj["kind"]))[1].get("items", [])
        ours = [each for each in found if each["metadata"]["name"].startswith(("pod-", "node-"))]
        if ours and isinstance(said, dict):
            path = f"{self.path(obj['kind'])}/{ours[-1]['metadata']['name']}"
            patch = {"metadata": {"annotations": said}}
            self.plane.api("PATCH", path, patch, content_type="application/merge-patch+json")

    def check(self, batch: int) -> None:
        """All read from the API server alone."""
        found = self.plane.api("GET", "/api/v1/pods")[1]["items"]
        bound = [
            pod
            for pod in found
            if pod["spec"].get("nodeName") and pod["metadata"]["uid"] not in self.others
        ]
        listed = [pod for pod in bound if pod["spec"]["nodeName"].startswith("gpus-")]
        assert given_twice(listed, GPU_MIB) == [], f"batch {batch}"
        taken: Counter[str] = Counter()
        for pod in bound:
            for container in pod["spec"]["containers"]:
                amounts = container.get("resources", {}).get("limits", {})
                if amounts.get(_GPU, "").isdecimal():
                    taken[pod["spec"]["nodeName"]] += int(amounts[_GPU])
        assert all(taken[f"sane-{n}"] <= _GPUS for n in range(2)), f"batch {batch}: {taken}"

    def clean_up(self) -> None:
        for path in _ALL_OF.values():
            folder = path.format(namespace=self.pods.namespace)
            self.plane.api("DELETE", f"{folder}?gracePeriodSeconds=0")
        for node in self.plane.api("GET", "/api/v1/nodes")[1]["items"]:
            if node["metadata"]["name"].startswith("node-"):
                self.plane.api("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")


@contextlib.asynccontextmanager
async def fuzzed(
    control_plane: Any, create_nodes: Callable[..., Any], pods: Pods
) -> AsyncIterator[Fuzzed]:
    labels = {"disk": "ssd", "zone": "z1"}
    create_nodes(["sane-0", "sane-1"], allocatable={_GPU: str(_GPUS)}, labels=labels)
    create_nodes(["gpus-0"], annotations={"fairlead.dev/inventory": GPUS}, labels=labels)
    async with scheduling(control_plane, verify_every_s=5.0) as (_, scheduler):
        yield Fuzzed(control_plane, scheduler, pods)


async def try_batch(target: Fuzzed, batch: int) -> None:
    """Prints what was sent if anything fails."""
    rng, sent = Random(batch), list[Json]()
    try:
        for number in range(OBJECTS):
            sent.append(drawn(rng, number))
            await asyncio.to_thread(target.send, sent[-1])
            if number % 5 == 0 and sent[-1]["kind"] in ("Pod", "Node"):
                await asyncio.to_thread(target.annotate, sent[-1])
        plain = f"plain-{batch}"
        await asyncio.to_thread(target.check, batch)
        await asyncio.to_thread(target.clean_up)
        selector = {"kubernetes.io/hostname": "sane-0"}
        await asyncio.to_thread(target.pods.create, plain, 1, nodeSelector=selector)
        await until(lambda: target.pods.node(plain))
        assert target.scheduler._containment.failures.counts == {}
        await asyncio.to_thread(target.pods.delete, plain)
    except BaseException:
        print(f"case {batch}; what was sent:", *map(json.dumps, sent), sep="\n")
        raise


@pytest.mark.parametrize("kind", KINDS)
def test_the_objects_that_are_mutated_are_real_ones(control_plane, namespace, kind: str) -> None:
    path, original = KINDS[kind]
    folder = path.format(namespace=namespace)
    for number, each in enumerate([original, *(small_pods() if kind == "Pod" else ())]):
        name = f"original-{namespace[-20:]}-{number}".strip("-")
        obj = {**each, "metadata": {**each["metadata"], "name": name}}
        status, answer = control_plane.api("POST", folder, obj)
        assert status == 201, answer.get("message")
        control_plane.api("DELETE", f"{folder}/{name}?gracePeriodSeconds=0")


@no_timeout
async def test_what_the_server_accepts_ends_nothing(control_plane, create_nodes, namespace) -> None:
    pods = Pods(control_plane, namespace)
    async with fuzzed(control_plane, create_nodes, pods) as target:
        count = 0
        for batch in cases(BATCHES):
            await try_batch(target, batch)
            count += 1
        assert target.accepted.keys() == KINDS.keys(), "nothing of some kinds was accepted"
        assert target.accepted.total() >= count * OBJECTS / 4
        print(f"accepted: {target.accepted.total()} of {count * OBJECTS}, {target.accepted}")
