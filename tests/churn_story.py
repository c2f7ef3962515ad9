"""Objects that come and go, each with names of its own, through the codec into an engine.

Shared by the gate on what is kept (`tests/apps/test_memory.py`) and by `bench/churn.py`.
"""

import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from itertools import count
from typing import Any, cast

from churn_objects import SCHEDULERS, Json, Told, a_node, a_pod, around
from fairlead.apps.config.profiles import built_in
from fairlead.apps.run.object_watches import ObjectWatches
from fairlead.apps.run.optional_kinds import OptionalKinds
from fairlead.apps.run.served_kinds import KindWatch, WatchedKind
from fairlead.apps.run.usage import Usage
from fairlead.apps.run.watches import Watches
from fairlead.cluster.device_claims import ClaimWrite
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import Bind, Instruction, Prepare
from fairlead.kube.bind_encoder import DialectEncoder
from fairlead.kube.claims.patches import allocation_json
from fairlead.kube.gangs.registry import ALL
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.changes import Synced
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.queues.registry import ALL_QUEUES
from fairlead.kube.storage_codec import BIND_COMPLETED
from fairlead.model.pods import Pod
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.model.storage import VolumePlan
from fairlead.plugins.claim_step import ClaimStep
from fairlead.plugins.volume_step import VolumeStep

_NOWHERE = cast(Client, None)  # no watch is started
_CLAIMS = "resourceclaims.resource.k8s.io"


async def _supervise(_: str, work: Callable[[], Awaitable[None]]) -> None:
    await work()


def _unreadable(key: str, pod: object, error: Exception) -> None:
    raise error


class Ground:
    """The watches, the codec and the engine of a scheduler, told by hand."""

    def __init__(self) -> None:
        profiles = {name: built_in(name) for name in SCHEDULERS}
        self.engine = Engine(profiles, encode=DialectEncoder(lambda: 1))
        self.now_s = 0.0
        self.usage = Usage(self.engine.cluster, clock=lambda: self.now_s)
        self.watches = Watches(
            _NOWHERE, self.engine, self._feed, lambda: None, _unreadable, with_selectors=True
        )
        self.kinds = OptionalKinds(
            _NOWHERE, _NOWHERE, self._feed, _supervise, SCHEDULERS, ALL, ALL_QUEUES, None,
            lambda: None, counts_data=True,
        )  # fmt: skip
        self._versions = count(2)
        self.bound = 0
        #: Objects that are there, by kind and key, as the API server has them.
        self.bodies: dict[tuple[str, str], Json] = {}
        self._of: dict[str, Reflector[Any]] = {}
        for reflector in self.watches.all:
            self._follow(reflector.path.rpartition("/")[2], reflector)
        for watches in self.kinds._all.values():
            for watch in watches._kinds._watches.values():
                self._serve(watches, watch)

    def _serve(self, watches: ObjectWatches, watch: KindWatch) -> None:
        """As if the API server served the kind."""
        kinds, version = watches._kinds, watch.kind.versions[0]
        deliver = partial(kinds._deliver, watch)
        reflector = Reflector(_NOWHERE, watch.kind.path(version), watch.decode, deliver)
        kinds._served[watch.name] = WatchedKind(watch, version, reflector)
        self._follow(watch.kind.full_name, reflector)
        deliver(Synced())

    def _follow(self, what: str, reflector: Reflector[Any]) -> None:
        reflector._feed.position.start("1")
        self._of[what] = reflector

    def tell(self, event: str, told: Told) -> None:
        what, body = told
        body["metadata"]["resourceVersion"] = str(next(self._versions))
        line = json.dumps({"type": event, "object": body}).encode()
        self._of[what]._feed.apply(line)

    def read(self, node: str) -> None:
        """Somebody measured the GPUs of a node."""
        gpus = {f"GPU-{node}-0": GpuReading(0.5, memory_used_mib=1000.0)}
        self._feed(events.ReadingsTaken((NodeReadings(node, self.now_s, gpus, source="dcgm"),)))

    def decide(self) -> None:
        """Tries every pod that may be tried, and shows those that have a node as bound."""
        self.now_s += 1.0
        while attempt := self.engine.decide(now=self.now_s):
            self._carry_out(attempt.instructions)
        self.engine.tend(now=self.now_s)

    def _carry_out(self, instructions: Iterable[Instruction]) -> None:
        for each in instructions:
            if isinstance(each, Bind):
                self._bind(each)
            elif isinstance(each, Prepare):
                self._prepare(each)

    def _bind(self, bind: Bind) -> None:
        self.bound += 1
        self._feed(events.BindDone(bind.pod.uid))
        body = self.bodies["pods", bind.pod.key]
        body["spec"]["nodeName"] = bind.node
        body["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        body["metadata"].setdefault("annotations", {}).update(bind.annotations)
        self.tell("MODIFIED", ("pods", body))

    def _prepare(self, made: Prepare) -> None:
        for step in made.steps:
            if isinstance(step, ClaimStep):
                for write in step.writes:
                    self._allocate(made.pod, write)
            elif isinstance(step, VolumeStep):
                self._bind_volumes(step.plan)
        self._feed(events.Prepared(made.pod.uid))

    def _allocate(self, pod: Pod, write: ClaimWrite) -> None:
        assert write.allocation is not None
        body = self.bodies[_CLAIMS, write.claim.key]
        user = {"resource": "pods", "name": pod.name, "uid": pod.uid}
        body["status"] = {"allocation": allocation_json(write.allocation), "reservedFor": [user]}
        self.tell("MODIFIED", (_CLAIMS, body))

    def _bind_volumes(self, plan: VolumePlan) -> None:
        for claim, volume in plan.bindings:
            there = "persistentvolumes", self.bodies["persistentvolumes", volume.name]
            claimed = {"namespace": claim.namespace, "name": claim.name, "uid": claim.uid}
            there[1]["spec"]["claimRef"] = claimed
            there[1]["status"] = {"phase": "Bound"}
            self.tell("MODIFIED", there)
            asked = "persistentvolumeclaims", self.bodies["persistentvolumeclaims", claim.key]
            asked[1]["metadata"]["annotations"] = {BIND_COMPLETED: "yes"}
            asked[1]["spec"]["volumeName"] = volume.name
            self.tell("MODIFIED", asked)

    def _feed(self, event: events.Event) -> None:
        self._carry_out(self.engine.handle(event, now=self.now_s))
        self.usage.note(event)


class Story:
    """A cluster of constant size in which no object stays and no name comes back."""

    def __init__(self, ground: Ground, nodes: int, pods: int) -> None:
        self.ground = ground
        self._most = {"nodes": nodes, "pods": pods}
        self._numbers = count()
        self.there: dict[str, deque[Json]] = {}
        self.come = dict.fromkeys(("nodes", "pods"), 0)

    def step(self, pods: int) -> None:
        """A node and so many pods come, and as many of the oldest go."""
        number = next(self._numbers)
        self._comes(*a_node(number))
        self.ground.read(f"node-{number}")
        namespace = f"ns-{number}"
        for told in (
            *around(number, namespace),
            *(a_pod(number, n, namespace) for n in range(pods)),
        ):
            self._comes(*told)
        self.ground.decide()
        for what, most in self._most.items():
            while len(self.there[what]) > most:
                self._goes(what)
        for what in self.there:
            while what != "pods" and len(self.there[what]) > len(self.there["nodes"]):
                self._goes(what)

    def objects(self) -> Iterator[Told]:
        """What is there now, nodes before pods."""
        for what, bodies in self.there.items():
            for body in bodies:
                yield what, body

    def _comes(self, what: str, body: Json) -> None:
        self.ground.bodies[what, _key(body)] = body
        self.there.setdefault(what, deque()).append(body)
        if what in self.come:
            self.come[what] += 1
        self.ground.tell("ADDED", (what, body))

    def _goes(self, what: str) -> None:
        body = self.there[what].popleft()
        del self.ground.bodies[what, _key(body)]
        self.ground.tell("DELETED", (what, body))


def _key(body: Json) -> str:
    meta = body["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])
