"""Looks at the cards every few seconds, and tells whoever should know."""

import asyncio
import dataclasses
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import structlog
from msgspec.structs import replace

from fairlead.apps.agent.listing import listing
from fairlead.apps.agent.observing import sightings, stranger_uses, uses
from fairlead.apps.agent.publishing import Publisher
from fairlead.apps.agent.strangers import Stranger, Verdict, Watchman
from fairlead.apps.agent.tenants import tenants
from fairlead.kube.codec import decode_pod
from fairlead.kube.dialects.inventory import Listing
from fairlead.kube.http.client import Client
from fairlead.kube.mirror.changes import Change
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.writes.event_writer import EventWriter
from fairlead.kube.writes.notes import Regarding, regarding_node
from fairlead.model.pods import Pod
from fairlead.telemetry.agent import AgentMetrics, Report
from fairlead.telemetry.nvml.facts import CardFacts, CardSample
from fairlead.telemetry.nvml.process import Nvml, NvmlError, Silence
from fairlead.telemetry.nvml.survey import Survey, Surveyor

log = structlog.get_logger(__name__)

REASON = "UnassignedGPUProcess"
#: Looks between two surveys, if nothing happens.
_SURVEY_EVERY = 3
#: Looks that may fail before every card is called sick.
_TRIES = 3
_GRACE_S = 2.0
_UNREADABLE = "the cards cannot be read; the agent's /readyz says why"


@dataclass(frozen=True, slots=True)
class Settings:
    node: str
    #: Between two looks.
    pause_s: float = 5.0
    proc: Path = Path("/proc")
    toolkit: str = ""
    #: None: as the node's capacity says.
    plugin: bool | None = None


class Agent:
    """One machine. `run` it in a task; cancel the task to stop."""

    def __init__(self, nvml: Nvml, client: Client, settings: Settings, watchman: Watchman) -> None:
        self._settings = settings
        self._watchman = watchman
        self._surveyor = Surveyor(nvml, time.monotonic)
        self._pods: Reflector[Pod] = Reflector(
            client,
            "/api/v1/pods",
            decode_pod,
            _ignore,
            field_selector=f"spec.nodeName={settings.node}",
        )
        self._publisher = Publisher(client, settings.node, self._wanted)
        self._events = EventWriter(
            client, hostname=socket.gethostname(), now_ns=time.time_ns, limit=256, workers=1
        )
        self.metrics = AgentMetrics(settings.node, time.monotonic, restarts=lambda: nvml.starts)
        self._survey: Survey | None = None
        self._verdict = Verdict()
        self._looks = 0
        self._failures = 0
        self._failure = ""
        #: Processes on cards that /proc did not show at the last look.
        self._unseen: set[int] = set()
        self._blind = False

    def unready_because(self) -> str:
        """A sentence while the list of cards is not what it should be; empty if it is."""
        if self._failures >= _TRIES:
            return f"the cards cannot be read ({self._failures} tries): {self._failure}"
        if self._survey is None:
            return f"the cards have not been read yet{self._failure and ': ' + self._failure}"
        return self._publisher.problem

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run())
            tasks.create_task(self._publisher.run())
            tasks.create_task(self._events.run())
            tasks.create_task(self._look_for_ever())

    async def stop(self) -> None:
        await self._events.stop(_GRACE_S)

    async def _look_for_ever(self) -> None:
        while True:
            began_s = time.monotonic()
            await self.look()
            await asyncio.sleep(max(0.0, began_s + self._settings.pause_s - time.monotonic()))

    async def look(self) -> None:
        """Once. A driver that is away or hangs is waited for; nothing is forgotten meanwhile."""
        before = self._wanted(self._publisher)
        try:
            await self._look()
        except (NvmlError, Silence) as error:
            self._fail(str(error))
        else:
            self._failures, self._failure = 0, ""
        if self._wanted(self._publisher) != before:
            self._publisher.look_again()

    def _fail(self, why: str) -> None:
        self._failures += 1
        self._looks = 0
        if why != self._failure:
            log.warning("cards cannot be read; trying on", error=why)
        self._failure = why
        report = self.metrics.report
        if report is not None and self._failures >= _TRIES:
            sick = frozenset(card.uuid for card in report.cards)
            self.metrics.report = dataclasses.replace(report, sick=sick)

    async def _look(self) -> None:
        if self._survey is None or self._looks % _SURVEY_EVERY == 0:
            self._survey = await self._surveyor.survey()
        self._looks += 1
        samples, troubles = await self._surveyor.sample()
        xids = await self._surveyor.xids()
        for xid in xids:
            log.warning("driver reported an error", card=xid.uuid, xid=xid.number)
        if troubles or xids:
            self._survey = await self._surveyor.survey()
        self._tell(self._survey, samples)

    # -- what it tells ---------------------------------------------------------------------------

    def _tell(self, survey: Survey, samples: dict[str, CardSample]) -> None:
        residents = tenants(self._pods.objects.values(), survey.cards)
        seen = list(sightings(survey.cards, samples, self._settings.proc))
        self._complain_if_blind(samples, {each.process.pid for each in seen})
        if self._pods.synced and not self._pods.problem:
            self._verdict = self._watchman.judge(seen, residents, time.monotonic())
            for stranger in self._verdict.news:
                self._report(stranger)
        self.metrics.report = Report(
            time.monotonic(),
            survey.cards,
            frozenset(card.uuid for card in survey.cards if self._health(card)),
            tuple(samples.values()),
            tuple(uses(seen, residents, samples)),
            tuple(stranger_uses(self._verdict.strangers)),
        )

    def _complain_if_blind(self, samples: dict[str, CardSample], seen: set[int]) -> None:
        """Once, and only of a process that is still there after a while: others have ended."""
        listed = {process.pid for sample in samples.values() for process in sample.processes}
        if not self._blind and self._unseen & listed - seen:
            self._blind = True
            log.warning("processes cannot be told apart; run with hostPID, or give --proc")
        self._unseen = listed - seen

    def _health(self, card: CardFacts) -> str:
        return card.trouble or self._verdict.withheld.get(card.uuid, "")

    def _report(self, stranger: Stranger) -> None:
        seen, tenant = stranger.sighting, stranger.tenant
        mib = (seen.process.memory_bytes or 0) >> 20
        log.warning(
            "process on a card that it was not given",
            card=seen.card,
            pid=seen.process.pid,
            command=seen.owner.command,
            pod=f"{tenant.namespace}/{tenant.name}" if tenant else "",
            mib=mib,
        )
        note = (
            f"{stranger.words} uses {mib} MiB of GPU {seen.gpu} ({seen.card}) on node "
            f"{self._settings.node}; {stranger.advice}"
        )
        about = (
            Regarding(tenant.namespace, tenant.name, tenant.uid, tenant.version)
            if tenant
            else regarding_node(self._settings.node)
        )
        self._events.warn(about, REASON, "Watching", note)

    def _wanted(self, publisher: Publisher) -> Listing | None:
        """What the node should say; None while nothing is known."""
        if self._survey is not None:
            plugin = self._settings.plugin
            found = listing(
                self._survey,
                plugin=publisher.plugin if plugin is None else plugin,
                toolkit=self._settings.toolkit,
                withheld=self._verdict.withheld,
            )
            return _all_sick(found) if self._failures >= _TRIES else found
        # We may have been restarted when the driver had gone: what an earlier agent wrote is old.
        return _all_sick(publisher.found) if publisher.found and self._failures >= _TRIES else None


def _all_sick(found: Listing) -> Listing:
    return replace(found, cards=[replace(card, health=_UNREADABLE) for card in found.cards])


def _ignore(_change: Change[Pod]) -> None:
    """The mirror is looked at when it is needed."""
