"""A fake `nvidia-cuda-mps-control`, which answers as the real one did on an H200 (580.159).

    FAIRLEAD_NVML_FILE=machine.json python -m fairlead.sim.mps_control -d -multiuser-server
    echo get_server_list | python -m fairlead.sim.mps_control

Its clients are the processes of kind `mps` on the GPU in CUDA_VISIBLE_DEVICES of a simulated
machine. Its server is a process that ends with the daemon.
"""

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead.sim.nvml.machine import FakeGpu
    from fairlead.sim.nvml.store import FileStore

_EXCLUSIVE_PROCESS = 3
_SERVER_BYTES = 66 << 20
_REFUSED = (
    "Insufficient privileges for UID 0. Control deamon settings can only be modified by the user "
    "who started it or by the root user."
)
#: Ends when its parent does, as the real server.
_SERVER = ("sh", "-c", "echo nvidia-cuda-mps > /proc/$$/comm; while kill -0 $0; do sleep 0.1; done")


class FakeMpsDaemon:
    """Serves the two sockets of its directory until it is told to quit."""

    def __init__(self, uuid: str, store: "FileStore") -> None:
        self._uuid, self._store = uuid, store
        self._defaults = ["100.0", ""]
        self._limits = ["", ""]
        self._server: subprocess.Popen[bytes] | None = None
        self._forget()

    @contextmanager
    def _gpu(self) -> Iterator["FakeGpu"]:
        with self._store.open() as machine:
            yield machine.gpu(self._uuid)

    def _servers(self) -> list[str]:
        if self._server is not None and self._server.poll() is not None:
            self._server = None
            self._forget()
        return [] if self._server is None else [str(self._server.pid)]

    def _forget(self) -> None:
        """With its server, the clients go, too."""
        with self._gpu() as gpu:
            gpu.processes = [one for one in gpu.processes if one.kind != "mps" and not one.serves]

    def answer(self, command: str, *, privileged: bool) -> str | None:
        """The lines that it prints; None: it ends."""
        word, *args = command.split()
        if word == "quit" and privileged:
            self._quit()
            return None
        if word == "quit":
            return "Not enough privilege to execute quit command"
        if word.startswith("set_default") and not privileged:
            return _REFUSED
        if args and word not in _DEFAULTS and args[0] not in (*self._servers(), "-uid"):
            return f"Server {args[0]} not found"
        found = getattr(self, f"do_{word}", None)
        return found(*args) if found else f'Unknown command "{word}"'

    def _quit(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        self._forget()

    def do_get_server_list(self) -> str:
        return "\n".join(self._servers())

    def do_start_server(self, *_: str) -> str:
        from fairlead.sim.nvml.machine import FakeProcess

        there = self._servers()
        with self._gpu() as gpu:
            alone = [one for one in gpu.processes if one.kind == "compute" and not one.serves]
            if there or (gpu.compute_mode == _EXCLUSIVE_PROCESS and alone):
                return ""
            self._server = subprocess.Popen((*_SERVER, str(os.getpid())), stderr=subprocess.DEVNULL)
            gpu.processes = [one for one in gpu.processes if not one.serves]
            gpu.processes.append(FakeProcess(self._server.pid, _SERVER_BYTES, serves=True))
        self._limits = list(self._defaults)
        return ""

    def do_get_server_status(self, _server: str) -> str:
        return "FAULT" if Path("fault").exists() else "ACTIVE"

    def do_set_default_active_thread_percentage(self, percent: str) -> str:
        self._defaults[0] = str(float(percent))
        return self._defaults[0]

    def do_get_default_active_thread_percentage(self) -> str:
        return self._defaults[0]

    def do_set_default_device_pinned_mem_limit(self, _device: str, limit: str) -> str:
        self._defaults[1] = _spelled(limit)
        return ""

    def do_set_active_thread_percentage(self, _server: str, percent: str) -> str:
        self._limits[0] = str(float(percent))
        return self._limits[0]

    def do_get_active_thread_percentage(self, _server: str) -> str:
        return self._limits[0]

    def do_set_device_pinned_mem_limit(self, _server: str, _device: str, limit: str) -> str:
        self._limits[1] = _spelled(limit)
        return ""

    def do_get_device_pinned_mem_limit(self, _server: str, _device: str) -> str:
        return self._limits[1]

    def do_get_client_list(self, _server: str) -> str:
        with self._gpu() as gpu:
            return "\n".join(str(one.pid) for one in gpu.processes if one.kind == "mps")

    def do_terminate_client(self, _server: str, client: str) -> str:
        with self._gpu() as gpu:
            kept = [one for one in gpu.processes if str(one.pid) != client]
            known, gpu.processes = len(kept) < len(gpu.processes), kept
        return "0" if known else f"Invalid process {client}!\n1"


_DEFAULTS = {
    "set_default_active_thread_percentage",
    "set_default_device_pinned_mem_limit",
    "get_default_active_thread_percentage",
}


def _spelled(limit: str) -> str:
    mib = int(limit.removesuffix("M"))
    return f"{mib // 1024}G" if mib % 1024 == 0 else f"{mib}M"


def serve(daemon: FakeMpsDaemon) -> None:
    sockets = {name: socket.socket(socket.AF_UNIX) for name in ("control", "control_privileged")}
    for name, listener in sockets.items():
        Path(name).unlink(missing_ok=True)
        listener.bind(name)
        listener.listen()
    Path("nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))
    while True:
        ready, _, _ = select.select(sockets.values(), (), ())
        connection, _ = ready[0].accept()
        with connection, connection.makefile("rw") as lines:
            for line in lines:
                said = daemon.answer(line, privileged=ready[0] is sockets["control_privileged"])
                if said is None:
                    return
                lines.write(f"{said}\n" if said else "")
                lines.write("\0\n")
                lines.flush()


def ask() -> int:
    """As the real program: one line for each line of the answers."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            private = Path("control_privileged").exists()
            connection.connect("control_privileged" if private else "control")
        except OSError:
            print("Cannot find MPS control daemon process", file=sys.stderr)
            return 1
        with connection.makefile("rw") as lines:
            for command in sys.stdin:
                lines.write(command)
                lines.flush()
                for line in iter(lines.readline, "\0\n"):
                    if not line:
                        return 0
                    sys.stdout.write(line)
    return 0


def main() -> int:
    # The path of a socket has at most 107 bytes.
    os.chdir(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
    if "-d" not in sys.argv:
        return ask()
    if os.fork():
        return 0
    os.setsid()  # and keeps the output of its parent, as the real one
    from fairlead.sim.nvml.store import FileStore

    with suppress(OSError):
        Path("/proc/self/comm").write_text("nvidia-cuda-mps")
    store = FileStore(Path(os.environ["FAIRLEAD_NVML_FILE"]))
    serve(FakeMpsDaemon(os.environ["CUDA_VISIBLE_DEVICES"], store))
    return 0


if __name__ == "__main__":
    sys.exit(main())
