"""`fairlead webhook` as a process, and a real API server that asks it."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Self

from fairlead.sim.controlplane import ControlPlane, served
from fairleads import FAIRLEAD, Started, eventually, fetched, started, stopped
from manifests import NAMESPACE, documents, wait_for_rights
from manifests import WEBHOOK as IDENTITY

#: What the configurations of the webhook need, and its pods do not.
_KINDS = {
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "Secret": f"/api/v1/namespaces/{NAMESPACE}/secrets",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
    **{kind: served.COLLECTIONS[kind] for kind in (
        "ClusterRole", "ClusterRoleBinding",
        "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
    )},
}  # fmt: skip
SECRET = f"{_KINDS['Secret']}/fairlead-webhook-tls"
CONFIGURATIONS = [f"{_KINDS[kind]}/fairlead" for kind in _KINDS if kind.endswith("Configuration")]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def selecting(namespaces: Sequence[str]) -> dict[str, Any]:
    """A selector of namespaces by name; of all if none is named."""
    wanted = {
        "key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces),
    }  # fmt: skip
    return {"matchExpressions": [wanted]} if namespaces else {}


@contextmanager
def configured(plane: ControlPlane, port: int, *namespaces: str) -> Iterator[None]:
    """The webhook without its pods: the API server asks on this port of the machine.

    About pods in these namespaces only, if any are named.
    """
    plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    made = []
    where = namespaces[0] if namespaces else "default"
    try:
        for found in documents(component="webhook"):
            if found["kind"] not in _KINDS:
                continue
            for hook in found.get("webhooks", ()):
                route = hook["clientConfig"].pop("service")["path"]
                hook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{route}"
                hook["namespaceSelector"] = selecting(namespaces)
                hook["timeoutSeconds"] = 20  # a busy machine is slow
            made.append(served.create(plane, found, _KINDS[found["kind"]]))
        wait_for_rights(plane, "webhook")
        yield
    finally:
        for path in reversed(made):
            plane.api("DELETE", path)
        served.until(lambda: not _asked(plane, where), "the webhook is not asked any more")
        served.remove_namespace(plane, NAMESPACE)


class Balancer:
    """Stands for the Service: new connections go to the replicas in turn, to none that leaves."""

    def __init__(self, *ports: int) -> None:
        self.ports = list(ports)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for end in (self._listener, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join(10)

    def _start(self, work: Callable[..., None], *given: object) -> None:
        thread = threading.Thread(target=work, args=given)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        for turn in count():
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return  # we are done
            self._ends.append(caller)
            with suppress(OSError):
                self._join(caller, self.ports[turn % len(self.ports)])
                continue
            caller.close()

    def _join(self, caller: socket.socket, port: int) -> None:
        replica = socket.create_connection(("127.0.0.1", port))
        self._ends.append(replica)
        self._start(_pass_on, caller, replica)
        self._start(_pass_on, replica, caller)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Webhook:
    """A `fairlead webhook` under way."""

    def __init__(self, process: Started, log: Path, port: int) -> None:
        self.process = process
        self.log = log
        self.port = port

    @property
    def records(self) -> list[dict[str, Any]]:
        whole, _, _ = self.log.read_text().rpartition("\n")  # the last line may be half written
        return [json.loads(line) for line in whole.splitlines() if line[:1] == "{"]

    def get(self, path: str) -> tuple[int, str]:
        nobody = ssl.create_default_context()
        nobody.check_hostname, nobody.verify_mode = False, ssl.CERT_NONE
        return fetched(f"https://127.0.0.1:{self.port}{path}", nobody)


@contextmanager
def webhook(
    plane: ControlPlane,
    port: int,
    *options: str,
    env: Mapping[str, str] | None = None,
    loads: bool = False,
) -> Iterator[Webhook]:
    """Runs, with the rights of its ServiceAccount, until the block ends; then must stop cleanly."""
    log = plane.logs / f"webhook-{time.monotonic_ns()}.log"
    access = plane.kubeconfig_for(IDENTITY)
    command = [
        str(FAIRLEAD), "webhook", "--kubeconfig", str(access), "--address", "127.0.0.1",
        "--port", str(port), "--host", "127.0.0.1", "--namespace", NAMESPACE, *options,
    ]  # fmt: skip
    with log.open("wb") as out:
        process = started(command, out, env or {}, loads=loads)
    running = Webhook(process, log, port)
    try:
        eventually(
            lambda: process.poll() is not None or '"started"' in log.read_text(),
            what="the webhook started",
        )
        assert process.poll() is None, log.read_text()[-2000:]
        yield running
    finally:
        status = stopped(process)
    assert status == 0, f"fairlead webhook ended with {status}: {log.read_text()[-2000:]}"


def pod(
    name: str = "",
    *,
    scheduler: str = "gpu-scheduler",
    annotations: Mapping[str, str] | None = None,
    env: list[dict[str, Any]] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    container = {"name": "main", "image": "x", **({} if env is None else {"env": env})}
    named = {"name": name} if name else {"generateName": "some-"}
    return {
        "metadata": {**named, "annotations": dict(annotations or {})},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }


def environment(found: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The variables of every container, init containers first."""
    spec = found["spec"]
    return [one.get("env", []) for one in (*spec.get("initContainers", ()), *spec["containers"])]


def _asked(plane: ControlPlane, namespace: str) -> bool:
    """Whether the webhook is asked about our pods there, and answers or fails."""
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    status, answer = plane.api("POST", path, pod("probe"))
    return status == 500 or (status == 201 and environment(answer) != [[]])


def injects(plane: ControlPlane, namespace: str) -> bool:
    """Whether a pod that is created there now gets its variable."""
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    status, answer = plane.api("POST", path, pod("probe"))
    return status == 201 and environment(answer) != [[]]
