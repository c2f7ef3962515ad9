"""The embedded server as the scheduler's tests see a control plane.

It is a process of its own, as kube-apiserver is. Its controllers run all the time or never.
"""

import base64
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from fairlead.sim.controlplane import ADMIN, ChildProcess, ControlPlane
from fairlead.sim.controlplane.client import SyncClient, trusting
from fairlead.sim.controlplane.namespaces import delete_namespace
from fairlead.sim.controlplane.process import wait_until
from yaml_texts import yaml_of

_START_TIMEOUT_S = 180.0


class EmbeddedPlane:
    """The part of `ControlPlane` that the scheduler's tests use."""

    def __init__(self, directory: Path, *, controllers: bool, assets: Path | None) -> None:
        kubeconfig = directory / "kubeconfig"
        self.logs = directory / "logs"
        self._controllers, self._assets = controllers, assets
        self._kubeconfig = kubeconfig
        document = yaml_of(kubeconfig)
        cluster = document["clusters"][0]["cluster"]
        authority = directory / "ca.crt"
        authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        self._port = urlsplit(cluster["server"]).port
        self._tls = trusting(authority)
        self._token = document["users"][0]["user"]["token"]
        self._admin = self.connect()
        self.api, self.text = self._admin.api, self._admin.text

    @classmethod
    @contextlib.contextmanager
    def start(
        cls, directory: Path, *, controllers: bool = False, assets: Path | None = None
    ) -> Iterator[Self]:
        """Serves on a free port until the block ends. `assets` has kubectl."""
        kubeconfig, logs = directory / "kubeconfig", directory / "logs"
        logs.mkdir()
        command = [sys.executable, "-m", "fairlead.sim.apiserver", "--kubeconfig-out",
                   str(kubeconfig), *([] if controllers else ["--no-controllers"])]  # fmt: skip
        with ChildProcess("the embedded server", command, logs / "embedded-server.log") as process:
            # It writes the file, whole, when it serves.
            wait_until(kubeconfig.exists, process, "starting", _START_TIMEOUT_S)
            plane = cls(directory, controllers=controllers, assets=assets)
            with plane._admin:
                yield plane

    def connect(self) -> SyncClient:
        return SyncClient(self._port, self._tls, token=self._token)

    def kubeconfig_for(self, identity: str = ADMIN, groups: Sequence[str] = ()) -> Path:
        """The same for everyone: the embedded server knows one token and no RBAC."""
        return self._kubeconfig

    #: This needs no more of a control plane than `connect`.
    create_nodes = ControlPlane.create_nodes

    def delete_namespace(self, name: str) -> None:
        delete_namespace(self._admin, name)

    def program(self, name: str) -> str:
        """The path of a built program, such as kubectl."""
        assert self._assets, "a test that needs programs asks for the fixture `assets`"
        return str(self._assets / name)

    @contextlib.contextmanager
    def start_controller_manager(self, controllers: Sequence[str]) -> Iterator[None]:
        """All of them run already."""
        assert self._controllers, "tests/stories/conftest.py says which stories need controllers"
        yield
