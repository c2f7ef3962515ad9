"""A real kube-scheduler that has `fairlead extender` as its extender, and what is sold by both."""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec

from fairlead.kube.codec import decode_node, decode_pod
from fairlead.sim.controlplane import ControlPlane
from fairleads import PATIENCE_S, Running, eventually, fairlead
from ledger_audit import books
from yaml_texts import yaml_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "08-extender" / "kube-scheduler.yaml"
SCHEDULER = "asks-fairlead"


def entry(url: str, **changes: Any) -> dict[str, Any]:
    """The example's extender, found at this URL; what is changed to None is left out."""
    (found,) = yaml_of(EXAMPLE)["extenders"]
    said = {**found, "urlPrefix": url, **changes}
    return {key: value for key, value in said.items() if value is not None}


@contextmanager
def kube_scheduler(plane: ControlPlane, url: str, **changes: Any) -> Iterator[None]:
    """The real one, serving `SCHEDULER`, with the example's configuration."""
    config = {
        "profiles": [{"schedulerName": SCHEDULER}],
        "extenders": [entry(url, **changes)],
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,
    }
    with plane.start_kube_scheduler(config, name=f"kube-scheduler-{SCHEDULER}"):
        yield


@contextmanager
def extender(
    plane: ControlPlane, *options: str, ready: bool = True, **how: Any
) -> Iterator[Running]:
    with fairlead(plane, *options, program="extender", name="extender", **how) as process:
        if ready:
            eventually(lambda: process.get("/readyz") == (200, "ok"), what="the extender is ready")
        yield process


@contextmanager
def advised(plane: ControlPlane, *options: str, **changes: Any) -> Iterator[Running]:
    """Both of them, over plain HTTP."""
    with extender(plane, *options) as process, kube_scheduler(plane, process.url, **changes):
        yield process


class Asking:
    """Questions by hand, as anybody could send them."""

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        self._url, self._context = url, context

    def post(self, verb: str, body: bytes) -> tuple[int, str]:
        return self._sent(
            Request(f"{self._url}/{verb}", body, {"Content-Type": "application/json"})
        )

    def get(self, path: str) -> tuple[int, str]:
        return self._sent(Request(self._url + path))

    def ask(self, verb: str, question: dict[str, Any]) -> dict[str, Any]:
        status, said = self.post(verb, json.dumps(question).encode())
        assert status == 200, said
        answer: dict[str, Any] = json.loads(said)
        return answer

    def bind(self, pod: dict[str, Any], node: str) -> dict[str, Any]:
        meta = pod["metadata"]
        names = {"PodName": meta["name"], "PodNamespace": meta["namespace"]}
        return self.ask("bind", {**names, "PodUID": meta["uid"], "Node": node})

    def _sent(self, request: Request) -> tuple[int, str]:
        try:
            with urlopen(request, timeout=PATIENCE_S, context=self._context) as reply:
                return reply.status, reply.read().decode()
        except HTTPError as refused:
            return refused.code, refused.read().decode()


def inventory(node: str, gpus: int, memory_mib: int = 16_000) -> dict[str, str]:
    listed = [
        {"uuid": f"GPU-{node}-{n}", "index": n, "model": "H100", "memoryMib": memory_mib}
        for n in range(gpus)
    ]
    return {"fairlead.dev/inventory": json.dumps({"version": 2, "gpus": listed})}


def complaints(plane: ControlPlane) -> list[str]:
    """What is wrong with how GPUs were sold, from what the API server says and nothing else."""
    pods = [
        decode_pod(msgspec.json.encode(each))
        for each in plane.api("GET", "/api/v1/pods")[1]["items"]
        if each["spec"].get("nodeName")
    ]
    found = []
    for each in plane.api("GET", "/api/v1/nodes")[1]["items"]:
        node = decode_node(msgspec.json.encode(each))
        grants = [pod.grant for pod in pods if pod.node == node.name and pod.grant]
        told = books(node.inventory, grants)
        found += [f"{a.gpu.uuid}: {a.complaint()}" for a in told.accounts if a.complaint()]
        if told.accounts and told.unknown:
            found.append(f"{node.name}: {told.unknown} GPUs, which ones is not known")
    return found
