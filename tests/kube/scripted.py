"""A transport that answers as told, for what no real API server can be made to do."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from fairlead.kube.http.reply import Reply
from fairlead.model.pods import Pod


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    body: Any
    timeout_s: float


Answer = Callable[[Request], Awaitable[Reply] | Reply | Exception]


def status(code: int, message: str = "", **more: Any) -> Reply:
    return Reply(code, json.dumps({"kind": "Status", "message": message}).encode(), **more)


OK = status(201)


@dataclass
class Scripted:
    """Answers every request by `answer`; exceptions it returns are raised."""

    answer: Answer = lambda _: OK
    requests: list[Request] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, timeout_s: float = 30, **_: Any
    ) -> Reply:
        request = Request(method, path, json.loads(body) if body else None, timeout_s)
        self.requests.append(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(0)
            answer = self.answer(request)
            if isinstance(answer, Awaitable):
                answer = await answer
        finally:
            self.under_way -= 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sent(self, method: str) -> list[Request]:
        return [request for request in self.requests if request.method == method]


def in_turn(*answers: Reply | Exception, then: Reply | Exception = OK) -> Answer:
    """These answers one after the other, and the last one for ever."""
    left = list(answers)
    return lambda _: left.pop(0) if left else then


def a_pod(name: str = "p", **more: Any) -> Pod:
    return Pod("ns", name, **{"uid": f"uid-{name}", "version": "7", "scheduler": "s", **more})


def as_json(pod: Pod, **annotations: str) -> Reply:
    """The pod as a GET would show it."""
    meta = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "resourceVersion": "8"}
    body = {
        "metadata": {**meta, "annotations": annotations},
        "spec": {"nodeName": pod.node, "schedulingGates": [{"name": gate} for gate in pod.gates]},
    }
    return Reply(200, json.dumps(body).encode())


async def until(check: Callable[[], object], within_s: float = 180.0) -> None:
    async with asyncio.timeout(within_s):
        while not check():
            await asyncio.sleep(0.001)
