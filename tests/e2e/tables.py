"""Words to write scenes with, and the stage on which a scheduler plays one after the other.

In every text of a scene `@` stands for the scene, so that nothing is mistaken for what an earlier
scene left behind: node `@a` is `r7-a` in the seventh scene.
"""

import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self, TypeAlias

import pytest
from _pytest.mark import ParameterSet

from fairlead.model.behaviour import behaviour_of
from fairlead.plugins.registry import Registry
from fairlead.sim.controlplane import NO_SERVICE_ACCOUNT, ControlPlane
from fairlead.sim.controlplane.client import JSON, MERGE_PATCH
from fairlead.sim.controlplane.nodes import node_body
from fairleads import PATIENCE_S, fairlead

Body: TypeAlias = dict[str, Any]

#: With the real kube-scheduler on the stage, it is the table that is judged.
KUBE = os.environ.get("FAIRLEAD_TABLES_JUDGE") == "kube-scheduler"
#: What a row may need of the scheduler, with a word on why it is skipped.
NEEDS_VOLUMES = pytest.mark.skipif(
    "VolumeBinding" not in Registry().names and not KUBE, reason="volumes are not looked at yet"
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/{}/pods"
HOME = "@home"

# -- words ---------------------------------------------------------------------------------------


def pairs(text: str) -> dict[str, str]:
    """`"zone=z1 disk"` as labels."""
    return {key: value for key, _, value in (word.partition("=") for word in text.split())}


def lines(*texts: str) -> list[Body]:
    """Requirements: `"app=web"`, `"disk In ssd,nvme"`, `"rank Gt 3"`, `"old DoesNotExist"`."""
    return [_line(text) for text in texts]


def _line(text: str) -> Body:
    if "=" in text:
        key, _, value = text.partition("=")
        return {"key": key, "operator": "In", "values": [value]}
    key, operator, *values = text.split()
    named = {"values": values[0].split(",")} if values else {}
    return {"key": key, "operator": operator, **named}


def selector(*texts: str) -> Body:
    return {"matchExpressions": lines(*texts)} if texts else {}


def node(labels: str = "", room: str = "", taints: str = "", *, cordoned: bool = False) -> Body:
    """A node with this much room, `"cpu=2 nvidia.com/gpu=4"`, where not told otherwise a lot."""
    kept = [taint(text) for text in taints.split()]
    return {
        "labels": pairs(labels), "allocatable": pairs(room), "taints": kept, "cordoned": cordoned
    }  # fmt: skip


def taint(text: str) -> Body:
    """`"key=value:Effect"`."""
    what, _, effect = text.rpartition(":")
    key, _, value = what.partition("=")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def pod(
    labels: str = "",
    takes: str = "",
    *,
    on: str = "",
    namespace: str = HOME,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Body:
    """A pod that takes `"cpu=2 nvidia.com/gpu=4"`, perhaps on a node already."""
    main = {**container("main", takes), **spec.pop("container", {})}
    bound = {"nodeName": f"@{on}"} if on else {}
    return {
        "metadata": {"namespace": namespace, "labels": pairs(labels), **(metadata or {})},
        "spec": {"containers": [main], "terminationGracePeriodSeconds": 0, **bound, **spec},
    }


def container(name: str, takes: str = "", **more: Any) -> Body:
    requests = pairs(takes)
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    resources = {"requests": requests, "limits": limits}
    return {"name": name, "image": "x", "resources": resources, **more}


def sidecar(name: str, takes: str = "", **more: Any) -> Body:
    return container(name, takes, restartPolicy="Always", **more)


def port(number: int, ip: str = "", protocol: str = "TCP") -> Body:
    return {"containerPort": number, "hostPort": number, "hostIP": ip, "protocol": protocol}


def listens(*ports: Body) -> Body:
    return {"container": {"ports": list(ports)}}


def term(key: str, *texts: str, **more: Any) -> Body:
    """Pods that these requirements mean, in the same domain of `key`."""
    return {"topologyKey": key, "labelSelector": selector(*texts), **more}


def near(*terms: Body) -> Body:
    return {"podAffinity": {REQUIRED: list(terms)}}


def apart(*terms: Body) -> Body:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def on_nodes(*alternatives: list[Body], fields: list[Body] | None = None) -> Body:
    """Required node affinity: one of the alternatives; `fields` belong to the first."""
    terms: list[Body] = [{"matchExpressions": each} for each in alternatives] or [{}]
    if fields:
        terms[0]["matchFields"] = fields
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def spread(key: str, *texts: str, skew: int = 1, **more: Any) -> Body:
    return {
        "maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector(*texts), **more,
    }  # fmt: skip


def tolerates(text: str, operator: str = "Equal") -> Body:
    """`"key=value:Effect"`, where everything may be missing."""
    if operator == "Exists":
        key, _, effect = text.partition(":")
        return {"operator": operator, **({"key": key} if key else {}), "effect": effect}
    return {"operator": operator, **taint(text)}


MARKER = pod("", "cpu=1M", nodeSelector={"scene": "@scene"}, tolerations=[{"operator": "Exists"}])


def rows(common: Mapping[str, Any], volumes: Mapping[str, Any]) -> list[ParameterSet]:
    """Rows as pytest takes them; those about volumes wait until the scheduler knows of them."""
    plain = [pytest.param(row, id=name) for name, row in common.items()]
    return plain + [
        pytest.param(row, id=f"volumes: {name}", marks=NEEDS_VOLUMES)
        for name, row in volumes.items()
    ]


# -- the stage -----------------------------------------------------------------------------------


def soon(holds: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> Any:
    """The first true answer; far less than the five minutes after which everybody tries again."""
    until = time.monotonic() + timeout_s
    while not (answer := holds()):
        assert time.monotonic() < until, f"not within {timeout_s} s: {what}"
        time.sleep(0.01)
    return answer


Metrics: TypeAlias = Callable[[], str]
Start: TypeAlias = Callable[[], AbstractContextManager[Metrics]]


class Stage:
    """One API server and the scheduler that is judged. `clear` before each scene."""

    def __init__(self, plane: ControlPlane, scheduler: str, start: Start) -> None:
        self.plane = plane
        self.scheduler = scheduler
        self._start = start
        self._running = ExitStack()
        self._scenes = itertools.count()
        self._markers = itertools.count()
        self._prefix = ""
        self._made: list[str] = []
        self._held: list[str] = []
        self._marked = 0
        self.nodes = 0
        version = plane.api("GET", "/version")[1]
        #: Of the kube-scheduler that belongs to the API server.
        self.behaviour = behaviour_of(int(version["major"]), int(version["minor"]))

    def __enter__(self) -> Self:
        self._metrics = self._running.enter_context(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @contextmanager
    def interval(self) -> Iterator[None]:
        """The scheduler is away in between."""
        self._running.close()
        yield
        self._metrics = self._running.enter_context(self._start())

    # Setting the scene

    def clear(self) -> None:
        """What the last scene made goes, and a new one begins."""
        for path in self._held:
            self.api("PATCH", path, {"metadata": {"finalizers": None}})
        for path in reversed(self._made):
            self.api("DELETE", f"{path}?gracePeriodSeconds=0")
        self._made, self._held, self.nodes = [], [], 0
        self._prefix = f"r{next(self._scenes)}-"
        self.add_namespace("home")

    def real(self, text: str) -> str:
        return text.replace("@", self._prefix)

    def api(self, method: str, path: str, body: Body | None = None) -> tuple[int, Body]:
        kind = MERGE_PATCH if method == "PATCH" else JSON
        told = None if body is None else json.loads(self.real(json.dumps(body)))
        return self.plane.api(method, self.real(path), told, content_type=kind)

    def make(self, collection: str, body: Body) -> None:
        """Creates something that goes with the scene."""
        status, made = self.api("POST", collection, body)
        assert status == 201, made
        path = self.real(f"{collection}/{made['metadata']['name']}")
        self._made.append(path)
        if made["metadata"].get("finalizers"):
            self._held.append(path)

    def change(self, path: str, patch: Body) -> None:
        status, answer = self.api("PATCH", path, patch)
        assert status == 200, answer

    def remove(self, path: str) -> None:
        status, answer = self.api("DELETE", f"{path}?gracePeriodSeconds=0")
        assert status == 200, answer

    def add_namespace(self, name: str, labels: str = "") -> None:
        # It stays when its scene ends: without pods it means nothing to anybody.
        body = {"metadata": {"name": f"@{name}", "labels": pairs(labels)}}
        assert self.api("POST", "/api/v1/namespaces", body)[0] == 201

    def add_node(self, name: str, what: Body) -> None:
        labels = {**what["labels"], "scene": "@scene"}
        body = node_body(f"@{name}", what["allocatable"], labels, {}, what["taints"])
        body["spec"]["unschedulable"] = what["cordoned"]
        self.make(NODES, body)
        self.nodes += 1

    def add_pod(self, name: str, what: Body, scheduler: str = "somebody") -> str:
        """Its path."""
        collection = PODS.format(what["metadata"]["namespace"])
        meta = {**what["metadata"], "name": name}
        spec = {"schedulerName": scheduler, **what["spec"]}
        self.make(collection, {"metadata": meta, "spec": spec})
        return f"{collection}/{name}"

    def ask(self, name: str, what: Body) -> str:
        """A pod for the scheduler that is judged; its path."""
        return self.add_pod(name, what, self.scheduler)

    # Looking

    def get(self, path: str) -> Body:
        status, found = self.api("GET", path)
        return found if status == 200 else {}

    def node_of(self, path: str) -> str:
        return str(self.get(path).get("spec", {}).get("nodeName", "")).removeprefix(self._prefix)

    def condition(self, path: str) -> Body:
        conditions = self.get(path).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == "PodScheduled"), {})

    def nominated(self, path: str) -> str:
        found = self.get(path).get("status", {}).get("nominatedNodeName", "")
        return str(found).removeprefix(self._prefix)

    def wait_bound(self, path: str) -> str:
        told = self.condition(path).get("message")
        return str(soon(lambda: self.node_of(path), f"{path} bound; before: {told}"))

    def wait_refused(self, path: str) -> str:
        """The message, once it speaks of all nodes of the scene."""

        def refused() -> str:
            condition = self.condition(path)
            assert condition.get("status") != "True", f"bound to {self.node_of(path)}"
            message = str(condition.get("message", ""))
            return message if _nodes_in(message) == self.nodes else ""

        return str(soon(refused, f"{path} refused on {self.nodes} nodes"))

    def attempts(self) -> int:
        """Attempts of the scheduler so far, those of the markers not counted."""
        found = re.findall(
            r"^scheduler_schedule_attempts_total\S* (\S+)$", self._metrics(), re.MULTILINE
        )
        return int(sum(map(float, found))) - self._marked

    def mark(self) -> None:
        """Returns when the scheduler has seen all that was done before, and thought about it.

        A marker is a pod that fits nowhere. The second one is decided after all that the scheduler
        found to do at the first.
        """
        self._mark_once()
        self._mark_once()

    def ready(self) -> None:
        """Returns when the scheduler knows the nodes of this scene, and no others."""
        known = f"0/{self.nodes} nodes are available: {self.nodes} Insufficient cpu"
        wanted = known if self.nodes else "no nodes available"
        soon(lambda: wanted in self._mark_once(), f"the {self.nodes} nodes of the scene known")

    def _mark_once(self) -> str:
        """What the scheduler says of the nodes, those of other scenes kept apart."""
        path = self.ask(f"marker-{next(self._markers)}", MARKER)
        message = soon(lambda: self.condition(path).get("message"), "the marker refused")
        self._made.remove(self.real(path))
        self.remove(path)
        self._marked += 1
        return str(message)


def _nodes_in(message: str) -> int:
    found = re.match(r"0/(\d+) nodes are available", message)
    return int(found[1]) if found else 0 if "no nodes available" in message else -1


@contextmanager
def stage(assets: Path, folder: Path) -> Iterator[Stage]:
    """A stage with the scheduler that `FAIRLEAD_TABLES_JUDGE` names at work on it."""
    # Nodes come without the taint that only a kubelet's word would remove.
    plain = (*NO_SERVICE_ACCOUNT, "TaintNodesByCondition")
    with ControlPlane.start(assets, folder, disable_admission=plain) as plane:
        name = "default-scheduler" if KUBE else "gpu-scheduler"
        ready = Stage(plane, name, lambda: _kube(plane) if KUBE else _fairlead(plane))
        with ready:
            yield ready


@contextmanager
def _kube(plane: ControlPlane) -> Iterator[Metrics]:
    with plane.start_kube_scheduler():
        yield lambda: plane.text("/metrics", of="kube-scheduler")


@contextmanager
def _fairlead(plane: ControlPlane) -> Iterator[Metrics]:
    with fairlead(plane) as running:
        yield lambda: running.get("/metrics")[1]
