"""The stage on which scenes are played one after the other, whoever plays them.

A cast is an API server and the scheduler that is judged: `engine_cast` has both in this process,
`live_cast` has real ones.
"""

import itertools
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from fairlead.model.behaviour import Behaviour
from fairlead.sim.controlplane import served
from fairlead.sim.controlplane.client import JSON, MERGE_PATCH
from fairlead.sim.controlplane.nodes import node_body
from preemption_scenes import PRIORITIES
from tables import NODES, PODS, Body, pairs


class Stage:
    """`clear` before each scene."""

    #: Whether the pods of the judged scheduler are kube-scheduler's, not Fairlead's.
    is_kube = False
    #: Of the kube-scheduler that belongs to the API server.
    behaviour: Behaviour

    def __init__(self, scheduler: str) -> None:
        self.scheduler = scheduler
        self._scenes = itertools.count()
        self._prefix = ""
        self._made: list[str] = []
        self._held: list[str] = []
        self.nodes = 0

    # What a cast does

    def request(self, method: str, path: str, body: Body | None, kind: str) -> tuple[int, Body]:
        """A request to the API server, by an administrator."""
        raise NotImplementedError

    def soon(self, holds: Callable[[], Any], what: str) -> Any:
        """The first true answer; far sooner than everybody tries again anyway."""
        raise NotImplementedError

    def now_s(self) -> float:
        """A clock that never goes back."""
        raise NotImplementedError

    def attempts(self) -> int:
        """Attempts of the scheduler so far."""
        raise NotImplementedError

    def mark(self) -> None:
        """Returns when the scheduler has seen all that was done before, and thought about it."""
        raise NotImplementedError

    def ready(self) -> None:
        """Returns when the scheduler knows the nodes of this scene, and no others."""
        raise NotImplementedError

    def wait_out_backoff(self, path: str) -> None:
        """Returns when the pod, refused once, would be tried at once if something helped it."""
        raise NotImplementedError

    def interval(self) -> AbstractContextManager[None]:
        """The scheduler is away meanwhile."""
        raise NotImplementedError

    def nobody_may_delete(self) -> AbstractContextManager[None]:
        """Meanwhile the pod `x` of the scene cannot be deleted."""
        raise NotImplementedError

    # Setting the scene

    def make_priorities(self) -> None:
        """Once for all scenes."""
        for name, value in PRIORITIES.items():
            policy = {"preemptionPolicy": "Never"} if name == "gentle" else {}
            served.priority_class(self, name, value, **policy)

    def clear(self) -> None:
        """What the last scene made goes, and a new one begins."""
        for path in self._held:
            self.api("PATCH", path, {"metadata": {"finalizers": None}})
        for path in reversed(self._made):
            self.api("DELETE", f"{path}?gracePeriodSeconds=0")
        self._made, self._held, self.nodes = [], [], 0
        self._prefix = f"{self.scheduler[0]}{next(self._scenes)}-"
        self.add_namespace("home")

    def real(self, text: str) -> str:
        return text.replace("@", self._prefix)

    def api(self, method: str, path: str, body: Body | None = None) -> tuple[int, Body]:
        kind = MERGE_PATCH if method == "PATCH" else JSON
        told = None if body is None else json.loads(self.real(json.dumps(body)))
        return self.request(method, self.real(path), told, kind)

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

    def resize(self, path: str, patch: Body) -> None:
        """Other resources for the containers of a pod."""
        strategic = "application/strategic-merge-patch+json"
        status, answer = self.request("PATCH", self.real(f"{path}/resize"), patch, strategic)
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
        return str(self.soon(lambda: self.node_of(path), f"{path} bound; before: {told}"))

    def wait_refused(self, path: str) -> str:
        """The message, once it speaks of all nodes of the scene."""

        def refused() -> str:
            condition = self.condition(path)
            assert condition.get("status") != "True", f"bound to {self.node_of(path)}"
            message = str(condition.get("message", ""))
            return message if _nodes_in(message) == self.nodes else ""

        return str(self.soon(refused, f"{path} refused on {self.nodes} nodes"))


def _nodes_in(message: str) -> int:
    told = message.partition(" nodes are available")[0].removeprefix("0/")
    return int(told) if told.isdecimal() else 0 if "no nodes available" in message else -1
