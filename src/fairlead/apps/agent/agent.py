"""Looks at the GPUs every few seconds, and publishes the inventory, metrics and events."""

import asyncio
import contextlib
import dataclasses
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

import structlog
from msgspec.structs import replace

from fairlead.apps.agent.gpu_offers import Capacity, Offers, offered
from fairlead.apps.agent.listing import listing
from fairlead.apps.agent.mps.sharing import MpsSettings, MpsSharing
from fairlead.apps.agent.node_pods import pods_by_uid
from fairlead.apps.agent.observing import observed_processes, unassigned_uses, uses
from fairlead.apps.agent.partitioning import Partitioner
from fairlead.apps.agent.picked import PickedGpus
from fairlead.apps.agent.publishing import Publisher
from fairlead.apps.agent.releases import ReleasedPods
from fairlead.apps.agent.resource_slices.device_pool import Mode
from fairlead.apps.agent.resource_slices.node_devices import NodeDevices
from fairlead.apps.agent.slicing import Slicing
from fairlead.apps.agent.unassigned_processes import (
    NOT_EMPTY,
    PodsByUid,
    ProcessCheck,
    ProcessMonitor,
    UnassignedProcess,
)
from fairlead.apps.supervising import supervise
from fairlead.base.node_inventory import Listing
from fairlead.kube.codec import decode_pod
from fairlead.kube.failures import Failures
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.changes import Change, Deleted, Upserted, change_key
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.writes.event_objects import Regarding, regarding_node
from fairlead.kube.writes.event_writer import EventWriter
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.telemetry.agent import AgentMetrics, AgentReport
from fairlead.telemetry.nvml.facts import GpuFacts, GpuSample
from fairlead.telemetry.nvml.process import Nvml, NvmlError, NvmlUnavailable
from fairlead.telemetry.nvml.survey import GpuSurvey, Surveyor
from fairlead.telemetry.processes import pods_running, sees_the_host

log = structlog.get_logger(__name__)

REASON = "UnassignedGPUProcess"
#: Looks between two surveys, if nothing happens.
_SURVEY_EVERY = 3
#: Looks that may fail before every GPU is called sick.
_TRIES = 3
_GRACE_S = 2.0
_UNREADABLE = "the GPUs cannot be read; see the agent's /readyz"


@dataclass(frozen=True, slots=True)
class AgentSettings:
    node: str
    #: Between two looks.
    pause_s: float = 5.0
    proc: Path = Path("/proc")
    toolkit: str = ""
    #: None: as the node's capacity says.
    plugin: bool | None = None
    #: Whether metrics show pods by name.
    names_pods: bool = False
    #: The socket of the kubelet's PodResources API, if it is to be asked.
    pod_resources: Path | None = None
    #: The GPUs whose shares MPS enforces; None: it does not.
    mps: MpsSettings | None = None
    #: What ResourceSlices say of the GPUs, where no driver publishes them.
    resource_slices: Mode = "none"
    #: Which resources the status of the node offers.
    gpu_resources: Offers = "none"


class Agent:
    """One machine. `run` it in a task; cancel the task to stop."""

    def __init__(
        self,
        nvml: Nvml,
        client: Client,
        settings: AgentSettings,
        monitor: ProcessMonitor,
        partitioner: Partitioner | None = None,
        setter: Nvml | None = None,
    ) -> None:
        """`setter` is asked to change GPUs, and is not delayed by readings."""
        self._settings = settings
        self._monitor = monitor
        #: Unexpected errors: what they are about is passed over, and the rest goes on.
        self.internal = Failures()
        self._surveyor = Surveyor(nvml, time.monotonic)
        self._pods: Reflector[Pod] = Reflector(
            client,
            "/api/v1/pods",
            decode_pod,
            self._deliver,
            field_selector=f"spec.nodeName={settings.node}",
        )
        self._publisher = Publisher(client, settings.node, self._wanted, offers=self._offered)
        self._events = EventWriter(
            client, hostname=socket.gethostname(), now_ns=time.time_ns, limit=256, workers=1
        )
        self._slicing = partitioner and Slicing(
            partitioner,
            self._pods,
            self._events,
            gpus=lambda: self._survey.gpus if self._survey else (),
            changed=self._publisher.look_again,
            pause_s=settings.pause_s,
        )
        self._sharing = settings.mps and MpsSharing(
            settings.mps,
            setter or nvml,
            self._pods,
            self._events,
            gpus=lambda: self._survey.gpus if self._survey else (),
            plugin=self._plugin,
            changed=self._publisher.look_again,
        )
        self._devices = NodeDevices.of(settings.resource_slices, nvml, client, settings)
        self.metrics = AgentMetrics(
            settings.node,
            time.monotonic,
            names_pods=settings.names_pods,
            restarts=lambda: nvml.starts,
            errors=self.internal.counts,
        )
        self._survey: GpuSurvey | None = None
        #: None until the pods of the node are known.
        self._resident_pods: PodsByUid | None = None
        self._check: ProcessCheck | None = None
        self._looks = 0
        self._failures = 0
        self._failure = ""
        #: Processes on GPUs that /proc did not show at the last look.
        self._unseen: set[int] = set()
        self._picked = PickedGpus(settings.pod_resources)
        self._blind = False
        self._look_now = asyncio.Event()
        self._releases = ReleasedPods(lambda: pods_running(settings.proc), self._processes_ended)

    def unready_because(self) -> str:
        """A sentence while the list of GPUs is not what it should be; empty if it is."""
        if self._failures >= _TRIES:
            return f"the GPUs cannot be read ({self._failures} tries): {self._failure}"
        if self._survey is None:
            return f"the GPUs have not been read yet{self._failure and ': ' + self._failure}"
        parts = (self._publisher, self._slicing, self._devices and self._devices.publisher)
        return next((part.problem for part in parts if part and part.problem), "")

    async def run(self) -> None:
        parts: dict[str, Callable[[], Awaitable[None]]] = {
            "pods": self._pods.run,
            "publisher": self._publisher.run,
            "events": self._events.run,
            "look": self._look_for_ever,
        }
        if self._confirms():
            parts["releases"] = self._releases.run
        if self._slicing:
            parts["slicing"] = self._slicing.run
        if self._sharing:
            parts["mps"] = self._sharing.run
        if self._devices:
            parts["slices of devices"] = self._devices.publisher.run
            parts["watch of slices"] = self._devices.publisher.watch.run
        async with asyncio.TaskGroup() as tasks:
            for name, run in parts.items():
                tasks.create_task(supervise(self.internal, name, run), name=name)

    def _deliver(self, change: Change[Pod]) -> None:
        """What it raises is a failure of the pod that changed."""
        try:
            self._pod_changed(change)
        except Exception as error:
            self.internal.note("reading", change_key(change), error)

    def _pod_changed(self, change: Change[Pod]) -> None:
        """The mirror is looked at when it is needed; slices are needed at once.

        So is the end of processes of a pod that is gone: the scheduler waits for it. A pod that
        was removed while it ran may have left some on its GPU. The kubelet can name the GPUs of a
        pod as soon as it has started it.
        """
        if self._slicing:
            self._slicing.wake()
        if self._sharing:
            self._sharing.wake()
        if isinstance(change, Deleted) or (isinstance(change, Upserted) and change.obj.finished):
            self._releases.gone(change.obj)
        if isinstance(change, Deleted) and not change.obj.finished:
            self._look_now.set()
        if isinstance(change, Upserted) and self._picked.is_awaited(change.obj):
            self._look_now.set()

    def _processes_ended(self) -> None:
        self._publisher.look_again()
        self._look_now.set()

    async def stop(self) -> None:
        await self._events.stop(_GRACE_S)

    async def release_gpus(self) -> None:
        """Ends the MPS daemons. Before that, the node says so: no share is placed there."""
        if self._sharing:
            self._sharing.withdraw()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    await self._publisher.publish()
            await self._sharing.close()

    async def _look_for_ever(self) -> None:
        while True:
            began_s = asyncio.get_running_loop().time()
            self._look_now.clear()
            await self.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(began_s + self._settings.pause_s):
                    await self._look_now.wait()

    async def look(self) -> None:
        """Once. A driver that is away or hangs is waited for; nothing is forgotten meanwhile.

        An error of our own does not make GPUs sick: it would be the work of one pod.
        """
        before = self._published()
        try:
            await self._look()
        except (NvmlError, NvmlUnavailable) as error:
            self._fail(str(error))
        except Exception as error:
            self.internal.note("observing", self._settings.node, error)
        else:
            self._failures, self._failure = 0, ""
        if self._published() != before:
            self._publisher.look_again()
        if self._devices:
            self._devices.offer(self._survey, self._unhealthy())

    def _fail(self, why: str) -> None:
        self._failures += 1
        self._looks = 0
        if why != self._failure:
            log.warning("GPUs cannot be read; retrying", error=why)
        self._failure = why
        report = self.metrics.report
        if report is not None and self._failures >= _TRIES:
            sick = frozenset(gpu.uuid for gpu in report.gpus)
            self.metrics.report = dataclasses.replace(report, sick=sick)

    async def _look(self) -> None:
        if self._survey is None or self._looks % _SURVEY_EVERY == 0:
            self._survey = await self._surveyor.survey()
        self._looks += 1
        if self._devices:
            await self._devices.read(self._survey)
        samples, troubles = await self._surveyor.sample()
        xids = await self._surveyor.xids()
        for xid in xids:
            log.warning("driver reported an error", gpu=xid.uuid, xid=xid.number)
        well = {gpu.uuid for gpu in self._survey.gpus if not gpu.trouble}
        if xids or troubles.keys() & well:
            self._survey = await self._surveyor.survey()
        if self._pods.synced:
            await self._picked.ask(self._pods.objects.values())
        self._tell(self._survey, samples)

    def _confirms(self) -> bool:
        """Whether it can say that the processes of a pod have ended."""
        return self._monitor.withholds and not self._blind and sees_the_host(self._settings.proc)

    # -- what it publishes -----------------------------------------------------------------------

    def _tell(self, survey: GpuSurvey, samples: dict[str, GpuSample]) -> None:
        devices = self._picked.devices
        resident_pods = pods_by_uid(self._pods.objects.values(), survey.gpus, devices)
        proc = self._settings.proc
        seen = list(observed_processes(survey.gpus, samples, proc)) if sees_the_host(proc) else []
        servers = self._sharing.servers if self._sharing else frozenset()
        self._complain_if_blind(samples, servers | {each.process.pid for each in seen})
        seen = [each for each in seen if each.process.pid not in servers]
        if self._pods.synced and not self._pods.problem:
            self._resident_pods = resident_pods
            self._check = self._monitor.check(seen, resident_pods, time.monotonic())
            for process in self._check.to_report:
                self._report(process)
        self.metrics.report = AgentReport(
            time.monotonic(),
            survey.gpus,
            frozenset(gpu.uuid for gpu in survey.gpus if self._health(gpu)),
            tuple(samples.values()),
            tuple(uses(seen, resident_pods, samples)),
            tuple(unassigned_uses(self._check.unassigned if self._check else ())),
        )

    def _complain_if_blind(self, samples: dict[str, GpuSample], seen: AbstractSet[int]) -> None:
        """Once, and only of a process that is still there after a while: others have ended."""
        listed = {process.pid for sample in samples.values() for process in sample.processes}
        if not self._blind and self._unseen & listed - seen:
            self._blind = True
            log.warning("processes cannot be attributed to pods; run with hostPID, or give --proc")
        self._unseen = listed - seen

    def _health(self, gpu: GpuFacts) -> str:
        return gpu.trouble or self._withheld().get(gpu.uuid, "")

    def _unhealthy(self) -> frozenset[str] | None:
        """GPUs that no new pod may get; None: the driver does not answer, so it is all of them."""
        if self._failures >= _TRIES:
            return None
        gpus = self._survey.gpus if self._survey else ()
        return frozenset(gpu.uuid for gpu in gpus if self._health(gpu))

    def _withheld(self) -> Mapping[str, str]:
        """Before the pods are known, what an agent before us withheld."""
        if self._check is not None:
            return self._check.withheld
        found = self._publisher.found
        listed = found.gpus if found else ()
        return {gpu.uuid: gpu.health for gpu in listed if gpu.health.startswith(NOT_EMPTY)}

    def _report(self, process: UnassignedProcess) -> None:
        seen = process.observed
        mib = (seen.process.memory_bytes or 0) >> 20
        log.warning(
            "process on an unassigned GPU",
            gpu=seen.gpu_uuid,
            pid=seen.process.pid,
            command=seen.owner.command,
            pods=[f"{pod.namespace}/{pod.name}" for pod in process.pods],
            mib=mib,
        )
        note = (
            f"{process.words} uses {mib} MiB of GPU {seen.gpu_index} ({seen.gpu_uuid}) on node "
            f"{self._settings.node}; {process.advice}"
        )
        pods = [Regarding(pod.namespace, pod.name, pod.uid, pod.version) for pod in process.pods]
        for about in pods or [regarding_node(self._settings.node)]:
            self._events.warn(about, REASON, "Watching", note)

    def _picked_gpus(self, survey: GpuSurvey) -> dict[str, list[str]] | None:
        """Before the kubelet has answered, what an agent before us wrote."""
        if not self._picked.asks:
            return None
        found = self._publisher.found
        said = self._picked.listed(survey.gpus)
        return (found.picked if found else None) if said is None else said

    def _plugin(self) -> bool:
        """Whether a device plugin chooses the GPUs."""
        told = self._settings.plugin
        return self._publisher.plugin if told is None else told

    def _published(self) -> tuple[Listing | None, Capacity | None]:
        wanted = self._wanted(self._publisher)
        return wanted, self._offered(wanted)

    def _offered(self, wanted: Listing | None) -> Capacity | None:
        return offered(self._settings.gpu_resources, wanted, self._resident_pods)

    def _wanted(self, publisher: Publisher) -> Listing | None:
        """What the node should say; None while nothing is known."""
        if self._slicing and self._slicing.cuts is None and self._failures < _TRIES:
            return None
        if self._survey is not None:
            plugin = self._plugin()
            found = listing(
                self._survey,
                plugin=plugin,
                picked=self._picked_gpus(self._survey) if plugin else None,
                toolkit=self._settings.toolkit,
                withheld=self._withheld(),
                cuts=self._slicing.cuts if self._slicing else None,
                released=self._releases.released if self._confirms() else None,
                mps=self._sharing.listed if self._sharing else None,
            )
            return _all_sick(found) if self._failures >= _TRIES else found
        # We may have been restarted when the driver had gone: what an earlier agent wrote is old.
        return _all_sick(publisher.found) if publisher.found and self._failures >= _TRIES else None


def _all_sick(found: Listing) -> Listing:
    return replace(found, gpus=[replace(gpu, health=_UNREADABLE) for gpu in found.gpus])
