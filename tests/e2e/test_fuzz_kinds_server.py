"""Mutated objects of optional kinds that a real API server accepts: topologies, node requests,
owners of pods, queues, reservations, counted resources, ComputeDomains and data.

The definitions accept nearly everything, so what is written is what is read.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import gang_crds
from fairlead.kube.advance import ADVANCE
from fairlead.kube.claims.kinds import COMPUTE_DOMAINS
from fairlead.kube.counted import COUNTED_KIND
from fairlead.kube.counted_words import COUNTED
from fairlead.kube.data_objects import DATASET, NAMESPACE_CACHE
from fairlead.kube.gangs.api import GangKind
from fairlead.kube.gangs.topology_objects import KINDS as TOPOLOGY_KINDS
from fairlead.kube.kueue_workloads import WORKLOADS
from fairlead.kube.object_kinds import ObjectKind
from fairlead.kube.owner_kinds import OWNER_KINDS, VOLCANO_JOB
from fairlead.kube.provisioning import REQUESTS
from fairlead.kube.queues.registry import DIALECTS as QUEUE_DIALECTS
from fairlead.model.data_sets import DATA
from fairlead.model.node_requests import RequestTerms
from fairlead.sim.controlplane import ControlPlane
from fairleads import Pods
from fuzz.gangs import drawn_pod
from fuzz.mutations import mutated
from fuzz.objects import Json
from fuzz.optional import BY_DATA
from fuzz.optional_objects import (
    COUNTED_RESOURCE,
    DATA_OBJECTS,
    DOMAIN,
    QUEUES,
    REQUEST,
    RESERVATIONS,
)
from fuzz.owners import WORKLOAD, owner
from fuzz.searching import cases, no_timeout
from fuzz.topologies import TOPOLOGIES
from test_faults import scheduling, until

pytestmark = [pytest.mark.server, pytest.mark.slow]

BATCHES, STEPS = 5, 60
_MERGE = "application/merge-patch+json"
#: The API server has Jobs itself, which the tests of deadlines create.
_OWNERS = tuple(kind for kind in OWNER_KINDS if kind != "Job")
#: It is active, and holds GPUs.
RESERVATION: Json = {
    **RESERVATIONS[0],
    "spec": RESERVATIONS[0]["spec"] | {"start": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())},
}
_OF_NAMESPACES = (DATASET, NAMESPACE_CACHE)
_ANNOTATIONS = {COUNTED: ("a=1", "b=2,c=1", "a=999999999999999"), DATA: ("dataset/a", "model/b")}


def _as_defined(kind: ObjectKind) -> GangKind:
    """The first version only, with a status that is written with the object."""
    return GangKind(
        kind.group, kind.versions[:1], kind.plural, kind.kind, "", has_status_subresource=False
    )


#: Kinds that are installed, an object of each, and whether they have a namespace.
KINDS: dict[GangKind, tuple[Json, bool]] = {
    **{_as_defined(TOPOLOGY_KINDS[name]): (obj, False) for name, obj in TOPOLOGIES.items()},
    **{_as_defined(OWNER_KINDS[name]): (owner(name), True) for name in _OWNERS},
    **{_as_defined(each.kind): (QUEUES[each.name], each.name == "elasticquota")
       for each in QUEUE_DIALECTS if each.kind and each.name in ("kai", "volcano", "elasticquota")},
    **{_as_defined(kind): (obj, kind in _OF_NAMESPACES) for kind, obj in DATA_OBJECTS.items()},
    _as_defined(VOLCANO_JOB): (owner("Job"), True),
    _as_defined(WORKLOADS): (WORKLOAD, True),
    _as_defined(REQUESTS): (REQUEST, True),
    ADVANCE: (RESERVATION, False),
    COUNTED_KIND: (COUNTED_RESOURCE, False),
    _as_defined(COMPUTE_DOMAINS): (DOMAIN, True),
}  # fmt: skip


@pytest.fixture
def definitions(control_plane: ControlPlane) -> Iterator[None]:
    for kind, (_, in_namespace) in KINDS.items():
        gang_crds.install_kind(control_plane, kind, "Namespaced" if in_namespace else "Cluster")
    yield
    for kind in KINDS:
        gang_crds.uninstall_kind(control_plane, kind)


def _controller(kind: str, name: str) -> Json:
    return {"apiVersion": "any/v1", "kind": kind, "name": name, "uid": "o", "controller": True}


class Sent:
    """What was sent to one control plane, and accepted."""

    def __init__(self, plane: ControlPlane, pods: Pods, seed: int) -> None:
        self.plane, self.pods, self.rng = plane, pods, Random(seed)
        self._seed, self._prefix = seed, f"b{seed}"
        self.accepted: Counter[str] = Counter()

    def step(self, number: int) -> None:
        if self.rng.random() < 0.3:
            self._pod(number)
        else:  # one kind after the other, so that none is left out
            self._object(list(KINDS)[(self._seed + number) % len(KINDS)])

    def _object(self, kind: GangKind) -> None:
        """Created, or changed if it is there."""
        folder, name = self._folder(kind), self.rng.choice("abc")
        body = self._drawn(kind)
        known = body["metadata"] if isinstance(body.get("metadata"), dict) else {}
        kept = {key: known[key] for key in ("labels", "annotations") if known.get(key)}
        name = f"fairlead-{name}" if kind.plural == REQUESTS.plural else name
        body["metadata"] = {**kept, "name": name}
        status, _ = self.plane.api("POST", folder, body)
        if status == 409:
            patch = {key: body.get(key) for key in ("spec", "status")}
            path = f"{folder}/{name}"
            status, _ = self.plane.api("PATCH", path, patch, content_type=_MERGE)
        if kind.has_status_subresource:
            patch, path = {"status": body.get("status")}, f"{folder}/{name}/status"
            self.plane.api("PATCH", path, patch, content_type=_MERGE)
        self.accepted[kind.full_name] += status in (200, 201)

    def _drawn(self, kind: GangKind) -> Json:
        found = mutated(self.rng, KINDS[kind][0])
        return {**found, "apiVersion": f"{kind.group}/{kind.versions[0]}", "kind": kind.kind}

    def _pod(self, number: int) -> None:
        """Of a controller that was drawn, and mostly of a gang."""
        body = drawn_pod(self.rng, number)
        body["metadata"]["name"] = f"{self._prefix}-{number}"
        of = _controller(self.rng.choice(_OWNERS), self.rng.choice("abc"))
        body["metadata"]["ownerReferences"] = [of]
        said = body["metadata"].setdefault("annotations", {})
        if isinstance(said, dict):
            said |= {key: self.rng.choice(values) for key, values in _ANNOTATIONS.items()}
        self.accepted["pod"] += self.plane.api("POST", self.pods.path, body)[0] == 201

    def ask_plainly(self, name: str) -> None:
        """After all that was sent, a pod of an owner that declares how long it runs."""
        kind = OWNER_KINDS["RayJob"]
        body = {**owner("RayJob"), "metadata": {"name": "plain"}}
        self.plane.api("POST", self._folder(_as_defined(kind)), body)
        meta = {"ownerReferences": [_controller("RayJob", "plain")]}
        self.pods.create(name, 1, metadata=meta)

    def _folder(self, kind: GangKind) -> str:
        root, in_namespace = f"/apis/{kind.group}/{kind.versions[0]}", KINDS[kind][1]
        space = f"/namespaces/{self.pods.namespace}" if in_namespace else ""
        return f"{root}{space}/{kind.plural}"

    def clean_up(self) -> None:
        """A queue that limits its namespace may keep the plain pod waiting, with good reason."""
        for kind in KINDS:
            self.plane.api("DELETE", self._folder(kind))
        self.plane.api("DELETE", f"{self.pods.path}?gracePeriodSeconds=0")


def _knows_owner(scheduler: Any, namespace: str) -> bool:
    return f"{namespace}/RayJob/plain" in scheduler.engine.run_times.owners._owners


async def try_batch(plane: ControlPlane, scheduler: Any, pods: Pods, seed: int) -> Counter[str]:
    sent = Sent(plane, pods, seed)
    for number in range(STEPS):
        await asyncio.to_thread(sent.step, number)
    await asyncio.to_thread(sent.clean_up)
    await until(lambda: not scheduler.engine.plans.advance)  # it may evict the plain pod
    plain = f"plain-{seed}"
    await asyncio.to_thread(sent.ask_plainly, plain)
    await until(lambda: pods.node(plain) and _knows_owner(scheduler, pods.namespace))
    assert scheduler._containment.failures.counts == {}
    await asyncio.to_thread(pods.delete, plain)
    return sent.accepted


@no_timeout
async def test_what_the_server_accepts_of_other_kinds_ends_nothing(
    control_plane: ControlPlane, create_nodes: Any, namespace: str, definitions: None
) -> None:
    create_nodes(2, allocatable={"nvidia.com/gpu": "8"})
    pods, accepted, batches = Pods(control_plane, namespace), Counter[str](), 0
    async with scheduling(control_plane, node_requests=RequestTerms(), profile=BY_DATA) as (
        _,
        scheduler,
    ):
        for seed in cases(BATCHES):
            accepted += await try_batch(control_plane, scheduler, pods, seed)
            batches += 1
    assert not [kind.full_name for kind in KINDS if not accepted[kind.full_name]], accepted
    assert accepted.total() >= batches * STEPS / 2, accepted
    print(accepted)
