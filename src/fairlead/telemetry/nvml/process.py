"""Queries NVML in a separate process, with a time limit."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from fairlead.model.errors import FairleadError
from fairlead.telemetry.nvml.calls import (
    DRIVER_NOT_LOADED,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    OF_THE_DRIVER,
)
from fairlead.telemetry.nvml.worker import NvmlAnswer, NvmlQuery

T = TypeVar("T")

DEFAULT_LIBRARY = "pynvml"
#: For one question, which is about one GPU. A healthy driver answers in milliseconds.
LIMIT_S = 10.0
#: Python starts, and NVML is initialised: seconds where no driver is kept loaded.
_START_S = 20.0
#: A process that is stuck in the driver cannot be ended. So many are left behind before we wait.
_MOST_STUCK = 4
_LONGEST_ANSWER = 1 << 22
_answers = msgspec.json.Decoder(NvmlAnswer)
_WHAT_TO_DO = {
    LIBRARY_NOT_FOUND: "; install NVIDIA's driver, or run under NVIDIA's container runtime",
    DRIVER_NOT_LOADED: "; load NVIDIA's driver (nvidia-smi shows whether it is loaded)",
    NO_PERMISSION: "; it needs root, or in a pod the capability SYS_ADMIN",
}


class NvmlError(FairleadError):
    """NVML answered with an error; `code` is its number."""

    def __init__(self, code: int, text: str) -> None:
        what_to_do = _WHAT_TO_DO.get(code, "")
        super().__init__(f"NVML says {text} ({code}){what_to_do}")
        self.code = code

    @property
    def of_the_driver(self) -> bool:
        return self.code in OF_THE_DRIVER


class NvmlUnavailable(FairleadError):
    """NVML did not answer: it hangs, or its process ended."""


class Nvml:
    """One query at a time. After a timeout or an error of the driver, a new process is started.

    Use it inside one event loop, and close it.
    """

    def __init__(self, library: str = DEFAULT_LIBRARY, *, limit_s: float = LIMIT_S) -> None:
        self._library = library
        self._limit_s = limit_s
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        #: Killed and not gone yet.
        self._leaving: set[asyncio.Task[int]] = set()
        self.starts = 0

    async def ask(self, kind: type[T], what: str, *args: Any) -> T:
        """Raises NvmlError or NvmlUnavailable."""
        async with self._turn:
            limit_s = self._limit_s + (_START_S if self._process is None else 0)
            try:
                async with asyncio.timeout(limit_s):
                    line = await self._exchange(NvmlQuery(what, list(args)))
            except TimeoutError:
                self._drop()
                about = " ".join(map(str, (what, *args)))[:80]
                raise NvmlUnavailable(
                    f"NVML did not answer ({about}) within {limit_s:g} s"
                ) from None
            except BaseException:
                self._drop()
                raise
            answer = _answers.decode(line)
            if answer.error in OF_THE_DRIVER:
                self._drop()
        if answer.error:
            raise NvmlError(answer.error, answer.text)
        return msgspec.json.decode(answer.value, type=kind)

    async def close(self) -> None:
        self._drop()
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=2.0)
        for task in self._leaving:
            task.cancel()

    async def _exchange(self, query: NvmlQuery) -> bytes:
        process = self._process or await self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(ConnectionError):  # it ended; the empty answer says so
            process.stdin.write(msgspec.json.encode(query) + b"\n")
            await process.stdin.drain()
        line = await process.stdout.readline()
        if not line.endswith(b"\n"):
            raise NvmlUnavailable("the NVML process ended; see the log")
        return line

    async def _start(self) -> Process:
        if len(self._leaving) >= _MOST_STUCK:
            raise NvmlUnavailable(
                f"{len(self._leaving)} NVML processes are blocked in the driver and "
                "cannot be killed; check the machine's kernel log, it may need a reboot"
            )
        command = (sys.executable, "-m", "fairlead.telemetry.nvml.worker", self._library)
        # A session of its own: Ctrl-C is for this process, which then ends the worker.
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, limit=_LONGEST_ANSWER, start_new_session=True
        )
        self.starts += 1
        return self._process

    def _drop(self) -> None:
        """Ends the process without waiting: one that hangs in the driver outlives its end."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        gone = asyncio.ensure_future(process.wait())
        self._leaving.add(gone)
        gone.add_done_callback(self._leaving.discard)
