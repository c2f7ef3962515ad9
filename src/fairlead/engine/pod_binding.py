"""Pods with a node: the steps before their binds, the binds, and how they went."""

from fairlead.cluster import claiming, reserving
from fairlead.cluster.holdings import Holding
from fairlead.engine import events
from fairlead.engine.gangs import member_of
from fairlead.engine.in_flight import Stage
from fairlead.engine.instructions import (
    AnnounceFailure,
    AnnounceScheduled,
    Decline,
    Instruction,
    ReleaseClaims,
)
from fairlead.engine.parts import Parts
from fairlead.engine.reasons import SCHEDULER_ERROR
from fairlead.model.gpus import Grant
from fairlead.model.pods import Pod
from fairlead.plugins.prepare import PrepareStep
from fairlead.queue.units import Gang

_FINAL = (events.BindProblem.GONE, events.BindProblem.TAKEN)


class PodBinding:
    def __init__(self, parts: Parts) -> None:
        self._cluster = parts.cluster
        self._queue = parts.queue
        self._in_flight = parts.in_flight
        self._placements = parts.placements
        self._gangs = parts.gangs
        self._binds = parts.binds
        self._extender_queries = parts.extender_queries

    def assume_external(self, event: events.NodeChosen, _now: float) -> list[Instruction]:
        """Holds the GPUs from now on, so that no other pod gets them while the bind is written."""
        pod, node = event.pod, event.node
        held = self._cluster.holdings.get(pod.uid)
        if held is not None:
            return [Decline(pod, f"{pod.key} is on {held.node}, or is being bound there")]
        assert self._extender_queries is not None
        grant = self._extender_queries.grant(pod, node)
        if isinstance(grant, str):
            return [Decline(pod, f"{node} no longer fits {pod.key}: {grant}")]
        bind = self._binds.of(pod, node, grant)
        if isinstance(bind, str):
            return [Decline(pod, bind)]
        self._cluster.nominations.settle(pod.uid, node)
        self._cluster.assume(pod, node, grant)
        self._in_flight.begin(pod.uid, None)
        return [bind]

    # -- binds -------------------------------------------------------------------------------

    def bind(self, pod: Pod, node: str, grant: Grant | None, now: float) -> list[Instruction]:
        bind = self._binds.of(pod, node, grant)
        if isinstance(bind, str):
            denied = events.BindFailed(pod.uid, events.BindProblem.DENIED, bind)
            return self.failed(denied, now)
        return [bind]

    def done(self, event: events.BindDone, now: float) -> list[Instruction]:
        uid = event.uid
        held = self._cluster.holdings.get(uid)
        entry = self._in_flight.written(uid, seen=held is None or not held.assumed)
        if entry is None:
            return []
        if isinstance(entry.unit, Gang):
            return self._gangs.bound(uid, entry, held, now)
        self._queue.remove(uid)
        if held is None:  # it came, ran and went before the reply was read
            return []
        return [AnnounceScheduled(entry.unit.pod, held.node, entry.attempts, entry.first_queued_s)]

    def failed(self, event: events.BindFailed, now: float) -> list[Instruction]:
        if self._in_flight.stage_of(event.uid) is Stage.BOUND:
            return []  # a second reply; what was written stays until the watch shows otherwise
        message = f'running Bind plugin "DefaultBinder": {event.message}'  # kube-scheduler's words
        return self._give_up(event.uid, message, now, final=event.problem in _FINAL)

    def _give_up(
        self, uid: str, message: str, now: float, *, final: bool = False
    ) -> list[Instruction]:
        entry = self._in_flight.end(uid)
        held = self._cluster.holdings.get(uid)
        if held is not None and held.assumed:
            self._cluster.remove(uid)
        if entry is None:
            return []
        # The pod may have gone, or have been bound by another, while we were trying.
        lost = uid not in self._queue or (held is not None and not held.assumed)
        final = final or lost or member_of(entry, uid).deleting
        if isinstance(entry.unit, Gang):
            node = held.node if held else ""
            return self._gangs.failed(uid, entry, node, "" if final else message, now)
        if final:
            self._queue.remove(uid)
            return []
        self._queue.retry(entry, now=now)
        return [AnnounceFailure(entry.unit.pod, SCHEDULER_ERROR, message, nominated="")]

    # -- how the steps before a bind went ----------------------------------------------------

    def prepared(self, event: events.Prepared, now: float) -> list[Instruction]:
        uid = event.uid
        steps = self._settle_steps(uid)
        entry, held = self._in_flight.entry_of(uid), self._cluster.holdings.get(uid)
        if not steps:
            return []
        if entry is None or held is None or not held.assumed:  # gone meanwhile
            return self._give_up(uid, "", now)
        if problem := self._problem_after(steps, held):
            released = [ReleaseClaims(held.pod)] if held.pod.request.claims else []
            return [*released, *self._give_up(uid, problem, now)]
        if isinstance(entry.unit, Gang):
            return self._gangs.prepared(uid, entry, now)
        return self.bind(entry.unit.pod, held.node, held.grant, now)

    def prepare_failed(self, event: events.PrepareFailed, now: float) -> list[Instruction]:
        under_way = self._settle_steps(event.uid)
        return self._give_up(event.uid, event.message, now) if under_way else []

    def _problem_after(self, steps: tuple[PrepareStep, ...], held: Holding) -> str:
        """Why a pod whose steps are done cannot be bound to its node."""
        placement = self._placements[held.pod.scheduler]
        if problem := placement.problem_after(steps, held.node):
            return problem
        if held.pod.request.claims and (problem := claiming.unreserved(self._cluster, held.pod)):
            return problem
        if not reserving.name_gpus(self._cluster, held):
            return f"the reserved GPU of {held.node} is not known"
        if lost := self._cluster.lost_gpu(held):
            done = " and ".join(step.done for step in steps)
            return f"{lost} on {held.node} while {done}"
        return ""

    def _settle_steps(self, uid: str) -> tuple[PrepareStep, ...]:
        """The stage has ended; nothing if it was not under way."""
        steps = self._in_flight.steps_ended(uid)
        for step in steps:
            step.settle(self._cluster)
        return steps
