"""Keeps MPS on the GPUs that pods share, and ends processes that exceed the share of their pod."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

import structlog

from fairlead.apps.agent.listing import MpsListing
from fairlead.apps.agent.mps.clients import (
    ClientRules,
    ExcessClient,
    MpsClient,
    excess_clients,
    without_mps,
)
from fairlead.apps.agent.mps.control import MPS_CONTROL, MPS_FOLDER, MpsControl
from fairlead.apps.agent.mps.daemon import MpsDaemon
from fairlead.apps.agent.mps.plans import MpsPlan, mps_plans
from fairlead.apps.agent.node_pods import pods_by_uid
from fairlead.apps.agent.partitioning import NvmlClient, Owned
from fairlead.apps.agent.unassigned_processes import NodePod, PodsByUid, pods_of
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.writes.event_objects import Regarding
from fairlead.kube.writes.event_writer import EventWriter
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.telemetry.nvml.facts import GpuFacts, GpuSample
from fairlead.telemetry.processes import PROC, all_pids, owner_of, started_ticks

log = structlog.get_logger(__name__)

SHARE_EXCEEDED = "GPUShareExceeded"
#: Processes that MPS serves at once on one GPU. Measured on an H200: the next one is refused.
MOST_CLIENTS = 48
#: The server has failed to start so often in succession before a program is killed for it.
_BLOCKED_TIMES = 2
#: Between two looks at the clients, and at whether daemon and server are there.
_LOOK_S, _GLANCE_S = 2.0, 0.25


@dataclass(frozen=True, slots=True)
class MpsSettings:
    gpus: Owned
    folder: Path = MPS_FOLDER
    program: str = MPS_CONTROL
    rules: ClientRules = field(default_factory=ClientRules)
    proc: Path = PROC


class MpsSharing:
    """`run` it in a task, and `close` it: no daemon is left behind."""

    def __init__(
        self,
        settings: MpsSettings,
        nvml: NvmlClient,
        pods: Reflector[Pod],
        events: EventWriter,
        *,
        gpus: Callable[[], Sequence[GpuFacts]],
        plugin: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._nvml = nvml
        self._pods = pods
        self._events = events
        self._gpus = gpus
        self._plugin = plugin
        self._changed = changed
        self._woken = asyncio.Event()
        self._daemons: dict[str, MpsDaemon] = {}
        self._withdrawn = False
        #: Processes that were reported, by GPU and pid, while they are there.
        self._reported: dict[tuple[str, int], str] = {}

    def wake(self) -> None:
        """Something has changed: do not wait for the next look."""
        self._woken.set()

    @property
    def listed(self) -> MpsListing:
        """How many processes each GPU serves where MPS is healthy, and why it is not elsewhere."""
        mine = {uuid: one for uuid, one in self._daemons.items() if self._settings.gpus.has(uuid)}
        if self._withdrawn:
            return MpsListing(notes=dict.fromkeys(mine, "no MPS: the agent has stopped"))
        return MpsListing(
            {uuid: MOST_CLIENTS for uuid, one in mine.items() if one.look is not None},
            {uuid: f"no MPS: {one.problem}" for uuid, one in mine.items() if one.problem},
        )

    @property
    def servers(self) -> frozenset[int]:
        """The processes of MPS itself, which belong to no pod."""
        return frozenset(one.server for one in self._daemons.values() if one.server)

    async def run(self) -> None:
        while True:
            self._woken.clear()
            if self._pods.synced and self._gpus():
                await self._settle_all()
            await self._wait()

    def withdraw(self) -> None:
        """From now on, no GPU is listed with MPS."""
        self._withdrawn = True

    async def close(self) -> None:
        """Those of an agent before us, too: this one may end before its first look."""
        for uuid in self._left():
            self._daemon(uuid)
        plans = mps_plans(self._pods.objects.values(), self._gpus(), plugin=False)
        known = self._pods.synced and self._gpus()
        await asyncio.gather(
            *(
                daemon.stop(shared=not known or bool(plans.get(uuid, MpsPlan()).shares))
                for uuid, daemon in self._daemons.items()
            ),
            return_exceptions=True,
        )

    def _left(self) -> set[str]:
        """GPUs that have, or had, a daemon."""
        try:
            return {path.name for path in self._settings.folder.iterdir()}
        except FileNotFoundError:
            return set()

    async def _wait(self) -> None:
        """Until the next look is due, something changed, or a daemon has ended."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + _LOOK_S
        while loop.time() < until_s:
            try:
                async with asyncio.timeout(_GLANCE_S):
                    await self._woken.wait()
                    return
            except TimeoutError:
                if any(daemon.due() for daemon in self._daemons.values()):
                    return

    async def _settle_all(self) -> None:
        before = self.listed
        plans = self._plans()
        resident = pods_by_uid(self._pods.objects.values(), self._gpus())
        async with asyncio.TaskGroup() as tasks:
            for uuid, plan in plans.items():
                tasks.create_task(self._settle(uuid, plan, resident))
        if self.listed != before:
            self._changed()

    def _plans(self) -> dict[str, MpsPlan]:
        """A GPU that is no longer ours may still have the daemon of an agent before us."""
        plans = mps_plans(self._pods.objects.values(), self._gpus(), plugin=self._plugin())
        ours = self._settings.gpus
        left = self._left()
        return {
            uuid: plan if ours.has(uuid) else MpsPlan(off_because="it is not in --mps")
            for uuid, plan in plans.items()
            if ours.has(uuid) or uuid in left
        }

    async def _settle(self, uuid: str, plan: MpsPlan, resident: PodsByUid) -> None:
        """What NVML cannot say of one GPU does not stop the others."""
        daemon = self._daemon(uuid)
        try:
            sample = await self._sample(uuid, plan)
            await daemon.settle(plan, sample)
        except FairleadError as error:
            daemon.fail(str(error), _LOOK_S)
            return
        for client in self._excess(daemon, plan, sample, resident):
            await daemon.terminate(client.pid)
            self._report(uuid, client)
        for client in self._bypassing(daemon, plan, sample, resident):
            self._kill_pod(client.pod, resident)
            self._report(uuid, client)
            daemon.retry_now()
        self._reported = {
            key: why
            for key, why in self._reported.items()
            if key[0] != uuid or (daemon.look and key[1] in daemon.look.clients)
        }

    async def _sample(self, uuid: str, plan: MpsPlan) -> GpuSample:
        """A GPU that is lost cannot be asked; its daemon is ended all the same."""
        if plan.off_because:
            return GpuSample(uuid)
        return await self._nvml.ask(GpuSample, "sample", uuid)

    def _daemon(self, uuid: str) -> MpsDaemon:
        if uuid not in self._daemons:
            control = MpsControl(self._settings.folder, uuid, self._settings.program)
            now = asyncio.get_running_loop().time
            self._daemons[uuid] = MpsDaemon(control, self._nvml, uuid, now)
        return self._daemons[uuid]

    # -- processes ---------------------------------------------------------------------------------

    def _excess(
        self, daemon: MpsDaemon, plan: MpsPlan, sample: GpuSample, resident: PodsByUid
    ) -> list[ExcessClient]:
        """While the pods are not known for certain, no process is ended."""
        if daemon.look is None or not self._pods.synced or self._pods.problem:
            return []
        held = {each.pid: (each.memory_bytes or 0) >> 20 for each in sample.processes}
        clients = self._processes(daemon.look.clients, held)
        rules, unlimited = self._settings.rules, daemon.unlimited
        return excess_clients(clients, plan.shares, resident, rules, unlimited=unlimited)

    def _bypassing(
        self, daemon: MpsDaemon, plan: MpsPlan, sample: GpuSample, resident: PodsByUid
    ) -> list[ExcessClient]:
        """Those that took the GPU while no server had it, and keep the server from starting.

        Processes whose server has ended are also there for a moment, and are not meant.
        """
        certain = self._pods.synced and not self._pods.problem and self._settings.proc == PROC
        if daemon.blocked < _BLOCKED_TIMES or not certain:
            return []
        direct = frozenset(each.pid for each in sample.processes if not each.mps)
        pids = direct - daemon.served - self.servers
        found = self._processes(pids, {})
        return without_mps(found, plan.shares, resident, self._settings.rules)

    def _kill_pod(self, pod: NodePod, resident: PodsByUid) -> None:
        """All of it: one process after another would take the GPU before the server has it."""
        for pid in all_pids(self._settings.proc):
            owner = owner_of(pid, self._settings.proc)
            if owner and [each.uid for each in pods_of(owner, resident)] == [pod.uid]:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _processes(self, pids: frozenset[int], held: Mapping[int, int]) -> list[MpsClient]:
        proc = self._settings.proc
        owners = {pid: owner for pid in pids if (owner := owner_of(pid, proc)) is not None}
        return [
            MpsClient(pid, owner, started_ticks(pid, proc), held.get(pid, 0))
            for pid, owner in owners.items()
        ]

    def _report(self, uuid: str, client: ExcessClient) -> None:
        if self._reported.get((uuid, client.pid)) == client.why:
            return
        self._reported[uuid, client.pid] = client.why
        pod = client.pod
        name = f"{pod.namespace}/{pod.name}"
        log.warning("ended a process", gpu=uuid, pid=client.pid, pod=name, why=client.why)
        about = Regarding(pod.namespace, pod.name, pod.uid, pod.version)
        note = f"the GPU work of process {client.pid} on GPU {uuid} was ended: {client.why}"
        self._events.warn(about, SHARE_EXCEEDED, "Limiting", note)
