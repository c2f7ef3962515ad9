"""The Leases of scheduler names, among processes that no test can start and stop on time."""

import asyncio
import json
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.base.names import is_subdomain
from fairlead.kube.http.reply import Reply
from fairlead.kube.leadership.presence import NameTaken, Presence
from scripted import Request, Scripted, status

GPU, OTHER = "fairlead-serves-gpu-scheduler", "another-host_17_u"


class Server:
    """Leases by name, and a clock that only sleeping moves."""

    def __init__(self) -> None:
        self.leases: dict[str, dict[str, Any]] = {}
        self.slept_s = 0.0
        self.written_at_s: list[float] = []
        #: Happens during each sleep.
        self.meanwhile: Callable[[], None] = lambda: None
        self.transport = Scripted(self._answer)

    def presence(self, *names: str) -> Presence:
        return Presence(self.transport, names, self._sleep)

    def write(self, name: str, holder: str) -> None:
        version = f"{len(self.transport.requests)}-{self.slept_s:g}"
        spec = {"holderIdentity": holder, "renewTime": version}
        self.leases[name] = {"metadata": {"name": name, "resourceVersion": version}, "spec": spec}

    def holder(self, name: str = GPU) -> str:
        return str(self.leases[name]["spec"]["holderIdentity"])

    async def _sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        assert self.slept_s < 60, "it must have ended by now"
        self.meanwhile()
        await asyncio.sleep(0)

    def _answer(self, request: Request) -> Reply:
        if request.method == "GET" and request.path.endswith("/v1/leases"):
            return Reply(200, b'{"items": []}')
        name = request.body["metadata"]["name"] if request.body else request.path.split("/")[-1]
        found = self.leases.get(name)
        if request.method != "GET":
            over = found["metadata"]["resourceVersion"] if found else None
            if request.body["metadata"].get("resourceVersion") != over:
                return status(409, "changed meanwhile")
            self.write(name, request.body["spec"]["holderIdentity"])
            self.written_at_s.append(self.slept_s)
        elif found is None:
            return status(404, "no such lease")
        return Reply(200, json.dumps(self.leases[name]).encode())


async def no_work() -> None:
    pass


async def test_a_name_is_held_during_the_work_and_free_after_it() -> None:
    server, held_by = Server(), list[str]()

    async def work() -> None:
        held_by.append(server.holder())

    await server.presence("gpu-scheduler").during(work)
    assert held_by[0].startswith(f"{socket.gethostname()}_{os.getpid()}_")
    assert server.holder() == ""


async def test_a_lease_has_the_name_of_the_scheduler_if_it_may() -> None:
    server = Server()
    await server.presence("gpu-scheduler", "GPUs of Ann", "GPUs of Bob").during(no_work)
    assert len(server.leases) == 3
    assert GPU in server.leases
    assert all(map(is_subdomain, server.leases))


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_a_name_that_a_living_process_serves_is_taken(where: str) -> None:
    holder = f"{socket.gethostname()}_{os.getppid()}_u" if where == "here" else OTHER
    server = Server()
    server.write(GPU, holder)
    server.meanwhile = lambda: server.write(GPU, holder)
    with pytest.raises(NameTaken, match="serves 'gpu-scheduler' in this cluster"):
        await server.presence("gpu-scheduler").during(no_work)
    assert server.holder() == holder


async def test_a_name_of_which_nothing_is_heard_for_eight_seconds_is_free() -> None:
    server = Server()
    server.write(GPU, OTHER)
    await server.presence("gpu-scheduler").during(no_work)
    assert server.written_at_s[0] == 8.0


async def test_work_ends_when_another_has_taken_its_name_meanwhile() -> None:
    server, ended = Server(), list[str]()

    async def work() -> None:
        server.meanwhile = lambda: server.write(GPU, OTHER)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    with pytest.raises(NameTaken, match="process 17 on another-host"):
        await server.presence("gpu-scheduler").during(work)
    assert ended == ["work"]
    assert server.holder() == OTHER
