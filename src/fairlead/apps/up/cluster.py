"""The cluster under `fairlead up`: embedded in this process, or the real control plane."""

import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from fairlead.apps.up import kubeconfig as up_kubeconfig
from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.apiserver import EmbeddedServer, StartError
from fairlead.sim.apiserver.clock import now_text
from fairlead.sim.controlplane import ControlPlane, ControlPlaneError
from fairlead.sim.controlplane import nodes as controlplane_nodes
from fairlead.sim.kubelets import Kubelets
from fairlead.sim.machines import Machine
from fairlead.sim.machines.nodes import node_object

_PROGRAMS = ("kube-apiserver", "etcd", "kube-controller-manager", "kwok")


@dataclass(frozen=True, slots=True)
class Ground:
    """What a scheduler needs to work on: a server, and simulated nodes."""

    kubeconfig: Path
    server: str
    #: None where KWOK plays the nodes.
    kubelets: Kubelets | None = None
    kubectl: str = "kubectl"


@asynccontextmanager
async def embedded(
    machines: Sequence[Machine], kubeconfig: Path, *, port: int, state: Path | None, speed: float
) -> AsyncIterator[Ground]:
    """The embedded server with these machines; all in this process."""
    try:
        async with EmbeddedServer.start(port, state) as server:
            kubelets = Kubelets(server.api, speed=speed)
            await kubelets.register(machines)
            up_kubeconfig.write(kubeconfig, server.kubeconfig())
            yield Ground(kubeconfig, server.url, kubelets)
    except StartError as error:
        raise ConfigError(str(error)) from error


@contextmanager
def real(machines: Sequence[Machine], kubeconfig: Path) -> Iterator[Ground]:
    """etcd, kube-apiserver, kube-controller-manager and KWOK, as children of this process."""
    assets = find_programs()
    folder = Path(tempfile.mkdtemp(prefix="fairlead-up-"))
    try:
        with ControlPlane.start(assets, folder, disable_admission=()) as plane:
            plane.start_controller_manager()
            controlplane_nodes.create(plane.connect, _bodies(machines), 4)
            plane.start_kwok()
            _await_account(plane)
            up_kubeconfig.write(kubeconfig, plane.kubeconfig_for().read_text())
            yield Ground(kubeconfig, plane.url, kubectl=_kubectl(assets))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_programs() -> Path:
    """The folder of the built control plane; nothing is built here."""
    for folder in _folders():
        if all(os.access(folder / name, os.X_OK) for name in _PROGRAMS):
            return folder
    raise ConfigError(
        "there is no control plane for --real; build it once with `make control-plane`, "
        "or set KUBEBUILDER_ASSETS to a folder with " + ", ".join(_PROGRAMS)
    )


def _folders() -> Iterator[Path]:
    if named := os.environ.get("KUBEBUILDER_ASSETS"):
        yield Path(named)
    xdg = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    base = Path(os.environ.get("FAIRLEAD_CACHE") or Path(xdg) / "fairlead") / "control-plane"
    yield from sorted(base.glob("bin-*"), key=lambda each: each.stat().st_mtime, reverse=True)


def _bodies(machines: Sequence[Machine]) -> list[controlplane_nodes.Body]:
    now = now_text()
    return [node_object(machine, now) for machine in machines]


def _await_account(plane: ControlPlane, patience_s: float = 20.0) -> None:
    """Pods are refused until the controller manager has made their ServiceAccount."""
    until = time.monotonic() + patience_s
    while plane.api("GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] != 200:
        if time.monotonic() > until:
            raise ControlPlaneError(
                f"kube-controller-manager made no ServiceAccount; its log is in {plane.logs}"
            )
        time.sleep(0.05)


def _kubectl(assets: Path) -> str:
    built = assets / "kubectl"
    return "kubectl" if shutil.which("kubectl") or not built.exists() else str(built)
