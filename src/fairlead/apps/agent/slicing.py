"""Divides GPUs as soon as pods come or go, and warns pods that do not get their slice."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from fairlead.apps.agent.partitioning import GpuCut, Partitioner, held_by
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.writes.event_objects import Regarding
from fairlead.kube.writes.event_writer import EventWriter
from fairlead.model.errors import FairleadError
from fairlead.model.pods import Pod
from fairlead.telemetry.nvml.facts import GpuFacts

log = structlog.get_logger(__name__)

REASON = "MIGSliceNotMade"


class Slicing:
    """`run` it in a task. `cuts` is None until the GPUs have been looked at for the first time."""

    def __init__(
        self,
        partitioner: Partitioner,
        pods: Reflector[Pod],
        events: EventWriter,
        *,
        gpus: Callable[[], Sequence[GpuFacts]],
        changed: Callable[[], None],
        pause_s: float,
    ) -> None:
        self._partitioner = partitioner
        self._pods = pods
        self._events = events
        self._gpus = gpus
        self._changed = changed
        self._pause_s = pause_s
        self._woken = asyncio.Event()
        #: The last message for each pod, by its uid.
        self._told: dict[str, str] = {}
        self.cuts: dict[str, GpuCut] | None = None
        self.problem = "the MIG slices have not been created yet"

    def wake(self) -> None:
        """Something has changed: do not wait for the next look."""
        self._woken.set()

    async def run(self) -> None:
        while True:
            self._woken.clear()
            if self._pods.synced and self._gpus():
                await self._try()
            try:
                async with asyncio.timeout(self._pause_s):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def _try(self) -> None:
        before = self.cuts
        try:
            await self._settle()
        except FairleadError as error:
            if str(error) != self.problem:
                log.warning("MIG slices cannot be created; retrying", error=str(error))
            self.problem = str(error)
        else:
            self.problem = ""
        if self.cuts != before:
            self._changed()

    async def _settle(self) -> None:
        """Without the pods we would put back what they hold, so it waits for them to be known."""
        gpus = self._gpus()
        held = held_by(self._pods.objects.values(), gpus)
        self.cuts = await self._partitioner.settle([gpu.uuid for gpu in gpus], held)
        blocked = {uid: why for cut in self.cuts.values() for uid, why in cut.blocked.items()}
        pods = {pod.uid: pod for pod in self._pods.objects.values()}
        for uid, why in blocked.items():
            if self._told.get(uid) != why and uid in pods:
                self._complain(pods[uid], why)
        self._told = blocked

    def _complain(self, pod: Pod, why: str) -> None:
        log.warning("MIG slice not created for pod", pod=f"{pod.namespace}/{pod.name}", why=why)
        about = Regarding(pod.namespace, pod.name, pod.uid, pod.version)
        self._events.warn(about, REASON, "Cutting", f"the MIG slice does not exist: {why}")
