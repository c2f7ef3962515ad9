"""A story of nodes that are requested: answers of the API server, and requests, are changed."""

import asyncio
import json
from random import Random
from typing import cast

from fairlead.apps.run.node_requests import NodeRequestCare
from fairlead.apps.run.served_kinds import WatchedKind
from fairlead.engine import events
from fairlead.kube.http.reply import Reply
from fairlead.kube.http.transport import Transport
from fairlead.kube.provisioning import REQUESTED_FOR, REQUESTS
from fairlead.model.node_requests import RequestTerms
from fuzz.mutations import mutated
from fuzz.objects import Json, _small_pod, pod
from fuzz.optional_objects import GANGS, REQUEST
from fuzz.target import _NO_CLIENT, Target
from fuzz.watched import Watched

STEPS = 30


class _Server:
    """Has any pod that is asked for, and takes what is written."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.written: list[Json] = []

    async def request(self, method: str, _path: str, *, body: bytes = b"") -> Reply:
        if method == "GET":
            return Reply(200, json.dumps(mutated(self._rng, pod())).encode())
        self.written.append(json.loads(body or b"{}"))
        return Reply(201 if method == "POST" else 200, b"{}")


class NodeRequestsStory:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.target = Target(self.rng)
        self.server = _Server(self.rng)
        self._number = 0
        self.care = NodeRequestCare(
            _NO_CLIENT,
            cast(Transport, self.server),
            RequestTerms(),
            lambda: self.target.engine.node_requests,
            self.target.feed,
            self.target.containment.supervise,
            lambda: True,
        )
        (watch,) = self.care._kinds._watches.values()
        self.watched = Watched(self.target, watch)
        self.target.feed(events.NodeRequestsServed(is_on=True))

    def show(self) -> None:
        obj = mutated(self.rng, REQUEST)
        meta = obj.get("metadata")
        said = meta.get("annotations") if isinstance(meta, dict) else None
        if isinstance(said, dict) and self.rng.random() < 0.7:
            said[REQUESTED_FOR] = self.rng.choice(GANGS)
        change = "DELETED" if self.rng.random() < 0.2 else "ADDED"
        self.watched.show(obj, f"fairlead-{self.rng.choice('ab')}", "default", change)

    def ask(self) -> None:
        """A pod of a gang that no node has room for."""
        self._number += 1
        name, words, limits = self.rng.choice("gh"), {"fairlead.dev/gang-min": "1"}, {}
        if self.rng.random() < 0.5:
            limits = {"nvidia.com/gpu": "64"}
        else:
            words |= {"fairlead.dev/gpu-share": "0.5", "fairlead.dev/gpu-count": "16"}
        found = _small_pod(words, limits)
        found["metadata"] |= {"name": f"asks-{self._number}", "labels": {"fairlead.dev/gang": name}}
        self.target.show(found)

    def tend(self) -> None:
        self.care._pauses.clear()
        served = WatchedKind(self.watched.watch, "v1", self.watched._reflector)
        asyncio.run(self.care._tend(served))

    def run(self) -> int:
        for _ in range(STEPS):
            self.rng.choice((self.show, self.show, self.tend, self.ask))()
            self.target.decide(self.rng.choice((0, 1, 3)))
        self.watched.is_removed()
        self.target.feed(events.NodeRequestsServed(is_on=False))
        self.target.check()
        return sum(each.get("kind") == REQUESTS.kind for each in self.server.written)
