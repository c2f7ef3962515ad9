"""Runs and asks the MPS control daemon of one GPU.

    /run/fairlead/mps/<uuid>/daemon   its sockets, of which one accepts settings: root only
                             pipe     a hard link to the socket that clients use, for pods
                             log      what it prints

Who can open the privileged socket as root, as programs in many containers do, can change the limits
and end the daemon. So pods do not see it. A hard link to a socket is as good as the socket.
"""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.processes import PROC, all_pids

MPS_CONTROL = "nvidia-cuda-mps-control"
MPS_FOLDER = Path("/run/fairlead/mps")
#: A healthy daemon answers in milliseconds.
_LIMIT_S = 5.0
_POLL_S = 0.05
_QUIT_S = 2
_LARGEST_LOG = 1 << 20
_SOCKET = "control"
_PID = "nvidia-cuda-mps-control.pid"
#: Daemon and server, as the kernel cuts their names.
COMMAND = "nvidia-cuda-mps"
ACTIVE, FAULT = "ACTIVE", "FAULT"


class MpsError(FairleadError):
    """The control daemon does not run, does not answer, or refuses."""


class MpsHangs(MpsError):
    """The control daemon, or its server, does not answer in time."""


class MpsNotReady(MpsError):
    """Nothing is wrong with the daemon; there is something to wait for."""


@dataclass(frozen=True, slots=True)
class ServerLook:
    """The MPS server at one moment. The limits are as the daemon spells them."""

    status: str
    limits: tuple[str, ...]
    clients: frozenset[int]


class MpsControl:
    """One GPU. Nothing here decides anything."""

    def __init__(
        self, folder: Path, uuid: str, program: str = MPS_CONTROL, *, limit_s: float = _LIMIT_S
    ) -> None:
        self.folder = folder / uuid
        self._private, self._pipe = self.folder / "daemon", self.folder / "pipe"
        self._log = self.folder / "log" / "control.log"
        self._program = program
        self._limit_s = limit_s
        self._uuid = uuid

    # -- the daemon --------------------------------------------------------------------------------

    def pid(self) -> int:
        """Of the daemon, which an agent before us may have started; 0 if there is none."""
        try:
            pid = int((self._private / _PID).read_text())
        except (OSError, ValueError):
            return 0
        return pid if self._is_ours(pid) else 0

    async def start(self) -> None:
        """Until it answers. As a daemon (-d) it outlives the agent, if the agent is killed."""
        self.kill()  # what a daemon before has left
        self._prepare()
        try:
            async with asyncio.timeout(self._limit_s):
                await self._launch()
                while not self.pid():
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise MpsError(f"the MPS control daemon did not start: {self._last_line()}") from None
        await self.servers()

    async def _launch(self) -> None:
        """The daemon keeps the output of the program, which would never end in a pipe."""
        environment = self._environment() | {"CUDA_VISIBLE_DEVICES": self._uuid}
        with self._log.open("ab") as log:
            process = await self._execute(
                "-d", "-multiuser-server", env=environment, stdin=DEVNULL, stdout=log, stderr=log
            )
        if await process.wait():
            raise MpsError(f"the MPS control daemon did not start: {self._last_line()}")

    async def quit(self) -> None:
        """Ends it and its server; their clients get an error. None is left behind."""
        with suppress(MpsError):
            await self.ask(f"quit -t {_QUIT_S}", limit_s=_QUIT_S + self._limit_s)
        for _ in range(int(self._limit_s / _POLL_S)):
            if not self.pid():
                break
            await asyncio.sleep(_POLL_S)
        self.kill()
        self._unexpose()

    def kill(self) -> None:
        """The daemon and its servers. One that hangs outlives its daemon, and keeps the GPU."""
        for pid in all_pids():
            if self._is_ours(pid):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _is_ours(self, pid: int) -> bool:
        """A server has the variables of its daemon."""
        ours = f"CUDA_MPS_PIPE_DIRECTORY={self._private}".encode()
        folder = PROC / str(pid)
        try:
            named = (folder / "comm").read_text().strip() == COMMAND
            # One that has ended, and waits for its parent, has no variables.
            return named and ours in (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            return False

    # -- questions ---------------------------------------------------------------------------------

    async def servers(self) -> list[int]:
        return [int(word) for word in (await self.ask("get_server_list")).split() if word.isdigit()]

    async def look(self, server: int) -> ServerLook:
        lines = (
            await self.ask(
                f"get_server_status {server}",
                f"get_active_thread_percentage {server}",
                f"get_device_pinned_mem_limit {server} 0",
                f"get_client_list {server}",
            )
        ).splitlines()
        words = [line.strip() for line in lines]
        clients = frozenset(int(word) for word in words[3:] if word.isdigit())
        return ServerLook(words[0] if words else "", tuple(words[1:3]), clients)

    async def limit(self, server: int | None, percent: float, memory_mib: int) -> None:
        """For processes that connect from now on; without a server: for the next one."""
        whose = "" if server is None else f" {server}"
        default = "default_" if server is None else ""
        await self.ask(
            f"set_{default}active_thread_percentage{whose} {percent:g}",
            f"set_{default}device_pinned_mem_limit{whose} 0 {memory_mib}M",
        )

    async def start_server(self) -> None:
        await self.ask("start_server -uid 0")

    async def terminate(self, server: int, client: int) -> None:
        """The process gets CUDA_ERROR_MPS_CLIENT_TERMINATED, and its memory is free."""
        await self.ask(f"terminate_client {server} {client}")

    async def ask(self, *commands: str, limit_s: float = 0) -> str:
        """What the daemon prints. Raises MpsError."""
        process = await self._execute(env=self._environment(), stdin=PIPE, stdout=PIPE, stderr=PIPE)
        asked = "".join(f"{command}\n" for command in commands).encode()
        try:
            async with asyncio.timeout(limit_s or self._limit_s):
                said, complaint = await process.communicate(asked)
        except TimeoutError:
            raise MpsHangs(f"the MPS control daemon does not answer {commands[0]!r}") from None
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            raise MpsError(complaint.decode(errors="replace").strip()[:200] or "no MPS daemon")
        return said.decode(errors="replace")

    async def _execute(self, *args: str, **options: Any) -> Process:
        try:
            return await asyncio.create_subprocess_exec(self._program, *args, **options)
        except OSError as error:
            raise MpsError(f"{self._program} cannot be started: {error.strerror}") from None

    # -- files -------------------------------------------------------------------------------------

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "CUDA_MPS_PIPE_DIRECTORY": str(self._private),
            "CUDA_MPS_LOG_DIRECTORY": str(self._log.parent),
        }

    def _prepare(self) -> None:
        for folder, mode in (
            (self.folder, 0o755), (self._private, 0o700), (self._pipe, 0o755),
            (self._log.parent, 0o700),
        ):  # fmt: skip
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(mode)

    def expose(self) -> None:
        """Shows pods the socket for clients, of the daemon that runs now."""
        with suppress(FileNotFoundError):
            if (self._pipe / _SOCKET).samefile(self._private / _SOCKET):
                return
        partial = self._pipe / ".new"
        partial.unlink(missing_ok=True)
        os.link(self._private / _SOCKET, partial)
        partial.replace(self._pipe / _SOCKET)

    def _unexpose(self) -> None:
        (self._pipe / _SOCKET).unlink(missing_ok=True)

    def _last_line(self) -> str:
        try:
            return self._log.read_text(errors="replace").splitlines()[-1][-200:]
        except (OSError, IndexError):
            return "it printed nothing"

    def trim_log(self) -> None:
        """Daemon and server print every question, and every client."""
        for path in self._log.parent.glob("*.log"):
            with suppress(OSError):
                if path.stat().st_size > _LARGEST_LOG:
                    os.truncate(path, 0)
