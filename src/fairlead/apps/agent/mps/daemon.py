"""Keeps the MPS control daemon of one GPU as its plan says, and starts it again when it fails."""

import asyncio
import math
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

from fairlead.apps.agent.mps.control import (
    ACTIVE,
    COMMAND,
    FAULT,
    MpsControl,
    MpsError,
    MpsHangs,
    MpsNotReady,
    ServerLook,
)
from fairlead.apps.agent.mps.plans import MpsPlan
from fairlead.apps.agent.partitioning import NvmlClient
from fairlead.base.private_files import write_private
from fairlead.telemetry.nvml.compute_mode import DEFAULT, EXCLUSIVE_PROCESS, PROHIBITED
from fairlead.telemetry.nvml.facts import GpuSample
from fairlead.telemetry.processes import is_running

log = structlog.get_logger(__name__)

#: How long the server may stay in a fault: it recovers when the last of its clients has ended.
FAULT_S = 5.0
#: Until it is asked again, while there is something to wait for.
_WAIT_S = 0.5
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 30.0
_SERVER_STARTS_S = 5.0
_POLL_S = 0.05
#: The compute mode that the GPU had before.
_MODE = "compute-mode"


class MpsDaemon:
    """One GPU. `settle` it again and again; `look` is None unless it is healthy."""

    def __init__(
        self, control: MpsControl, nvml: NvmlClient, uuid: str, now: Callable[[], float]
    ) -> None:
        self._control = control
        self._nvml = nvml
        self._uuid = uuid
        self._now = now
        self._failures = 0
        self._retry_at_s = 0.0
        self._fault_since_s: float | None = None
        #: The limits that were set, for which server, and how the daemon spells them.
        self._set: tuple[int, float, int] | None = None
        self._spelled: tuple[str, ...] = ()
        self.server = 0
        self.look: ServerLook | None = None
        #: Clients that connected while the limits had been changed.
        self.unlimited: frozenset[int] = frozenset()
        self.problem = "MPS has not been started yet"
        self.starts = 0
        #: How often in succession the server did not start: a program may keep the GPU.
        self.blocked = 0
        #: Processes that MPS has served; one that lost its server is not one without MPS.
        self.served: frozenset[int] = frozenset()

    def due(self) -> bool:
        """Cheap enough to ask often: daemon or server have ended, or it is time for a new try."""
        if self.look is None:
            return self._now() >= self._retry_at_s
        return not (self._control.pid() and is_running(self.server))

    def retry_now(self) -> None:
        self._retry_at_s = self._now()

    async def settle(self, plan: MpsPlan, sample: GpuSample) -> None:
        """`sample`: who is on the GPU."""
        if plan.off_because:
            await self.stop()
            self.problem = plan.off_because
            self._retry_at_s = math.inf
        elif self._retry_at_s == math.inf or self._now() >= self._retry_at_s:
            await self._try(plan, sample)

    async def _try(self, plan: MpsPlan, sample: GpuSample) -> None:
        try:
            look = await self._serving(plan, sample)
        except MpsNotReady as error:
            self.fail(str(error), _WAIT_S)
        except MpsError as error:
            pause_s = min(_FIRST_PAUSE_S * 2**self._failures, _LONGEST_PAUSE_S)
            self.fail(str(error), pause_s)
            self._failures += 1
        else:
            self._failures, self.blocked, self.problem = 0, 0, ""
            self.look = look
            self.served = frozenset(filter(is_running, self.served)) | look.clients
            self._control.trim_log()

    def fail(self, why: str, pause_s: float = _LONGEST_PAUSE_S) -> None:
        """It is not healthy for this reason."""
        if why != self.problem:
            log.warning("MPS is not available; retrying", gpu=self._uuid, error=why)
        self.problem, self.look, self._set = why, None, None
        self._retry_at_s = self._now() + pause_s

    # -- daemon and server -------------------------------------------------------------------------

    async def _serving(self, plan: MpsPlan, sample: GpuSample) -> ServerLook:
        """Raises MpsError unless clients are served with the limits of the plan."""
        if not self._control.pid():
            await self._start(sample)
        try:
            server = await self._server(plan)
            look = await self._control.look(server)
        except MpsHangs:
            self._control.kill()
            raise
        self._check_status(server, look)
        self.server = server
        self._control.expose()
        return await self._limited(server, plan, look)

    async def _start(self, sample: GpuSample) -> None:
        """Programs that do without MPS are refused from now on, and must not be there already."""
        if not self._mode_file.exists():
            if sample.processes:
                raise MpsNotReady("MPS starts when the GPU is empty")
            mode = await self._nvml.ask(int, "compute_mode", self._uuid)
            write_private(self._mode_file, str(mode).encode())
        await self._nvml.ask(int, "set_compute_mode", self._uuid, EXCLUSIVE_PROCESS)
        await self._control.start()
        self.starts += 1
        log.info("MPS control daemon started", gpu=self._uuid)

    async def _server(self, plan: MpsPlan) -> int:
        """It is started before the first client: until then, any program could take the GPU."""
        servers = await self._control.servers()
        if not servers:
            await self._control.limit(None, plan.percent, plan.memory_mib)
            await self._control.start_server()
            servers = await self._started_server()
        return servers[0]

    async def _started_server(self) -> list[int]:
        for _ in range(int(_SERVER_STARTS_S / _POLL_S)):
            await asyncio.sleep(_POLL_S)
            servers = await self._control.servers()
            if servers and (await self._control.look(servers[0])).status == ACTIVE:
                return servers
            if not servers:
                break
        self.blocked += 1
        raise MpsError("the MPS server does not start; is a program on the GPU without MPS?")

    def _check_status(self, server: int, look: ServerLook) -> None:
        if look.status != FAULT:
            self._fault_since_s = None
        elif self._fault_since_s is None:
            self._fault_since_s = self._now()
        elif self._now() - self._fault_since_s >= FAULT_S:
            self._fault_since_s = None
            _kill(server)
        if look.status != ACTIVE:
            raise MpsNotReady(f"the MPS server is {look.status or 'not there'}, and not {ACTIVE}")

    # -- limits ------------------------------------------------------------------------------------

    async def _limited(self, server: int, plan: MpsPlan, look: ServerLook) -> ServerLook:
        """Root in a container can change the limits of the server, so they are compared."""
        wanted = (server, plan.percent, plan.memory_mib)
        changed = self._set == wanted and look.limits != self._spelled
        self.unlimited = look.clients - self._known() if changed else frozenset()
        if changed:
            log.warning("limits of MPS were changed; setting them again", gpu=self._uuid)
        if changed or self._set != wanted:
            await self._control.limit(*wanted)
            look = await self._control.look(server)
            self._set, self._spelled = wanted, look.limits
        return look

    def _known(self) -> frozenset[int]:
        return self.look.clients if self.look else frozenset()

    async def terminate(self, client: int) -> None:
        with suppress(MpsError):
            await self._control.terminate(self.server, client)

    # -- the end -----------------------------------------------------------------------------------

    async def stop(self, *, shared: bool = False) -> None:
        """Quits the daemon, and gives the GPU the compute mode that it had.

        While pods share the GPU, no program may use it until an agent runs MPS again: without
        limits, the first one would have all of it.
        """
        self.look, self._set = None, None
        if self._control.pid():
            await self._control.quit()
            log.info("MPS control daemon stopped", gpu=self._uuid)
        if not self._mode_file.exists():
            return
        mode = PROHIBITED if shared else int(self._mode_file.read_text() or DEFAULT)
        await self._nvml.ask(int, "set_compute_mode", self._uuid, mode)
        if not shared:
            self._mode_file.unlink()

    @property
    def _mode_file(self) -> Path:
        return self._control.folder / _MODE


def _kill(server: int) -> None:
    with suppress(OSError):
        if Path(f"/proc/{server}/comm").read_text().strip() == COMMAND:
            os.kill(server, signal.SIGKILL)
