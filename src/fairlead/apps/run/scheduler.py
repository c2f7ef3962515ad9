"""The scheduler as a running program: watches feed the engine, its instructions become writes."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from fairlead.apps.decision_log.recording import RecordedEngine
from fairlead.apps.run.carrying_out import CarryingOut, Writers, about, doing, failed
from fairlead.apps.run.claim_drivers import DriverWatch
from fairlead.apps.run.containment import Containment
from fairlead.apps.run.counted_measures import expose_counted_of
from fairlead.apps.run.data_watches import count_data
from fairlead.apps.run.deciding import Deciding
from fairlead.apps.run.ended_runs import EndedRuns
from fairlead.apps.run.feeds import Feeds
from fairlead.apps.run.finished_members import FinishedMembers
from fairlead.apps.run.goals_reporting import GoalsReporting
from fairlead.apps.run.gpu_measures import expose
from fairlead.apps.run.kubelet_rejections import KubeletRejections
from fairlead.apps.run.measures import Measures
from fairlead.apps.run.node_requests import NodeRequestCare
from fairlead.apps.run.object_watches import ObjectWatches
from fairlead.apps.run.optional_kinds import OptionalKinds
from fairlead.apps.run.options import SchedulerOptions
from fairlead.apps.run.owner_reader import OwnerReader
from fairlead.apps.run.pricing import Pricing
from fairlead.apps.run.queue_measures import expose_queues_of
from fairlead.apps.run.releases import Releases
from fairlead.apps.run.report_measures import expose_report
from fairlead.apps.run.reservations import ReservationCare
from fairlead.apps.run.run_time_store import RunTimeStore
from fairlead.apps.run.service_measures import expose_service_classes
from fairlead.apps.run.start_forecasting import StartForecasting
from fairlead.apps.run.usage import Usage
from fairlead.apps.run.verification import Verification
from fairlead.apps.run.watches import Watches
from fairlead.engine import events, instructions
from fairlead.engine.engine import Engine
from fairlead.engine.reasons import SCHEDULER_ERROR
from fairlead.kube.bind_encoder import DialectEncoder
from fairlead.kube.errors import ApiError
from fairlead.kube.failures import Failures
from fairlead.kube.gangs.registry import GangDialects
from fairlead.kube.gangs.status_writer import GangStatusWriter
from fairlead.kube.http.client import Client
from fairlead.kube.http.counting import Counted
from fairlead.kube.http.transport import Transport
from fairlead.kube.leadership.elector import Elector, LeadershipLost
from fairlead.kube.leadership.fence import Fenced
from fairlead.kube.mirror.reflector import Reflector
from fairlead.kube.mirror.wire import StatusError
from fairlead.kube.queues.registry import QueueDialects
from fairlead.kube.queues.status_writer import QueueStatusWriter
from fairlead.kube.reservations import GRACE_S
from fairlead.kube.version import learn_behaviour
from fairlead.kube.writes.binder import Binder
from fairlead.kube.writes.claim_writer import ClaimWriter
from fairlead.kube.writes.device_readiness import DeviceReadiness
from fairlead.kube.writes.evictor import Evictor
from fairlead.kube.writes.object_status import ObjectStatusWriter
from fairlead.kube.writes.preparer import Preparer, StepWriter
from fairlead.kube.writes.recorder import Recorder
from fairlead.kube.writes.reserver import Reserver
from fairlead.kube.writes.settling import Outcome
from fairlead.kube.writes.special_claims import SpecialClaims
from fairlead.kube.writes.volume_binder import VolumeBinder
from fairlead.model.pods import Pod, PodField
from fairlead.model.readings import NodeReadings
from fairlead.placement.profile import Profile
from fairlead.plugins.claim_step import ClaimStep
from fairlead.plugins.prepare import PrepareStep
from fairlead.plugins.reservation_step import ReservationStep
from fairlead.plugins.volume_step import VolumeStep
from fairlead.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from fairlead.apps.run.extender_calls import ExtenderCalls
    from fairlead.apps.run.feeds import SourceFeed
    from fairlead.apps.run.solving import Solving

    _Part = (
        Reflector[Any] | Binder | Evictor | Recorder | Pricing | Verification | Releases | Usage
        | KubeletRejections | ReservationCare | ObjectWatches | GangStatusWriter | FinishedMembers
        | QueueStatusWriter | EndedRuns | RunTimeStore | ObjectStatusWriter[Any, Any] | OwnerReader
        | StartForecasting | DriverWatch | SourceFeed | ExtenderCalls | GoalsReporting
        | Solving
    )  # fmt: skip

log = structlog.get_logger(__name__)

_STOP_GRACE_S = 5.0
# A process that decides nothing for so long cannot lead.
_STUCK_S = 5.0
_CATCH_UP_AGAIN_S = 0.5
_DEFAULTS = SchedulerOptions()


class Scheduler:
    """Watches, decides and writes until cancelled. All of it lives in one event loop."""

    def __init__(
        self,
        client: Client,
        profiles: Mapping[str, Profile],
        options: SchedulerOptions = _DEFAULTS,
        *,
        metrics: Metrics,
        on_event: Callable[[events.Event], None] = lambda _: None,
        on_instruction: Callable[[instructions.Instruction], None] = lambda _: None,
    ) -> None:
        if not profiles:  # another scheduler decides
            options = replace(
                options, gang_dialects=GangDialects(()), queue_dialects=QueueDialects(())
            )
        self._client, self._options, self.metrics = client, options, metrics
        self._on_event, self._on_instruction = on_event, on_instruction
        self._served = frozenset(profiles)
        self._awake = asyncio.Event()
        terms = options.terms
        # A lease must be renewed while replies to all other requests are slow.
        self._elector = Elector(client.apart(), terms, fit=self._fit_to_lead) if terms else None
        #: Whether our cache is good enough to decide by: no earlier leader knew more.
        self._has_taken_over = self._elector is None
        failures = Failures()
        self.engine = _engine(profiles, options, _encoder(self._elector, failures, options))
        self._containment = Containment(self.engine, failures)
        writer: Transport = Fenced(client, self._elector.leads) if self._elector else client
        self._add_writes(writer, failures)
        self._add_watches(writer, profiles)
        self._add_steps(writer, failures)
        self._add_measures()
        self._add_sources(profiles)
        self._add_records(writer)
        self._add_checks()
        self._listeners = self._listening()
        self._carrying_out = CarryingOut(
            self._writers(),
            self.engine,
            self._measures,
            expects_variables=options.expects_variables,
            perform=self._perform,
        )
        self._deciding = Deciding(
            self.engine,
            self._containment,
            self._measures,
            self._awake,
            perform=self._perform,
            may_decide=self._may_decide,
            room=self._room_for_writes,
            show_again=self._show_again,
            decisions=options.decisions,
        )

    # -- parts -------------------------------------------------------------------------------

    def _leads(self) -> bool:
        return self._has_taken_over

    def _add_writes(self, writer: Transport, failures: Failures) -> None:
        self._binder = Binder(
            writer,
            self._bind_ended,
            max_in_flight=self._options.max_binds_in_flight,
            failures=failures,
        )
        self._recorder = Recorder(writer, pods_wait=self._pods_wait)
        self._evictor = Evictor(
            writer,
            self._feed,
            self._recorder.preempted,
            now_ns=time.time_ns,
            failures=failures,
            recorded=self._recorder.recorded,
        )

    def _add_watches(self, writer: Transport, profiles: Mapping[str, Profile]) -> None:
        options, extender = self._options, self._options.extender_profile
        self._kinds = OptionalKinds(
            self._client,
            writer,
            self._feed,
            self._containment.supervise,
            self._served,
            options.gang_dialects,
            options.queue_dialects,
            self._node_requests(writer) if profiles else None,
            self._awake.set,
            counts_data=count_data(profiles.values()),
        )
        served = (*profiles.values(), *([extender] if extender else ()))
        self._watches = Watches(
            self._client,
            self.engine,
            self._feed,
            self._awake.set,
            self._on_unreadable,
            with_selectors=any(
                profile.pod_fields & PodField.DEFAULT_SELECTOR for profile in served
            ),
            reservations_in=options.reservations.namespace if options.reservations else "",
            gang_dialects=options.gang_dialects,
            queue_dialects=options.queue_dialects,
        )

    def _node_requests(self, writer: Transport) -> NodeRequestCare | None:
        terms = self._options.node_requests
        return NodeRequestCare(
            self._client,
            writer,
            terms,
            lambda: self.engine.node_requests,
            self._feed,
            self._containment.supervise,
            self._may_decide,
        ) if terms else None  # fmt: skip

    def _add_steps(self, writer: Transport, failures: Failures) -> None:
        """What is written before a bind."""
        writer = self._step_writes = Counted(writer)
        claims, plan = self._kinds.claims, self._options.reservations
        readiness = DeviceReadiness(claims.get, self._recorder.warned)
        special = SpecialClaims(writer, claims.get)
        self._claim_writer = ClaimWriter(writer, claims.written, time.time, readiness, special)
        self._volume_binder = VolumeBinder(
            writer, self._watches.volume_claims, self._watches.volumes
        )
        self._reservations = ReservationCare(
            self.engine,
            self._feed,
            self._leads,
            self.metrics,
            grace_s=plan.grace_s if plan else GRACE_S,
        )
        self._reserver = Reserver(
            writer, plan, lambda: self.engine.cluster, self._reservations.failed
        ) if plan else None  # fmt: skip
        writers: dict[type[PrepareStep], StepWriter] = {
            VolumeStep: self._volume_binder, ClaimStep: self._claim_writer
        }  # fmt: skip
        if self._reserver:
            writers[ReservationStep] = self._reserver
        self._preparer = Preparer(self._feed, writers, failures=failures)

    def _add_measures(self) -> None:
        engine, metrics, options = self.engine, self.metrics, self._options
        self.usage = Usage(engine.cluster)
        self._measures = Measures(
            metrics, engine, self._binder, self._recorder, self._kinds.gangs.writer
        )
        self._measures.watch_containment(self._containment)
        if options.decisions:
            self._measures.watch_decision_log(options.decisions)
        if self._elector:
            self._measures.watch_leader(self._elector)
        expose(metrics, self.usage)
        expose_queues_of(engine, metrics)
        expose_counted_of(engine, metrics)
        if options.service_classes:
            expose_service_classes(options.service_classes, engine, metrics)

    def _add_sources(self, profiles: Mapping[str, Profile]) -> None:
        """What is asked outside the API server, or in processes of its own."""
        client, options, metrics = self._client, self._options, self.metrics
        self._pricing = Pricing(self.engine, self._feed)
        self._solving = self._make_solving(profiles)
        self._extenders = self._make_extenders()
        self._feeds = Feeds(self.engine, self._feed, metrics)
        self._feeds.add_readings(options.sources, self._measures)
        self._feeds.add_figures(options.figures)
        self._feeds.add_named(options.readings)
        self._feeds.add_forecasts(options.forecasts, client)

    def _make_solving(self, profiles: Mapping[str, Profile]) -> "Solving | None":
        if not any(profile.solver for profile in profiles.values()):
            return None
        from fairlead.apps.run.solving import Solving

        return Solving(self.engine, self._feed, self.metrics)

    def _make_extenders(self) -> "ExtenderCalls | None":
        asked = self._options.extenders
        if not asked:
            return None
        from fairlead.apps.run.extender_calls import ExtenderCalls

        return ExtenderCalls(asked, self._client, self._feed, self.metrics)

    def _add_records(self, writer: Transport) -> None:
        """What is learned from pods, and reported."""
        client, engine, place = self._client, self.engine, self._options.learned_in
        self._reporting = GoalsReporting(engine, self.usage, self._leads)
        self._run_time_store = RunTimeStore(
            writer, place, engine, self._feed, self._leads, self._reporting.book
        ) if place and self._served else None  # fmt: skip
        if self._run_time_store:
            self._reporting.loaded = self._run_time_store.loaded
            expose_report(self._reporting.book, self.metrics)
        self._ended = EndedRuns(
            client,
            self._feed,
            engine,
            self._served,
            self._leads,
            self._run_time_store.loaded if self._run_time_store else None,
        )
        self._forecasting = StartForecasting(engine, self._feed, self._leads)
        self._owners = OwnerReader(client, self._feed, self._served, time.monotonic)

    def _add_checks(self) -> None:
        metrics = self.metrics
        self._releases = Releases(self.engine, self._feed, metrics)
        self._rejections = KubeletRejections(self._client, self._feed, self._served)
        self._drivers = DriverWatch(
            self._served, self._watches.pods, self.engine, lambda: not self._unsynced(), metrics
        )
        self._verification = Verification(
            self.engine,
            self._reflectors,
            self._watches.pods,
            self._feed,
            metrics,
            self._options.verify_every_s,
        )
        self._verification.leaves_out = self._leaves_out

    def _listening(self) -> dict[type, tuple[Callable[[Any], None], ...]]:
        """What learns from events, beside the engine; none of them is asked about the others."""
        reservations = [self._reservation_changed] if self._reserver else []

        def look_at_volumes(_: events.StorageSeen | events.StorageGone) -> None:
            self._volume_binder.look()

        return {
            events.PodSeen: (*reservations, self._reporting.note, self._owners.note),
            events.PodGone: (
                self._pod_gone, *reservations, self._rejections.note, self._ended.note,
            ),
            events.BindDone: (self._measures.bind_ended,),
            events.BindFailed: (self._measures.bind_ended,),
            events.StorageSeen: (look_at_volumes,),
            events.StorageGone: (look_at_volumes,),
            events.ClaimObjectSeen: (lambda event: self._claim_writer.look(event.seen.key),),
            events.ClaimObjectGone: (lambda event: self._claim_writer.look(event.gone.key),),
            events.ReadingsTaken: (self.usage.note,),
        }  # fmt: skip

    def _writers(self) -> Writers:
        self._finished = FinishedMembers(
            self._client, self._feed, self._watches.decode_pod, self._containment.failures
        )
        return Writers(
            self._binder,
            self._preparer,
            self._recorder,
            self._evictor,
            self._claim_writer,
            self._kinds,
            self._finished,
            self._reporting,
            self._reserver,
            self._extenders,
        )

    # -- life --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Schedules until cancelled, then finishes what is under way.

        A part that breaks is started again after a while. Only what ends by itself ends the whole:
        an election that was lost.
        """
        behaviour = await learn_behaviour(self._client)
        self._options.on_server(behaviour)
        self._feed(events.ServerKnown(behaviour))
        if self._options.service_classes:
            self._feed(events.ServiceClassesSeen(self._options.service_classes))
        supervise = self._containment.supervise
        parts = [asyncio.create_task(supervise("decide", self._deciding.run), name="decide")]
        for part in self._working():
            name = type(part).__name__
            parts.append(asyncio.create_task(supervise(name, part.run), name=name))
        if self._elector:
            parts.append(asyncio.create_task(self._elector.run(), name="elector"))
            parts.append(asyncio.create_task(self._take_over(self._elector), name="take over"))
        grace_s = _STOP_GRACE_S
        try:
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        except LeadershipLost:
            grace_s = 0.0  # another decides now
            raise
        finally:
            await self._stop(parts, grace_s)

    async def _stop(self, parts: Sequence[asyncio.Task[None]], grace_s: float) -> None:
        """Decides no more, and finishes what is under way within the grace."""
        parts[0].cancel()
        self._claim_writer.stop()
        await self._preparer.stop()
        if self._reserver:
            await self._reserver.stop()
        await self._binder.stop(grace_s)
        writers = self._recorder, *self._kinds.writers
        await asyncio.gather(*(each.stop(grace_s) for each in writers))
        for task in parts:
            task.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        await self._hand_over()
        if self._options.decisions:
            self._options.decisions.close(_STOP_GRACE_S)

    def _working(self) -> "tuple[_Part, ...]":
        """What runs beside the decisions."""
        return (
            *self._watches.all,
            self._binder,
            self._evictor,
            self._recorder,
            self._pricing,
            self._verification,
            self._releases,
            self._rejections,
            self._finished,
            self._ended,
            self._owners,
            self._forecasting,
            *([self._run_time_store, self._reporting] if self._run_time_store else ()),
            *([self._reservations] if self._reserver else ()),
            *self._kinds.parts,
            self._drivers,
            self.usage,
            *self._feeds.all,
            *([self._extenders] if self._extenders else ()),
            *([self._solving] if self._solving else ()),
        )

    def choose(self, pod: Pod, node: str) -> None:
        """Another scheduler, whom we advise, chose a node: binds the pod there, or declines."""
        self._feed(events.NodeChosen(pod, node))

    def pod(self, key: str) -> Pod | None:
        """The pod of that "namespace/name" as the API server last showed it."""
        return self._watches.pods.objects.get(key)

    def take_readings(self, readings: Iterable[NodeReadings]) -> None:
        """New readings; with none, old readings fade."""
        self._feed(events.ReadingsTaken(tuple(readings)))

    def unready_because(self) -> str:
        """Why pods are not being scheduled right now; empty when they are."""
        if unsynced := self._unsynced():
            return f"not synced yet: {', '.join(unsynced)}"
        if self._containment.is_rebuilding:
            return "the engine is being built again after an internal error; see the log"
        if time.monotonic() - self._deciding.alive_at_s > 15.0:
            return "the scheduling loop has stopped"
        for reflector in self._watches.all:
            if reflector.problem:
                return f"no word from the API server on {reflector.path}: {reflector.problem}"
        return ""

    def is_quiet(self) -> bool:
        """Whether no pod is to be tried, and no bind is under way."""
        return not self.engine.queue.has_active() and self._binder.is_settled

    @property
    def failures(self) -> Failures:
        """Unexpected errors, as the metrics count them."""
        return self._containment.failures

    @property
    def standing(self) -> str:
        """What to report beside being ready: a standby, or objects that are left out."""
        return self.standby or self._containment.standing

    @property
    def standby(self) -> str:
        """Why another replica decides; empty when this one does."""
        if self._has_taken_over or self._elector is None:
            return ""
        leader = self._elector.holder
        if leader == self._elector.identity:
            return "standby: elected, and catching up"
        return f"standby: {leader or 'nobody'} leads"

    def _reflectors(self) -> tuple[Reflector[Any], ...]:
        return *self._watches.all, *self._kinds.reflectors

    def _fit_to_lead(self) -> bool:
        ticking = time.monotonic() - self._deciding.alive_at_s < _STUCK_S
        return ticking and not self._unsynced()

    def _unsynced(self) -> Sequence[str]:
        """What was not listed yet."""
        return self._watches.unsynced or self._kinds.unsynced

    async def _take_over(self, elector: Elector) -> None:
        """Decides once we know at least what could be read after we had won."""
        await elector.elected.wait()
        kinds = self._kinds.reflectors
        served = (each for each in kinds if each.synced and not each.problem)
        behind = (*self._watches.all, *served)
        await asyncio.gather(*(self._catch_up(reflector) for reflector in behind))
        log.info("taken over", epoch=elector.epoch)
        self._has_taken_over = True
        self._awake.set()
        await asyncio.Event().wait()

    async def _catch_up(self, reflector: Reflector[Any]) -> None:
        while True:
            try:
                return await reflector.catch_up()
            except (ApiError, StatusError) as error:
                log.warning(
                    "reading the state of the cluster failed; retrying",
                    path=reflector.path,
                    error=str(error),
                )
                await asyncio.sleep(_CATCH_UP_AGAIN_S)

    async def _hand_over(self) -> None:
        """Not while a bind of ours may still be carried out: the next would not know of it."""
        if self._elector and self._binder.is_settled:
            await self._elector.release()

    # -- events in, instructions out ---------------------------------------------------------

    def _feed(self, event: events.Event) -> None:
        """Hands the engine what happened, and does what it asks for."""
        kind = type(event)
        for instruction in self._containment.handle(event, time.monotonic()):
            self._perform(instruction)
        try:
            for listen in self._listeners.get(kind, ()):
                listen(event)
            self._on_event(event)
        except Exception as error:
            self._containment.failures.note("noting", kind.__name__, error)
        self._awake.set()

    def _bind_ended(self, outcome: Outcome) -> None:
        self._claim_writer.bind_ended(outcome, self._feed)

    def _pod_gone(self, event: events.PodGone) -> None:
        self._preparer.abandon(event.pod.uid)
        self._claim_writer.release(event.pod.uid)

    def _reservation_changed(self, event: events.PodSeen | events.PodGone) -> None:
        pod, reserver = event.pod, self._reserver
        if pod.reservation is None or reserver is None:
            return
        reserver.look()
        if isinstance(event, events.PodGone) and self._has_taken_over:
            reserver.clear(pod)

    def _on_unreadable(self, key: str, pod: Pod | None, error: Exception) -> None:
        said = self._containment.failures.note("reading", key, error)
        if pod is not None and pod.scheduler in self._served:
            self._perform(instructions.AnnounceFailure(pod, SCHEDULER_ERROR, said))

    def _pods_wait(self) -> bool:
        return self.engine.queue.has_active()

    def _leaves_out(self, pod: Pod) -> bool:
        return self._containment.leaves_out(pod, time.monotonic())

    def _perform(self, instruction: instructions.Instruction) -> None:
        """Carries it out; one that cannot be is answered with that."""
        if isinstance(instruction, instructions.AttemptCrashed):
            self._containment.attempt_crashed(instruction, time.monotonic())
            return
        if not self._has_taken_over:
            return  # the leader announces it
        try:
            self._on_instruction(instruction)
            self._carrying_out.carry_out(instruction)
        except Exception as error:
            self._not_carried_out(instruction, error)

    def _not_carried_out(self, instruction: instructions.Instruction, error: Exception) -> None:
        said = self._containment.failures.note(doing(instruction), about(instruction), error)
        answer = failed(instruction, said)
        if answer is not None:
            asyncio.get_running_loop().call_soon(self._feed, answer)

    # -- deciding ----------------------------------------------------------------------------

    def _may_decide(self) -> bool:
        return self._has_taken_over and not self._unsynced()

    def _room_for_writes(self) -> int:
        """How many more pods may be decided on: what is decided is written at once.

        Steps count while they write, and not while they wait for a driver or a controller.
        """
        return self._binder.free_slots - self._step_writes.under_way

    async def _show_again(self) -> AsyncIterator[None]:
        """Shows an engine that knows nothing what the watches hold."""
        self.usage.cluster = self.engine.cluster
        async for _ in self._kinds.retell():
            yield
        async for _ in self._watches.retell():
            yield


def _engine(
    profiles: Mapping[str, Profile], options: SchedulerOptions, encoder: DialectEncoder
) -> Engine:
    decisions = options.decisions
    engine = (partial(RecordedEngine, decisions) if decisions else Engine)(
        profiles,
        options.extender_profile,
        encoder,
        reserves=options.reservations is not None,
        topology=options.topology,
        consolidation=options.consolidation,
        backfill=options.backfill,
        extenders=[each.terms for each in options.extenders],
        tenants=options.tenants,
    )
    engine.keeps_records = (
        decisions.keeps_records if decisions else log.is_enabled_for(logging.DEBUG)
    )
    return engine


def _encoder(
    elector: Elector | None, failures: Failures, options: SchedulerOptions
) -> DialectEncoder:
    now_ns, epoch = time.time_ns, (lambda: elector.epoch) if elector else None
    if decisions := options.decisions:
        now_ns, epoch = decisions.drawing(now_ns), epoch and decisions.drawing(epoch)
    return DialectEncoder(now_ns, epoch=epoch, failures=failures)
