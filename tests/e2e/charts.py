"""The chart and helm: rendered, installed, and its programs as processes with its own rights."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from fairlead.sim.controlplane import ControlPlane
from fairleads import Running, eventually, fairlead
from manifests import AS_IN_A_POD, CHART, HERE, NAMESPACE, SCHEDULER, kubectl, wait_for_rights
from webhooks import Webhook, injects, webhook
from yaml_texts import yamls_of

Object = dict[str, Any]
Values = Mapping[str, Any]
#: What the chart renders to, by what it was told; it does not change while tests run.
_RENDERED: dict[str, str] = {}
_CONFIGURATIONS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")


class Helm:
    """helm, at work on this chart."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder

    def run(self, *words: str, values: Values | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(self._program), *words]
        if values is not None:
            said = self._folder / "values.yaml"
            said.write_text(yaml.safe_dump(dict(values)))
            command += ["--values", str(said)]
        # Nothing of whoever runs the tests, and nothing of his left behind.
        home = {"HOME": str(self._folder)}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=home)

    def rendered(
        self, values: Values | None = None, release: str = "fairlead", namespace: str = NAMESPACE
    ) -> list[Object]:
        told = json.dumps([dict(values or {}), release, namespace])
        if told not in _RENDERED:
            command = ("template", release, str(CHART), "--namespace", namespace)
            done = self.run(*command, values=values or {})
            assert done.returncode == 0, done.stderr
            _RENDERED[told] = done.stdout
        return yamls_of(_RENDERED[told])

    def complaint(self, values: Values) -> str:
        """Why these values are refused."""
        done = self.run("template", "fairlead", str(CHART), values=values)
        assert done.returncode != 0, "they are taken"
        return done.stderr


class Release:
    """The chart, installed as `fairlead`."""

    def __init__(self, helm: Helm, plane: ControlPlane) -> None:
        self._helm = helm
        self.plane = plane
        self._where = ("--namespace", NAMESPACE, "--kubeconfig", str(plane.kubeconfig_for()))

    def _helm_does(self, *words: str, values: Values | None = None) -> str:
        done = self._helm.run(*words, *self._where, values=values)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self, values: Values | None = None) -> str:
        said = self._helm_does(
            "install", "fairlead", str(CHART), "--create-namespace", values=values or {}
        )
        wait_for_rights(self.plane)
        return said

    def upgrade(self, values: Values) -> str:
        return self._helm_does("upgrade", "fairlead", str(CHART), values=values)

    def uninstall(self) -> str:
        return self._helm_does("uninstall", "fairlead")

    def get(self, kind: str, name: str = "fairlead") -> Object:
        found: Object = json.loads(kubectl(self.plane, f"get -n {NAMESPACE} {kind} {name} -o json"))
        return found

    def arguments(self, deployment: str = "fairlead") -> list[str]:
        """The options of its program; its configuration file comes from the ConfigMap."""
        spec = self.get("deployment", deployment)["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        mounted = "--config=/etc/fairlead/fairlead.yaml"
        return [
            f"--config={self._config()}" if one == mounted else one for one in container["args"][1:]
        ]

    def _config(self) -> Path:
        folder = self.plane.directory / "etc-fairlead"
        folder.mkdir(exist_ok=True)
        for name, text in self.get("configmap")["data"].items():
            (folder / name).write_text(text)
        return folder / "fairlead.yaml"

    @contextmanager
    def scheduler(self) -> Iterator[Running]:
        """A pod of its Deployment, as a process with a token of its ServiceAccount."""
        access = self.plane.kubeconfig_for(SCHEDULER)
        options = (*self.arguments(), *HERE, *AS_IN_A_POD)
        with fairlead(self.plane, *options, kubeconfig=access) as program:
            yield program

    @contextmanager
    def webhook(self, port: int) -> Iterator[Webhook]:
        """The same of the webhook. API servers ask here: no Service leads to this machine."""
        options = [one for one in self.arguments("fairlead-webhook") if "--port" not in one]
        wait_for_rights(self.plane, "webhook")
        self._ask_at(port)
        try:
            with webhook(self.plane, port, *options) as program:
                eventually(lambda: injects(self.plane, "default"), what="the webhook is asked")
                yield program
        finally:
            self._ask_at(None)

    def trusts(self, kind: str) -> str:
        """The caBundle of that configuration, if it has one."""
        hooks = self.get(kind)["webhooks"]
        (bundle,) = {hook["clientConfig"].get("caBundle", "") for hook in hooks}
        return str(bundle)

    def _ask_at(self, port: int | None) -> None:
        for kind, route in zip(_CONFIGURATIONS, ("mutate", "validate"), strict=True):
            service = {"namespace": NAMESPACE, "name": "fairlead-webhook", "path": f"/{route}"}
            there = {"service": service, "url": None}
            here = {"service": None, "url": f"https://127.0.0.1:{port}/{route}"}
            change = [
                {"op": "add", "path": f"/webhooks/0/clientConfig/{key}", "value": value}
                for key, value in (there if port is None else here).items()
            ]
            command = f"patch {kind} fairlead --type=json -p '{json.dumps(change)}'"
            kubectl(self.plane, command)
