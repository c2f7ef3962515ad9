"""A real Kubernetes control plane on the loopback address, for tests, benches and `up --real`.

    with ControlPlane.start(assets=folder_of_programs, directory=scratch) as plane:
        plane.create_nodes(3, allocatable={"nvidia.com/gpu": "8"})
        plane.start_kwok()
        run_scheduler(plane.kubeconfig_for("system:serviceaccount:default:fairlead"))

etcd and kube-apiserver run as children of this process and die with it. Connections are TLS,
verified against an authority made for the run; RBAC is on. `controlplane/build.py` builds the
programs and prints their folder.
"""

import atexit
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml

from fairlead.sim.controlplane import nodes
from fairlead.sim.controlplane.certificates import Authority, file_name, service_account_keys
from fairlead.sim.controlplane.children import Children
from fairlead.sim.controlplane.client import JSON, Answer, SyncClient, trusting
from fairlead.sim.controlplane.commands import CommandLines, scheduler_config
from fairlead.sim.controlplane.identities import (
    ADMIN,
    Credentials,
    credentials,
    service_account,
    write_kubeconfig,
)
from fairlead.sim.controlplane.namespaces import delete_namespace
from fairlead.sim.controlplane.process import ChildProcess, ControlPlaneError

__all__ = ["ADMIN", "ChildProcess", "ControlPlane", "ControlPlaneError", "service_account"]

#: Without kube-controller-manager nothing creates the ServiceAccounts that this plugin requires.
NO_SERVICE_ACCOUNT = ("ServiceAccount",)
NO_NODE_LIFECYCLE = ("*", "-node-lifecycle-controller")
_STAGES = Path(__file__).with_name("kwok_stages.yaml")
#: The kernel's limit on the path of a Unix socket, and a little room.
_SOCKET_PATH_CHARS = 100


class ControlPlane:
    """A running etcd and kube-apiserver, and the programs started beside them."""

    def __init__(
        self,
        assets: Path,
        directory: Path,
        disable_admission: Sequence[str],
        apiserver_flags: Sequence[str],
        addresses: Sequence[str],
    ) -> None:
        self.directory = directory.resolve()
        self.logs = self.directory / "logs"
        self.logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.port = 0
        self._authority = Authority(self.directory / "certificates")
        self._commands = CommandLines(
            assets,
            self._authority,
            self._authority.server("server", addresses),
            service_account_keys(self._authority.directory),
        )
        self._disable_admission = tuple(disable_admission)
        self._apiserver_flags = tuple(apiserver_flags)
        self._etcd_socket, self._socket_folder = _socket_path(self.directory)
        self._children = Children(self.logs, self._connect_as_admin)

    @classmethod
    def start(
        cls,
        assets: Path,
        directory: Path,
        *,
        disable_admission: Sequence[str] = NO_SERVICE_ACCOUNT,
        apiserver_flags: Sequence[str] = (),
        addresses: Sequence[str] = (),
        port: int | None = None,
    ) -> Self:
        """Start etcd and kube-apiserver; returns when the server is ready (a few seconds).

        `directory` gets the certificates, the data and the logs, and is the caller's to remove.
        Give `disable_admission=()` if you start kube-controller-manager, which makes the
        ServiceAccounts that the ServiceAccount plugin demands of every pod. Without `port` it takes
        a free one. `addresses` go into the server's certificate, for clients that are not on
        this machine's loopback address; flags then have to bind it there.
        """
        plane = cls(assets, directory, disable_admission, apiserver_flags, addresses)
        atexit.register(plane.stop)
        try:
            plane._start_etcd()
            plane._start_apiserver(port)
        except BaseException:
            plane.stop()
            raise
        return plane

    def stop(self) -> None:
        """End every child, the last started first; returns when all are gone. May be repeated."""
        atexit.unregister(self.stop)
        self._children.stop()
        if self._socket_folder is not None:
            shutil.rmtree(self._socket_folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Who is who

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_file(self) -> Path:
        """The certificate of this run's authority."""
        return self._authority.certificate

    def program(self, name: str) -> str:
        """The path of a built program, such as kubectl."""
        return self._commands.program(name)

    def kubeconfig_for(self, identity: str = ADMIN, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for this user name; ServiceAccounts are created and get a real token.

        `admin` may do everything. Any other name has the rights that RBAC gives it, and those of
        `groups`; `service_account(namespace, name)` is the name of a ServiceAccount.
        """
        path = self.directory / f"{file_name(identity)}.kubeconfig"
        return write_kubeconfig(path, self.url, self.ca_file, self._proof(identity, groups))

    def connect(self, identity: str = ADMIN, groups: Sequence[str] = ()) -> SyncClient:
        """A client of its own for this identity; close it, or use it in a `with`."""
        return self._client(self.port, self._proof(identity, groups))

    # Talking to the server as admin

    def api(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = JSON,
    ) -> Answer:
        """The status and JSON object of one request as admin, on a kept-alive connection."""
        return self._admin().api(method, path, body, content_type=content_type)

    def text(self, path: str, of: str = "kube-apiserver") -> str:
        """A page of text such as /metrics, from the process named `of`."""
        return self._children.client(of).text(path)

    def create_nodes(
        self,
        names: int | Sequence[str],
        *,
        allocatable: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        prefix: str = "node-",
        threads: int = 4,
    ) -> list[str]:
        """Create nodes that are Ready and carry only the given taints; returns their names.

        `allocatable` ({"nvidia.com/gpu": "8"}) is added to roomy CPU, memory and pods.
        """
        chosen = nodes.node_names(names, prefix)
        bodies = [
            nodes.node_body(name, allocatable or {}, labels or {}, annotations or {}, taints)
            for name in chosen
        ]
        nodes.create(self.connect, bodies, threads)
        return chosen

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace and all in it at once, which else takes kube-controller-manager."""
        delete_namespace(self._admin(), name)

    # Programs beside the server

    def start_kube_scheduler(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        flags: Sequence[str] = (),
        name: str = "kube-scheduler",
        identity: str = "system:kube-scheduler",
    ) -> ChildProcess:
        """Start a kube-scheduler; `config` is merged into its KubeSchedulerConfiguration."""
        kubeconfig = self.kubeconfig_for(identity)
        path = self.directory / f"{name}.yaml"
        path.write_text(yaml.safe_dump(scheduler_config(kubeconfig, config or {})))

        def command(port: int) -> list[str]:
            return [*self._commands.kube_scheduler(port, kubeconfig, path), *flags]

        return self._start_beside(name, command, "/readyz")

    def start_controller_manager(
        self, controllers: Sequence[str] = NO_NODE_LIFECYCLE, *, flags: Sequence[str] = ()
    ) -> ChildProcess:
        """Start kube-controller-manager with these controllers.

        ("*",) adds the one that taints nodes which no kubelet keeps alive; then start KWOK with
        `node_leases=True` within 40 seconds.
        """
        kubeconfig = self.kubeconfig_for("system:kube-controller-manager")

        def command(port: int) -> list[str]:
            return [*self._commands.controller_manager(port, kubeconfig, controllers), *flags]

        return self._start_beside("kube-controller-manager", command, "/healthz")

    def start_kwok(
        self, stages: Path = _STAGES, *, node_leases: bool = False, flags: Sequence[str] = ()
    ) -> ChildProcess:
        """Start KWOK, which plays the kubelet of every node as `kwok_stages.yaml` describes.

        `node_leases` keeps the nodes alive for the node lifecycle controller. It costs a write a
        node every 10 seconds, and a second KWOK then waits for the leases of the first to expire.
        """
        kubeconfig = self.kubeconfig_for()

        def command(port: int) -> list[str]:
            kwok = self._commands.kwok(port, kubeconfig, stages, node_leases=node_leases)
            return [*kwok, *flags]

        return self._start_beside("kwok", command, "/healthz")

    # Looking at processes, and harming them

    def process(self, name: str) -> ChildProcess:
        """The child of that name, such as "etcd"; what it used can be read while it lives."""
        return self._children.process(name)

    def pause(self, name: str) -> None:
        """Freeze a child: it keeps its connections and answers nothing."""
        self.process(name).pause()

    def resume(self, name: str) -> None:
        """Let a paused child go on."""
        self.process(name).resume()

    def kill_apiserver(self) -> None:
        """End kube-apiserver as a crash would; etcd keeps the data."""
        self.process("kube-apiserver").kill()

    def restart_apiserver(self) -> None:
        """Start kube-apiserver again on its port with the same etcd; returns when it is ready."""
        self.process("kube-apiserver").stop()
        command = self._apiserver(self.port)
        self._children.serve("kube-apiserver", command, self.port, "/readyz")

    # Inside

    def _start_etcd(self) -> None:
        path = self._etcd_socket
        command = self._commands.etcd(self.directory / "etcd", path)
        self._children.start("etcd", command, lambda: _accepts(path))

    def _start_apiserver(self, port: int | None) -> None:
        name, ready = "kube-apiserver", "/readyz"
        if port is None:
            self.port = self._children.serve_on_free_port(name, self._apiserver, ready)
        else:
            self.port = port
            self._children.serve(name, self._apiserver(port), port, ready)
        # It says that it is ready before it has made the namespaces that everyone relies on.
        self._children.wait("kube-apiserver", self._has_system_namespaces)

    def _has_system_namespaces(self) -> bool:
        paths = [f"/api/v1/namespaces/{name}" for name in ("default", "kube-system")]
        return all(self.api("GET", path)[0] == 200 for path in paths)

    def _apiserver(self, port: int) -> list[str]:
        command = self._commands.apiserver(port, self._etcd_socket, self._disable_admission)
        return [*command, *self._apiserver_flags]

    def _start_beside(
        self, name: str, command: Callable[[int], list[str]], ready_path: str
    ) -> ChildProcess:
        self._children.serve_on_free_port(name, command, ready_path)
        return self.process(name)

    def _admin(self) -> SyncClient:
        return self._children.client("kube-apiserver")

    def _connect_as_admin(self, port: int) -> SyncClient:
        return self._client(port, self._authority.client(ADMIN, ("system:masters",)))

    def _proof(self, identity: str, groups: Sequence[str]) -> Credentials:
        return credentials(identity, groups, self._authority, self._admin())

    def _client(self, port: int, proof: Credentials) -> SyncClient:
        if isinstance(proof, str):
            return SyncClient(port, trusting(self.ca_file), token=proof)
        return SyncClient(port, trusting(self.ca_file, proof))


def _socket_path(directory: Path) -> tuple[Path, Path | None]:
    """Where etcd listens, and the folder made for that if `directory` has too long a path."""
    if len(str(directory / "etcd.sock")) <= _SOCKET_PATH_CHARS:
        return directory / "etcd.sock", None
    folder = Path(tempfile.mkdtemp(prefix="fairlead-"))
    return folder / "etcd.sock", folder


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
