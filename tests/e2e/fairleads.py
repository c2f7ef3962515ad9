"""Fairlead as its users start it: a process of its own, against a real API server."""

import json
import os
import re
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from fairlead.sim.controlplane import ControlPlane
from preloaded import FAIRLEAD, Program

#: How long a test waits for what it needs. It ends sooner when that comes; a busy machine is slow.
PATIENCE_S = 180.0


Started = subprocess.Popen[bytes] | Program


class Running:
    """A `fairlead run` under way."""

    def __init__(self, process: Started, log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def records(self) -> list[dict[str, Any]]:
        whole, _, _ = self.log.read_text().rpartition("\n")  # the last line may be half written
        return [json.loads(line) for line in whole.splitlines() if line[:1] == "{"]

    @property
    def url(self) -> str:
        eventually(lambda: any(r["event"] == "started" for r in self.records))
        return next(r["health"] for r in self.records if r["event"] == "started")

    def get(self, path: str) -> tuple[int, str]:
        return fetched(self.url + path)

    def metric(self, name: str, **labels: str) -> float:
        wanted = "".join(rf'(?=[^}}]*{key}="{value}")' for key, value in labels.items())
        pattern = rf"^{name}(?:{{{wanted}[^}}]*}})? (\S+)$"
        found = re.search(pattern, self.get("/metrics")[1], re.MULTILINE)
        return float(found[1]) if found else 0.0


@contextmanager
def fairlead(
    plane: ControlPlane,
    *options: str,
    env: Mapping[str, str] | None = None,
    kubeconfig: Path | None = None,
    name: str = "fairlead",
    ends_with: int = 0,
    program: str = "run",
    loads: bool = False,
) -> Iterator[Running]:
    """Runs until the block ends, then must stop cleanly.

    `ends_with` is the status of one that is to end otherwise, such as -9 if the block kills it.
    With `loads`, it is started as a user starts it, for tests of the start itself.
    """
    log = plane.logs / f"{name}-{time.monotonic_ns()}.log"
    access = kubeconfig or plane.kubeconfig_for("system:kube-scheduler")
    command = [str(FAIRLEAD), program, "--port", "0", "--kubeconfig", str(access), *options]
    with log.open("wb") as out:
        process = started(command, out, env or {}, loads=loads)
    running = Running(process, log)
    try:
        yield running
    finally:
        status = stopped(process)
    assert status == ends_with, f"fairlead ended with {status}: {log.read_text()[-2000:]}"


def started(command: list[str], out: IO[bytes], env: Mapping[str, str], *, loads: bool) -> Started:
    start = subprocess.Popen if loads else Program
    return start(command, stdout=out, stderr=out, env={**os.environ, **env})


def stopped(process: Started) -> int:
    """Its status after a SIGTERM, which ends it as any other program before it has started."""
    eventually(lambda: process.poll() is not None or _catches(process.pid, signal.SIGTERM))
    process.terminate()
    return process.wait(PATIENCE_S)


def _catches(pid: int, number: signal.Signals) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    caught = re.search(r"^SigCgt:\s*(\w+)$", status, re.MULTILINE)
    return bool(caught and int(caught[1], 16) >> (number - 1) & 1)


def eventually(
    holds: Callable[[], Any],
    timeout_s: float = PATIENCE_S,
    what: str = "",
    *,
    pause_s: float = 0.05,
) -> Any:
    """The first true answer; fails when none comes in time."""
    until = time.monotonic() + timeout_s
    while not (answer := holds()):
        assert time.monotonic() < until, f"not within {timeout_s} s: {what or holds}"
        time.sleep(pause_s)
    return answer


def fetched(url: str, context: ssl.SSLContext | None = None) -> tuple[int, str]:
    """The status and the text; of what a program keeps for a while, one made after this call."""
    status, text, tag = _got(url, context)
    if not tag:
        return status, text

    def newer() -> tuple[int, str] | None:
        status, text, later = _got(url, context)
        return (status, text) if later != tag else None

    return eventually(newer, what=f"a new {url}")


def _got(url: str, context: ssl.SSLContext | None) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S, context=context) as reply:
            return reply.status, reply.read().decode(), reply.headers.get("ETag", "")
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode(), ""


@contextmanager
def paused(plane: ControlPlane, name: str) -> Iterator[None]:
    """A process of the plane keeps its connections and answers nothing, for the time of a block."""
    plane.pause(name)
    try:
        yield
    finally:
        plane.resume(name)


class Pods:
    """The pods of one namespace, as a user sees them."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def create(
        self, name: str, gpus: int = 0, scheduler: str = "gpu-scheduler", **spec: Any
    ) -> dict[str, Any]:
        meta = {"name": name, **spec.pop("metadata", {})}
        requests = spec.pop("requests", {})
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        container = {
            "name": "main", "image": "x", "resources": {"limits": limits, "requests": requests},
            **spec.pop("container", {}),
        }  # fmt: skip
        body = {
            "metadata": meta,
            "spec": {"schedulerName": scheduler, "containers": [container], **spec},
        }
        status, answer = self.plane.api("POST", self.path, body)
        assert status == 201, answer
        return answer

    def get(self, name: str) -> dict[str, Any]:
        status, pod = self.plane.api("GET", f"{self.path}/{name}")
        return pod if status == 200 else {}

    def node(self, name: str) -> str:
        return self.get(name).get("spec", {}).get("nodeName", "")

    def nodes(self) -> dict[str, str]:
        _, found = self.plane.api("GET", self.path)
        return {p["metadata"]["name"]: p["spec"].get("nodeName", "") for p in found["items"]}

    def condition(self, name: str) -> dict[str, Any]:
        conditions = self.get(name).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == "PodScheduled"), {})

    def events(self, name: str, reason: str = "") -> list[dict[str, Any]]:
        _, found = self.plane.api(
            "GET", f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        )
        return [
            event
            for event in found["items"]
            if event["regarding"].get("name") == name and reason in ("", event["reason"])
        ]

    def delete(self, name: str) -> None:
        self.plane.api("DELETE", f"{self.path}/{name}?gracePeriodSeconds=0")

    def wait_bound(self, *names: str, timeout_s: float = PATIENCE_S) -> dict[str, str]:
        def all_bound() -> dict[str, str] | None:
            nodes = {name: self.node(name) for name in names}
            return nodes if all(nodes.values()) else None

        return eventually(all_bound, timeout_s, f"{names} bound")

    def wait_refused(self, name: str, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        def refused() -> dict[str, Any] | None:
            condition = self.condition(name)
            return (
                condition
                if condition.get("status") == "False" and condition.get("message")
                else None
            )

        return eventually(refused, timeout_s, f"{name} refused")
