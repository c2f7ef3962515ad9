"""Objects that come and go, each with names of its own, through the codec into an engine.

Shared by the gate on what is kept (`tests/apps/test_memory.py`) and by `bench/churn.py`.
"""

import json
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import Any, cast

from fairlead.apps.config.profiles import built_in
from fairlead.apps.run.usage import Usage
from fairlead.apps.run.watches import Watches
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import Bind
from fairlead.kube.bind_encoder import DialectEncoder
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.reflector import Reflector
from fairlead.model.readings import GpuReading, NodeReadings

Json = dict[str, Any]
#: By the last part of its path: an object of the API server, and of which kind.
Told = tuple[str, Json]

SCHEDULERS = ("gpu-scheduler", "default-scheduler")
ZONE = "topology.kubernetes.io/zone"


def _unreadable(key: str, pod: object, error: Exception) -> None:
    raise error


class Ground:
    """The watches, the codec and the engine of a scheduler, told by hand."""

    def __init__(self) -> None:
        profiles = {name: built_in(name) for name in SCHEDULERS}
        self.engine = Engine(profiles, encode=DialectEncoder(lambda: 1))
        self.now_s = 0.0
        self.usage = Usage(self.engine.cluster, clock=lambda: self.now_s)
        nowhere = cast(Client, None)  # no watch is started
        self.watches = Watches(
            nowhere, self.engine, self._feed, lambda: None, _unreadable, with_selectors=True
        )
        self._of: dict[str, Reflector[Any]] = {}
        for reflector in self.watches.all:
            reflector._feed.position.start("1")
            self._of[reflector.path.rpartition("/")[2]] = reflector
        self._versions = count(2)
        self.bound = 0

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
            for each in attempt.instructions:
                if isinstance(each, Bind):
                    self._bind(each)

    def _bind(self, bind: Bind) -> None:
        self.bound += 1
        self.engine.handle(events.BindDone(bind.pod.uid), now=self.now_s)
        body = self.bodies[bind.pod.key]
        body["spec"]["nodeName"] = bind.node
        body["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        body["metadata"].setdefault("annotations", {}).update(bind.annotations)
        self.tell("MODIFIED", ("pods", body))

    #: Pods that are there, as the API server has them.
    bodies: dict[str, Json]

    def _feed(self, event: events.Event) -> None:
        self.engine.handle(event, now=self.now_s)
        self.usage.note(event)


class Story:
    """A cluster of constant size in which no object stays and no name comes back."""

    def __init__(self, ground: Ground, nodes: int, pods: int) -> None:
        self.ground = ground
        ground.bodies = {}
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
        for what in ("namespaces", "services", "poddisruptionbudgets", "csinodes"):
            while len(self.there[what]) > len(self.there["nodes"]):
                self._goes(what)

    def objects(self) -> Iterator[Told]:
        """What is there now, nodes before pods."""
        for what, bodies in self.there.items():
            for body in bodies:
                yield what, body

    def _comes(self, what: str, body: Json) -> None:
        if what == "pods":
            meta = body["metadata"]
            self.ground.bodies[f"{meta['namespace']}/{meta['name']}"] = body
        self.there.setdefault(what, deque()).append(body)
        if what in self.come:
            self.come[what] += 1
        self.ground.tell("ADDED", (what, body))

    def _goes(self, what: str) -> None:
        body = self.there[what].popleft()
        if what == "pods":
            meta = body["metadata"]
            del self.ground.bodies[f"{meta['namespace']}/{meta['name']}"]
        self.ground.tell("DELETED", (what, body))


def a_node(number: int) -> Told:
    name = f"node-{number}"
    offered = {f"example.com/device-{number}-{n}": "4" for n in range(3)}
    gpus = [
        {"index": n, "uuid": f"GPU-{name}-{n}", "model": f"Model-{number}", "memoryMib": 81559}
        for n in range(2)
    ]
    listed = json.dumps({"version": 2, "gpus": gpus})
    return "nodes", {
        "metadata": {
            "name": name, "uid": f"uid-{name}",
            "labels": {
                "kubernetes.io/hostname": name, ZONE: f"zone-{number}", f"label-{number}": "x",
                "rank": str(number),
            },
            "annotations": {"fairlead.dev/inventory": listed, f"note-{number}": "x" * 100},
        },
        "spec": {"taints": [{"key": f"key-{number}", "effect": "PreferNoSchedule"}]},
        "status": {
            "allocatable": {
                "cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "2", **offered,
            },
            "images": [{"names": [f"example.com/image-{number}:v1"], "sizeBytes": 1 << 30}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }  # fmt: skip


def a_pod(number: int, n: int, namespace: str) -> Told:
    """Every kind of rule that pods have, each with values of its own."""
    kinds = (_plain, _selecting, _apart, _spread, _share, _whole, _rare, _wishing, _volume, _port)
    spec, annotations = kinds[n % len(kinds)](number, n)
    cpu = f"{1 + (number * 7 + n) % 4000}m"
    container = {
        "name": "main", "image": f"example.com/image-{number}:v1",
        "resources": {"requests": {"cpu": cpu, **spec.pop("amounts", {})}},
        "ports": spec.pop("ports", []),
    }  # fmt: skip
    return "pods", {
        "metadata": {
            "name": f"pod-{n}", "namespace": namespace, "uid": f"uid-{number}-{n}",
            "labels": {"app": f"app-{number}-{n}", f"label-{number}": str(n)},
            "annotations": annotations,
        },
        "spec": {
            "schedulerName": SCHEDULERS[(number + n) % 2], "containers": [container],
            "priority": n % 3, **spec,
        },
        "status": {"phase": "Pending"},
    }  # fmt: skip


def around(number: int, namespace: str) -> Iterator[Told]:
    """What else there is about a namespace and a node."""
    meta = {"name": f"of-{number}", "namespace": namespace, "uid": f"uid-of-{number}"}
    selector = {"app": f"app-{number}-0"}
    yield (
        "namespaces",
        {"metadata": {"name": namespace, "uid": f"uid-{namespace}", "labels": {"team": namespace}}},
    )
    yield "services", {"metadata": dict(meta), "spec": {"selector": selector}}
    yield (
        "poddisruptionbudgets",
        {
            "metadata": dict(meta),
            "spec": {"selector": {"matchLabels": selector}},
            "status": {"disruptionsAllowed": 1},
        },
    )
    drivers = [{"name": f"driver-{number}.example.com", "allocatable": {"count": 4}}]
    name = f"node-{number}"
    yield (
        "csinodes",
        {"metadata": {"name": name, "uid": f"csi-{name}"}, "spec": {"drivers": drivers}},
    )


Kind = tuple[Json, Json]


def _plain(number: int, n: int) -> Kind:
    return {}, {f"note-{number}-{n}": "x" * 50}


def _selecting(number: int, n: int) -> Kind:
    rank = {"key": "rank", "operator": "Gt", "values": [str(max(0, number - 5))]}
    line = {"key": f"label-{number}", "operator": "Exists"}
    terms = [{"matchExpressions": [rank]}, {"matchExpressions": [line]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}, {}


def _apart(number: int, n: int) -> Kind:
    return {"affinity": {"podAntiAffinity": _required(number, n)}}, {}


def _wishing(number: int, n: int) -> Kind:
    (term,) = _required(number, n)["requiredDuringSchedulingIgnoredDuringExecution"]
    wish = {"weight": 10, "podAffinityTerm": term}
    return {
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    }, {}


def _required(number: int, n: int) -> Json:
    selector = {"matchLabels": {"app": f"app-{number}-{n}"}}
    term = {"topologyKey": ZONE, "labelSelector": selector}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _spread(number: int, n: int) -> Kind:
    rule = {
        "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {f"label-{number}": str(n)}},
    }  # fmt: skip
    return {"topologySpreadConstraints": [rule]}, {}


def _share(number: int, n: int) -> Kind:
    share = f"0.{1 + number % 400:03d}"
    words = {"fairlead.dev/gpu-share": share, "fairlead.dev/gpu-model": f"Model-{number}"}
    return {"schedulerName": SCHEDULERS[0]}, words


def _whole(number: int, n: int) -> Kind:
    return {"amounts": {"nvidia.com/gpu": "1"}, "schedulerName": SCHEDULERS[0]}, {}


def _rare(number: int, n: int) -> Kind:
    return {"amounts": {f"example.com/device-{number}-0": "1"}}, {}


def _volume(number: int, n: int) -> Kind:
    volumes = [{"name": "v", "csi": {"driver": f"driver-{number}.example.com"}}]
    return {"volumes": volumes}, {}


def _port(number: int, n: int) -> Kind:
    port = 1024 + (number * 31 + n) % 60_000
    return {"ports": [{"hostPort": port, "containerPort": port}]}, {}
