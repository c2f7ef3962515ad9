"""Instructions of the engine become writes, lines of the log and metrics."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from fairlead.apps.run.finished_members import FinishedMembers
from fairlead.apps.run.goals_reporting import GoalsReporting
from fairlead.apps.run.measures import Measures
from fairlead.apps.run.optional_kinds import OptionalKinds
from fairlead.engine import events, instructions
from fairlead.engine.engine import Engine
from fairlead.kube.writes.binder import Binder
from fairlead.kube.writes.claim_writer import ClaimWriter
from fairlead.kube.writes.evictor import Evictor
from fairlead.kube.writes.preparer import Preparer
from fairlead.kube.writes.recorder import Recorder
from fairlead.kube.writes.reserver import Reserver
from fairlead.model.http_extenders import ExtenderAnswer
from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.verdicts import PlacementRecord
from fairlead.plugins.prepare import failure_of

if TYPE_CHECKING:
    from fairlead.apps.run.extender_calls import ExtenderCalls

log = structlog.get_logger(__name__)

#: The event about a pod that was created before webhook or policy acted on it.
UNINJECTED = "VariablesMissing"
_UNINJECTED = (
    "a container has no CUDA_VISIBLE_DEVICES that names the assigned GPUs: the pod was created "
    "while nothing put it in; delete the pod and create it again"
)

Given = TypeVar("Given")


@dataclass(frozen=True, slots=True, eq=False)
class Writers:
    """What instructions are handed to."""

    binder: Binder
    preparer: Preparer
    recorder: Recorder
    evictor: Evictor
    claims: ClaimWriter
    kinds: OptionalKinds
    finished: FinishedMembers
    reporting: GoalsReporting
    reserver: Reserver | None
    extenders: "ExtenderCalls | None"


class CarryingOut:
    def __init__(
        self,
        writers: Writers,
        engine: Engine,
        measures: Measures,
        *,
        expects_variables: bool,
        perform: Callable[[instructions.Instruction], None],
    ) -> None:
        """`expects_variables`: warn about each GPU pod that was bound without them.

        `perform` carries out what an instruction results in.
        """
        self._writers = writers
        self._engine = engine
        self._measures = measures
        self._expects_variables = expects_variables
        self._perform = perform
        self.handlers: dict[type, Callable[[Any], None]] = {}
        self._add_placing()
        self._add_evicting()
        self._add_announcing()
        self._add_statuses()

    def carry_out(self, instruction: instructions.Instruction) -> None:
        self.handlers[type(instruction)](instruction)

    def _on(self, kind: type[Given], handler: Callable[[Given], None]) -> None:
        self.handlers[kind] = handler

    # -- nodes for pods ----------------------------------------------------------------------

    def _add_placing(self) -> None:
        self._on(instructions.AskExtenders, self._ask_extenders)
        self._on(instructions.Prepare, self._prepare)
        self._on(instructions.Bind, self._bind)
        self._on(instructions.Decided, _log_decision)
        self._on(instructions.Decline, _log_decline)
        self._on(instructions.AttemptCrashed, lambda _: None)  # the driver looks after these

    def _ask_extenders(self, ask: instructions.AskExtenders) -> None:
        assert self._writers.extenders is not None
        self._writers.extenders.submit(ask)

    def _prepare(self, prepare: instructions.Prepare) -> None:
        self._writers.preparer.submit(prepare)
        log.debug(prepare.steps[0].doing, pod=prepare.pod.key, node=prepare.node)

    def _bind(self, bind: instructions.Bind) -> None:
        self._measures.bind_started(bind.pod)
        self._writers.binder.submit(bind)
        log.debug("binding", pod=bind.pod.key, node=bind.node)

    # -- evictions and claims ----------------------------------------------------------------

    def _add_evicting(self) -> None:
        self._on(instructions.Evict, self._evict)
        self._on(instructions.Unreserve, self._unreserve)
        self._on(
            instructions.ReleaseClaims, lambda each: self._writers.claims.release(each.pod.uid)
        )
        self._on(instructions.FreeClaim, self._free_claim)
        self._on(
            instructions.ClearNomination, lambda each: self._writers.recorder.unnominated(each.pod)
        )

    def _evict(self, evict: instructions.Evict) -> None:
        self._writers.evictor.submit(evict)
        names = [victim.key for victim in evict.victims]
        if not evict.moves:
            self._measures.victims(len(names))
        if evict.within_budgets:
            self._measures.made_room(evict)
        log.info("evicting", pod=evict.pod.key, node=evict.node, victims=names)

    def _unreserve(self, unreserve: instructions.Unreserve) -> None:
        pod = unreserve.pod
        if self._writers.reserver:
            self._writers.reserver.delete(pod)
        log.info("deleting a reservation pod", pod=pod.key, node=pod.node)

    def _free_claim(self, free: instructions.FreeClaim) -> None:
        self._writers.claims.free(free.pod.uid, free.claim)
        log.info("freeing a resource claim", pod=free.pod.key, claim=free.claim.key)

    # -- events and conditions of pods -------------------------------------------------------

    def _add_announcing(self) -> None:
        self._on(instructions.AnnounceScheduled, self._announce_scheduled)
        self._on(instructions.AnnounceFailure, self._announce_failure)
        self._on(instructions.AnnounceWarning, self._announce_warning)
        self._on(instructions.AnnounceNotice, self._announce_notice)

    def _announce_scheduled(self, done: instructions.AnnounceScheduled) -> None:
        self._writers.recorder.scheduled(done)
        self._measures.pod_scheduled(done)
        self._writers.reporting.started(done)
        log.info("bound", **self._bound(done))
        if done.pod.uninjected and self._expects_variables:
            self._perform(instructions.AnnounceWarning(done.pod, UNINJECTED, _UNINJECTED))

    def _bound(self, done: instructions.AnnounceScheduled) -> dict[str, Any]:
        """What the log says of a bind: where, on which GPUs, and how long it all took."""
        told: dict[str, Any] = {"pod": done.pod.key, "node": done.node}
        held = self._engine.cluster.holdings.get(done.pod.uid)
        if held and held.grant and (uses := held.grant.uses):
            told["gpus"] = [use.uuid for use in uses if use.uuid] or len(uses)
        told["ms"] = round(1000 * (time.monotonic() - done.first_queued_s), 1)
        told["attempts"] = done.attempts
        return told

    def _announce_failure(self, failure: instructions.AnnounceFailure) -> None:
        self._writers.recorder.failed(failure)
        log.info("not scheduled", **_told(failure))

    def _announce_warning(self, warning: instructions.AnnounceWarning) -> None:
        self._writers.recorder.warned(warning)
        self._measures.warned(warning.reason)
        log.warning("pod warned", **_told(warning))

    def _announce_notice(self, notice: instructions.AnnounceNotice) -> None:
        self._writers.recorder.warned(notice)
        log.info("pod noted", **_told(notice))

    # -- statuses of other objects -----------------------------------------------------------

    def _add_statuses(self) -> None:
        self._on(instructions.GangStatusChanged, self._gang)
        self._on(instructions.QueueStatusChanged, self._queue)
        self._on(instructions.AdvanceStatusChanged, self._advance)
        self._on(instructions.CountedStatusChanged, self._counted)
        self._on(instructions.FindFinished, self._find_finished)

    def _find_finished(self, find: instructions.FindFinished) -> None:
        self._writers.finished.submit(find)

    def _gang(self, changed: instructions.GangStatusChanged) -> None:
        spec, status = changed.spec, changed.status
        self._writers.kinds.gangs.write(spec, status)
        log.info("gang", gang=spec.key, state=status.state, message=status.message)

    def _queue(self, changed: instructions.QueueStatusChanged) -> None:
        queue, status = changed.spec, changed.status
        self._writers.kinds.queues.write(queue.key, status)
        log.debug("queue", queue=queue.key, running=status.running_pods)

    def _advance(self, changed: instructions.AdvanceStatusChanged) -> None:
        name, status = changed.name, changed.status
        self._writers.kinds.advance.write(name, status)
        log.info("reservation", name=name, phase=status.phase, message=status.message)

    def _counted(self, changed: instructions.CountedStatusChanged) -> None:
        self._writers.kinds.counted.write(changed.name, changed.status)
        log.debug("counted resource", name=changed.name, used=changed.status.used)


def _log_decision(decided: instructions.Decided) -> None:
    record = decided.record
    gpus = [asdict(gpu) for gpu in record.gpus]
    scores = {name: round(added, 2) for name, added in record.scores.items()}
    log.debug(
        "decided",
        pod=decided.pod.key,
        node=decided.node,
        scores=scores,
        gpus=gpus,
        **_goals(record),
    )


def _goals(record: PlacementRecord) -> dict[str, object]:
    """What each goal counted there, on the next best node, and on those that no other beats."""
    if not record.goals:
        return {}
    others = record.alternatives
    next_ = others.runner_up if others else None
    return {
        "goals": [each.text for each in record.goals],
        "runner_up": next_.text if next_ else "",
        "pareto": [each.text for each in others.pareto] if others else [],
    }


def _log_decline(decline: instructions.Decline) -> None:
    log.info("declined", pod=decline.pod.key, message=decline.message)


def _told(
    announced: instructions.AnnounceFailure
    | instructions.AnnounceWarning
    | instructions.AnnounceNotice,
) -> dict[str, str]:
    return {"pod": announced.pod.key, "reason": announced.reason, "message": announced.message}


def doing(instruction: instructions.Instruction) -> str:
    """What messages call it."""
    match instruction:
        case instructions.Bind():
            return "binding"
        case instructions.Prepare():
            return instruction.steps[0].doing
        case instructions.Evict():
            return "evicting"
    return "announcing"


def about(instruction: instructions.Instruction) -> str:
    """The object that it is about."""
    match instruction:
        case instructions.GangStatusChanged(spec):
            return spec.key
        case instructions.QueueStatusChanged(queue):
            return queue.key
        case instructions.FindFinished(key) | instructions.AdvanceStatusChanged(key):
            return key
        case instructions.CountedStatusChanged(key):
            return key
    return instruction.pod.key


def failed(instruction: instructions.Instruction, said: str) -> events.Event | None:
    """What the engine hears of an instruction that could not be carried out."""
    match instruction:
        case instructions.Bind(pod):
            return events.BindFailed(pod.uid, events.BindProblem.DENIED, said)
        case instructions.AskExtenders(pod):
            return events.ExtendersAnswered(pod.uid, ExtenderAnswer(error=said))
        case instructions.Prepare(pod, steps=steps):
            return events.PrepareFailed(pod.uid, failure_of(steps[0], said))
        case instructions.Evict(pod):
            return events.EvictionEnded(pod.uid, said)
    return None
