"""Controllers of other projects, started as their charts start them."""

import base64
import os
import shutil
import socket
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from fairlead.sim.controlplane import ChildProcess, ControlPlane, ControlPlaneError
from fairlead.sim.controlplane.certificates import Authority
from fairleads import eventually
from yaml_texts import yamls_of

#: The programs that `make test-peers` has built, comma-separated.
PEERS = "FAIRLEAD_PEERS"
EXAMPLES = Path(__file__).parents[2] / "examples" / "migrate"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Json = dict[str, Any]


class Peers:
    """Controllers by the name of their program; each is started once."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._programs = {Path(each).name: Path(each) for each in _named()}
        self._running: dict[str, ChildProcess] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def define(self, name: str) -> None:
        """Has the kinds of this controller served."""
        for body in self._definitions(name, "CustomResourceDefinition"):
            status, answer = self._plane.api("POST", _CRDS, body)
            assert status in (201, 409), answer
            eventually(partial(self._is_served, body), what=f"{body['metadata']['name']} served")

    def start(
        self, name: str, flags: Callable[[Path], Sequence[str]], etc: Path | None = None
    ) -> ChildProcess:
        """Starts the program, unless it runs; `flags` are made of the kubeconfig."""
        running = self._running.get(name)
        if running is not None and running.alive:
            return running
        self._running[name] = self._stack.enter_context(self.running(name, flags, etc))
        return self._running[name]

    def running(
        self,
        name: str,
        flags: Callable[[Path], Sequence[str]],
        etc: Path | None = None,
        *,
        kubeconfig_variable: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> ChildProcess:
        """The program with the flags, to be entered and left; it sees `etc` as /etc.

        With `kubeconfig_variable` it finds its kubeconfig in the environment, beside `env`.
        """
        self.define(name)
        kubeconfig = self._plane.kubeconfig_for()
        command = [str(self._program(name)), *flags(kubeconfig)]
        variables = dict(env or {}) | (
            {"KUBECONFIG": str(kubeconfig)} if kubeconfig_variable else {}
        )
        if variables:
            said = [f"{key}={value}" for key, value in variables.items()]
            command = [shutil.which("env") or "env", *said, *command]
        if etc is not None:
            command = [*_unshared(), 'mount --bind "$0" /etc && exec "$@"', str(etc), *command]
        return ChildProcess(name, command, self._plane.logs / f"{name}.log")

    def _is_served(self, definition: Json) -> bool:
        _, found = self._plane.api("GET", f"{_CRDS}/{definition['metadata']['name']}")
        conditions = found.get("status", {}).get("conditions") or []
        if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            return False
        # For a moment its storage may still be starting.
        try:
            return self._plane.api("GET", _list_of(definition))[0] == 200
        except ControlPlaneError:
            return False

    def _program(self, name: str) -> Path:
        if name not in self._programs:
            pytest.skip(f"{name} is not built")
        return self._programs[name]

    def _definitions(self, name: str, kind: str) -> Iterator[Json]:
        folder = self._program(name).resolve().parent / "definitions"
        for path in sorted(folder.glob("*.yaml")):
            found = yamls_of(path)
            yield from (each for each in found if each["kind"].endswith(kind))

    def start_with_webhooks(
        self, name: str, config: Json, label: str, only: Container[str] | None = None
    ) -> ChildProcess:
        """Starts a controller whose webhooks the API server calls, for pods with this label.

        `only` has the plurals of the kinds for which it is called; None for all.
        """
        port, folder = free_port(), self._plane.directory / name
        pair = (authority := Authority(folder)).server("tls")
        # For those whose metrics have a certificate, at a place that cannot be configured.
        metrics = folder / "etc" / name / "metrics" / "certs"
        shutil.copytree(pair.key.parent, metrics)
        options = {
            **config,
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": "0"},
            "webhook": {"port": port, "host": "127.0.0.1", "certDir": str(pair.key.parent)},
        }
        (path := folder / "config.yaml").write_text(yaml.safe_dump(options))
        child = self.start(
            name,
            lambda kubeconfig: [f"--kubeconfig={kubeconfig}", f"--config={path}"],
            folder / "etc",
        )
        eventually(lambda: _accepts(port), what=f"the webhooks of {name}")
        bundle = base64.b64encode(authority.certificate.read_bytes()).decode()
        for body in self._definitions(name, "WebhookConfiguration"):
            body["webhooks"] = [
                hook
                for hook in body["webhooks"]
                if only is None or hook["rules"][0]["resources"][0] in only
            ]
            self._register(name, body, f"https://127.0.0.1:{port}", bundle, label)
        return child

    def _register(self, name: str, body: Json, url: str, bundle: str, label: str) -> None:
        body["metadata"]["name"] = name
        for hook in body["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"{url}{path}", "caBundle": bundle}
            if hook["rules"][0]["resources"] == ["pods"]:
                wanted = {"key": label, "operator": "Exists"}
                hook["objectSelector"] = {"matchExpressions": [wanted]}
        plural = f"{body['kind'].lower()}s"
        status, answer = self._plane.api("POST", f"{_ADMISSION}/{plural}", body)
        assert status in (201, 409), answer


def _unshared() -> list[str]:
    """A shell in a mount namespace of its own."""
    program = shutil.which("unshare") or pytest.skip("unshare is not installed")
    return [program, "--map-root-user", "--mount", "sh", "-c"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def items(plane: ControlPlane, path: str) -> dict[str, Json]:
    """What a list holds, by name."""
    status, answer = plane.api("GET", path)
    assert status == 200, answer
    return {each["metadata"]["name"]: each for each in answer["items"]}


def post(plane: ControlPlane, path: str, body: Mapping[str, Any]) -> Json:
    status, answer = plane.api("POST", path, body)
    assert status == 201, answer
    return dict(answer)


def create(plane: ControlPlane, namespace: str, manifest: Path) -> None:
    """Creates the objects of a manifest, as kubectl would."""
    for body in yamls_of(manifest):
        group = f"/apis/{body['apiVersion']}/namespaces/{namespace}"
        post(plane, f"{group}/{body['kind'].lower()}s", body)


def _named() -> list[str]:
    return [each for each in os.environ.get(PEERS, "").split(",") if each]


def _list_of(definition: Json) -> str:
    """The path of all objects of a kind, which answers once it is served."""
    spec = definition["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    return f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
