"""The programs of one control plane: each started on a free port, awaited, and ended in order."""

import http.client
from collections.abc import Callable, Sequence
from pathlib import Path

from fairlead.sim.controlplane.client import SyncClient
from fairlead.sim.controlplane.commands import free_port
from fairlead.sim.controlplane.process import ChildProcess, ControlPlaneError, wait_until

#: kube-apiserver tries once a minute to make its namespaces, if the first time was too early.
_START_TIMEOUT_S = 150.0
_PORT_TRIES = 5


class Children:
    """Processes by name, with a client for each that serves."""

    def __init__(self, logs: Path, connect: Callable[[int], SyncClient]) -> None:
        self.logs = logs
        self._connect = connect
        self._processes: dict[str, ChildProcess] = {}
        self._clients: dict[str, SyncClient] = {}

    def process(self, name: str) -> ChildProcess:
        """The child of that name, alive or not."""
        if name not in self._processes:
            known = ", ".join(self._processes) or "nothing"
            raise ControlPlaneError(f"No process {name!r} was started here; there is {known}.")
        return self._processes[name]

    def client(self, name: str) -> SyncClient:
        """The admin's connection to that child."""
        if name not in self._clients:
            served = ", ".join(self._clients) or "nothing"
            raise ControlPlaneError(f"No {name!r} serves here; there is {served}.")
        return self._clients[name]

    def start(self, name: str, command: Sequence[str], ready: Callable[[], bool]) -> ChildProcess:
        """Start a program and wait until `ready()`."""
        running = self._processes.get(name)
        if running is not None and running.alive:
            raise ControlPlaneError(f"{name} is running already: stop it first, or name another.")
        process = self._processes[name] = ChildProcess(name, command, self.logs / f"{name}.log")
        try:
            self.wait(name, ready)
        except BaseException:
            process.stop()
            raise
        return process

    def wait(self, name: str, ready: Callable[[], bool]) -> None:
        """Wait until `ready()`; raises with the end of the child's log if it does not come."""
        wait_until(ready, self.process(name), "starting", _START_TIMEOUT_S)

    def serve(self, name: str, command: Sequence[str], port: int, ready_path: str) -> ChildProcess:
        """Start a server on this port and wait until it answers `ready_path`."""
        if name in self._clients:
            self._clients.pop(name).close()
        client = self._clients[name] = self._connect(port)
        return self.start(name, command, lambda: _answers(client, ready_path))

    def serve_on_free_port(
        self, name: str, command: Callable[[int], Sequence[str]], ready_path: str
    ) -> int:
        """Start a server on a port of its own, which is returned; tries again if it was taken."""
        for tries_left in reversed(range(_PORT_TRIES)):
            port = free_port()
            try:
                self.serve(name, command(port), port, ready_path)
            except ControlPlaneError as error:
                if not tries_left or "address already in use" not in str(error):
                    raise
            else:
                break
        return port

    def stop(self) -> None:
        """End all, the last started first; returns when they are gone."""
        for client in self._clients.values():
            client.close()
        for process in reversed(self._processes.values()):
            process.stop()


def _answers(client: SyncClient, path: str) -> bool:
    try:
        client.text(path)
    except (OSError, http.client.HTTPException, ControlPlaneError):
        return False
    return True
