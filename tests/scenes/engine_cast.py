"""Scenes in this process: the engine, on what the embedded server makes of objects.

There is no socket, no other process and no waiting. Whatever is written is shown to the engine at
once, its instructions become writes, and time passes when somebody waits for something. The words
of `kube.codec` and the defaults of the API are those of the live cast; its watches and its writers
are not here.
"""

import json
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.engine import events, instructions
from fairlead.engine.attempts import Outcome
from fairlead.engine.engine import Engine
from fairlead.kube.bind_encoder import DialectEncoder
from fairlead.kube.budgets import decode_budget
from fairlead.kube.codec import decode_namespace, decode_node, decode_pod
from fairlead.kube.failures import Failures
from fairlead.kube.storage_codec import STORAGE_KINDS
from fairlead.kube.writes.binder import encode_binding
from fairlead.model.behaviour import KUBERNETES_1_36
from fairlead.sim.apiserver import verbs
from fairlead.sim.apiserver.api import ApiState
from fairlead.sim.apiserver.bootstrap import bootstrap
from fairlead.sim.apiserver.paths import locate
from fairlead.sim.apiserver.status import ApiStatusError
from fairlead.sim.apiserver.store import Change, Store
from fairlead.sim.apiserver.strategic import apply_strategic
from fairlead.sim.controlplane.client import JSON
from stages import Stage
from tables import NODES, Body

_STRATEGIC = "application/strategic-merge-patch+json"
#: Less than the five minutes after which everybody tries again.
_PATIENCE_S = 60.0
_ENDED = {"Succeeded", "Failed"}

Decode = Callable[[bytes], Any]
MadeOf = Callable[[Any], events.Event]
#: By collection of the store: who reads its objects, and what the engine hears of one that is
#: there, and of one that is gone.
_KINDS: dict[str, tuple[Decode, MadeOf, MadeOf]] = {
    "nodes": (decode_node, events.NodeSeen, lambda node: events.NodeGone(node.name)),
    "pods": (decode_pod, events.PodSeen, events.PodGone),
    "namespaces": (
        decode_namespace,
        lambda seen: events.NamespaceSeen(seen.name, seen.labels, seen.queue),
        lambda gone: events.NamespaceSeen(gone.name, None),
    ),
    "poddisruptionbudgets.policy": (
        decode_budget,
        events.BudgetSeen,
        lambda gone: events.BudgetGone(gone.key),
    ),
}


def _storage() -> Iterator[tuple[str, tuple[Decode, MadeOf, MadeOf]]]:
    for path, decode in STORAGE_KINDS.items():
        *_, group, _, plural = path.split("/")
        name = plural if group == "api" else f"{plural}.{group}"
        yield name, (decode, events.StorageSeen, events.StorageGone)


_KINDS |= dict(_storage())


@dataclass(frozen=True)
class _Request:
    """As much of an HTTP request as the verbs of the embedded server look at."""

    method: str
    body: bytes
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        return self.body


class EngineStage(Stage):
    behaviour = KUBERNETES_1_36

    def __init__(self) -> None:
        super().__init__("gpu-scheduler")
        self._server = ApiState(Store())
        bootstrap(self._server)
        self._profiles = plan(RunOptions()).profiles
        self._now_s = 0.0
        self._attempts = 0
        self._denial = ""
        self._begin()
        self._server.store.written.append(self._on_write)

    def _begin(self) -> None:
        """An engine that is shown everything."""
        self._away = False
        self._engine = Engine(
            self._profiles, encode=DialectEncoder(time.time_ns, epoch=None, failures=Failures())
        )
        self._news: list[events.Event] = [events.ServerKnown(self.behaviour)]
        for name in _KINDS:
            for entry in self._server.store.collection(name).entries.values():
                self._tell(name, Change("ADDED", entry.version, entry, None))
        self._settle()

    @contextmanager
    def interval(self) -> Iterator[None]:
        self._away = True
        yield
        self._begin()

    @contextmanager
    def nobody_may_delete(self) -> Iterator[None]:
        self._denial = "not today"
        yield
        self._denial = ""

    # The API server

    def request(self, method: str, path: str, body: Body | None, kind: str) -> tuple[int, Body]:
        answer = self._ask(method, path, b"" if body is None else json.dumps(body).encode(), kind)
        self._settle()
        return answer

    def _ask(self, method: str, path: str, body: bytes, kind: str) -> tuple[int, Body]:
        url = urlsplit(path)
        call = locate(self._server.kinds, url.path, dict(parse_qsl(url.query)))
        assert call is not None, f"{path} is not served"
        request: Any = _Request(method, body, {"Content-Type": kind})
        try:
            done = _ended(verbs.perform(self._server, call, request))
        except ApiStatusError as refused:
            return refused.code, refused.document()
        return done.code, json.loads(done.body)

    def make(self, collection: str, body: Body) -> None:
        """A node is first seen without the taint that only a kubelet's word would remove."""
        self._away = collection == NODES
        super().make(collection, body)
        if self._away:
            self.change(self._made[-1], {"spec": {"taints": body["spec"]["taints"] or None}})
            self._away = False
            entry = self._server.store.collection("nodes").entries[
                self.real(body["metadata"]["name"])
            ]
            self._tell("nodes", Change("ADDED", entry.version, entry, None))
            self._settle()

    def resize(self, path: str, patch: Body) -> None:
        """Without the checks of the real server: the embedded one has no `resize`."""
        call = locate(self._server.kinds, self.real(path), {})
        assert call is not None
        pod = self._server.entry(call.kind, call.key).object()
        self._server.store.put(call.kind, call.key, apply_strategic(pod, patch, "Pod"))
        self._settle()

    # What the engine sees

    def _on_write(self, collection: str, change: Change) -> None:
        if collection in _KINDS and not self._away:
            self._tell(collection, change)

    def _tell(self, collection: str, change: Change) -> None:
        decode, seen, gone = _KINDS[collection]
        is_gone = change.type == "DELETED" or change.entry.fields.get("status.phase") in _ENDED
        self._news.append((gone if is_gone else seen)(decode(change.entry.raw)))

    def _settle(self) -> None:
        """The engine takes in what happened, and decides until there is nothing to do."""
        while not self._away and self._turn():
            pass

    def _turn(self) -> bool:
        """Whether there may be more to do."""
        while self._news:
            self._carry_out(self._engine.handle(self._news.pop(0), now=self._now_s))
        self._carry_out(self._engine.tend(now=self._now_s))
        attempt = self._engine.decide(now=self._now_s)
        if attempt is not None:
            self._attempts += attempt.outcome is not Outcome.UNFINISHED
            self._carry_out(attempt.instructions)
            return True
        due_s = self._engine.wake_at_s()
        return bool(self._news) or (due_s is not None and due_s <= self._now_s)

    # What it wants

    def _carry_out(self, made: Iterable[instructions.Instruction]) -> None:
        for each in made:
            match each:
                case instructions.Bind():
                    self._bind(each)
                case instructions.Evict():
                    self._evict(each)
                case instructions.AnnounceFailure():
                    self._announce(each)
                case instructions.ClearNomination(pod):
                    self._patch_status(pod, {"nominatedNodeName": None})
                case instructions.AnnounceScheduled():
                    pass
                case _:
                    raise AssertionError(f"nobody carries this out here: {each}")

    def _bind(self, bind: instructions.Bind) -> None:
        status, said = self._ask("POST", f"{_path(bind.pod)}/binding", encode_binding(bind), JSON)
        assert status == 201, said
        self._news.append(events.BindDone(bind.pod.uid))

    def _evict(self, evict: instructions.Evict) -> None:
        for victim in () if self._denial else evict.victims:
            self._ask("DELETE", _path(victim), b"", JSON)
        self._news.append(events.EvictionEnded(evict.pod.uid, self._denial))

    def _announce(self, failure: instructions.AnnounceFailure) -> None:
        told = {"type": "PodScheduled", "status": "False"}
        told |= {"reason": failure.reason, "message": failure.message}
        status: Body = {"conditions": [told]}
        if failure.nominated is not None:
            status["nominatedNodeName"] = failure.nominated or None
        self._patch_status(failure.pod, status)

    def _patch_status(self, pod: Any, status: Body) -> None:
        body = json.dumps({"metadata": {"uid": pod.uid}, "status": status}).encode()
        self._ask("PATCH", f"{_path(pod)}/status", body, _STRATEGIC)

    # Waiting

    def soon(self, holds: Callable[[], Any], what: str) -> Any:
        until_s = self._now_s + _PATIENCE_S
        while not (answer := holds()):
            due_s = self._engine.wake_at_s()
            assert (due_s or until_s) < until_s, f"never: {what}"
            self._pass(max(0.001, (due_s or 0.0) - self._now_s))
        return answer

    def _pass(self, seconds: float) -> None:
        self._now_s += seconds
        self._settle()

    def wait_out_backoff(self, path: str) -> None:
        self._pass(1.0)

    def now_s(self) -> float:
        return self._now_s

    def attempts(self) -> int:
        return self._attempts

    def mark(self) -> None:
        """It does so at once; in vain tries come with time, if ever."""
        self._pass(10.0)

    def ready(self) -> None:
        assert len(self._engine.cluster) == self.nodes


def _path(pod: Any) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _ended(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of what waits for nobody."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")
