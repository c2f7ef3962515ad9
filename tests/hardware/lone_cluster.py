"""The embedded API server and an agent beside it, for a machine that has no cluster."""

import contextlib
import json
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

INVENTORY = "fairlead.dev/inventory"
PATIENCE_S = 60.0


@dataclass
class Agent:
    log: Path
    process: subprocess.Popen[bytes]
    url: str = ""


class Cluster:
    def __init__(self, kubeconfig: Path, env: Mapping[str, str]) -> None:
        self.kubeconfig = kubeconfig
        self._env = dict(env)
        document = yaml.safe_load(kubeconfig.read_text())
        self._server = document["clusters"][0]["cluster"]["server"]
        self._token = document["users"][0]["user"]["token"]
        # It is ours, on loopback, and its authority is a minute old.
        self._tls = ssl._create_unverified_context()

    @classmethod
    @contextlib.contextmanager
    def start(cls, folder: Path, env: Mapping[str, str]) -> Iterator[Self]:
        kubeconfig = folder / "kubeconfig"
        command = [
            sys.executable, "-m", "fairlead.sim.apiserver", "--no-controllers",
            "--kubeconfig-out", str(kubeconfig),
        ]  # fmt: skip
        with (folder / "server.log").open("wb") as log:
            process = subprocess.Popen(command, env=dict(env), stdout=log, stderr=log)
        try:
            cls.eventually(kubeconfig.exists)
            yield cls(kubeconfig, env)
        finally:
            process.terminate()
            process.wait(20)

    @contextlib.contextmanager
    def agent(self, command: list[str], node: str) -> Iterator[Agent]:
        path = self.kubeconfig.with_name("agent.log")
        options = [
            "--node", node, "--kubeconfig", str(self.kubeconfig), "--port", "0", "--address",
            "127.0.0.1", "--interval", "2s", "--unassigned-after", "3s",
        ]  # fmt: skip
        with path.open("wb") as log:
            process = subprocess.Popen([*command, *options], env=self._env, stdout=log, stderr=log)
        agent = Agent(path, process)
        try:
            agent.url = self.eventually(lambda: _started(agent.log))
            yield agent
        finally:
            process.terminate()
            process.wait(20)

    def create_node(self, name: str) -> None:
        self.api("POST", "/api/v1/nodes", {"metadata": {"name": name}})

    def inventory(self, node: str) -> dict[str, Any]:
        meta = self.api("GET", f"/api/v1/nodes/{node}")["metadata"]
        return json.loads(meta.get("annotations", {}).get(INVENTORY, "{}"))

    def health(self, node: str) -> str:
        return self.inventory(node)["gpus"][0].get("health", "ok")

    def events(self, reason: str) -> list[dict[str, Any]]:
        found = self.api("GET", "/apis/events.k8s.io/v1/events")["items"]
        return [event for event in found if event["reason"] == reason]

    def api(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            self._server + path,
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=10, context=self._tls) as reply:
            return json.load(reply)

    @staticmethod
    def eventually(holds: Callable[[], Any]) -> Any:
        until = time.monotonic() + PATIENCE_S
        while not (answer := holds()):
            if time.monotonic() > until:
                raise TimeoutError(f"not within {PATIENCE_S:g} s")
            time.sleep(0.2)
        return answer


def _started(log: Path) -> str:
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return next((line["health"] for line in lines if line["event"] == "started"), "")
