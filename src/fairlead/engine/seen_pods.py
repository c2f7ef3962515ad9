"""Pods as the API server shows them: pending, on a node, finished, gone."""

from fairlead.cluster import reserving
from fairlead.cluster.extended_classes import with_classes
from fairlead.engine import events, releases, reservations
from fairlead.engine.edits import edit_of, misspelling_of, queue_edit_of, time_problems_of
from fairlead.engine.instructions import AnnounceFailure, AnnounceWarning, Instruction
from fairlead.engine.parts import Parts
from fairlead.engine.reasons import INVALID_POD, SCHEDULER_ERROR
from fairlead.engine.rejections import REASON
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod
from fairlead.queue.entries import Entry


class SeenPods:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._kept = parts.kept
        self._cluster = parts.cluster
        self._queue = parts.queue
        self._in_flight = parts.in_flight
        self._placements = parts.placements
        self._requeuer = parts.requeuer
        self._gangs = parts.gangs
        self._claim_gates = parts.claim_gates
        self._consolidation = parts.consolidation
        self._unread = parts.kept_records.unread

    def seen(self, event: events.PodSeen, now: float) -> list[Instruction]:
        pod = event.pod
        self._cluster.trust(pod.key)
        if pod.queue:
            self._parts.queues.name_seen(pod.queue)
        if pod.counted is not None:
            self._parts.counted.begin()
        if pod.gang is not None:
            pod = self._gangs.resolved(pod)
        if self._kept.reserves and reservations.are_needed_for(pod):
            self._kept.reserves = False
            reserving.switch(self._cluster, on=True)
        if pod.finished:
            return self._finished(pod, now)
        if pod.node:
            return self._see_bound(pod, now)
        if pod.request.extended and self._cluster.claims.classes:
            pod = with_classes(pod, self._cluster.claims.extended)
        if (entry := self._in_flight.entry_of(pod.uid)) is not None:
            entry.unit.put(pod)
        elif not self._is_on_its_way(pod.uid):
            return self._see_unbound(pod, now)
        return []

    def gone(self, event: events.PodGone, now: float) -> list[Instruction]:
        pod = event.pod
        held = self._cluster.holdings.get(pod.uid)
        if held is not None and pod.deleting and pod.run_time is not None:
            self._kept.run_times.finished(pod, now)
        made = self._lose(pod, now)
        releases.keep(self._cluster, held, pod, now)
        return made

    def rejected(self, event: events.PodRejected, now: float) -> list[Instruction]:
        found = self._kept.rejections.note(event.pod, event.message, now)
        return [AnnounceWarning(event.pod, REASON, found.warning(now))]

    def release_overdue(self, event: events.ReleaseOverdue, _now: float) -> list[Instruction]:
        warning = releases.overdue(self._cluster, event.uid)
        self._cluster.release(event.uid)
        return [warning] if warning else []

    # -- without a node ----------------------------------------------------------------------

    def _is_on_its_way(self, uid: str) -> bool:
        """Whether the pod was bound, and this version of it is from before.

        Versions come in order. So after one that shows the pod on its node, a pending one means
        that the API server was restored to an older state: then the pod holds nothing any more.
        """
        held = self._cluster.holdings.get(uid)
        return held is not None and held.assumed

    def _see_unbound(self, pod: Pod, now: float) -> list[Instruction]:
        made = self._lose(pod, now) if pod.uid in self._cluster.holdings else []
        if pod.scheduler in self._placements:
            see = self._see_deleted if pod.deleting else self._see_pending
            return [*made, *see(pod, now)]
        if self._parts.extender_queries:
            self._see_external_pod(pod)
        return made

    def _see_external_pod(self, pod: Pod) -> None:
        """Keeps the nominations of another scheduler, whose pods this profile only checks."""
        if pod.nominated and not pod.deleting:
            self._cluster.nominations.put(pod, pod.nominated)
        else:
            self._cluster.nominations.drop(pod.uid)

    def _see_pending(self, pod: Pod, now: float) -> list[Instruction]:
        if pod.request.claims:
            pod = self._claim_gates.gated(pod)
        entry = self._queue.get(pod.uid)
        before = entry.unit.pod if entry else None
        warning = misspelling_of(before, pod)
        times = time_problems_of(before, pod) if pod.run_time or pod.start else ()
        self._count(pod, known=entry is not None)
        self._requeuer.observe_nomination(pod)
        made: list[Instruction] = [each for each in (warning, *times) if each]
        if pod.problem and pod.gang and pod.condition != (INVALID_POD, pod.problem):
            made.append(AnnounceFailure(pod, INVALID_POD, pod.problem))
        pause = self._kept.rejections.pause_of(pod, now) if entry is None else None
        self._parts.put(pod, now, not_before_s=pause.due_s if pause else 0.0)
        if pod.kept is not None or self._unread:
            self._parts.kept_records.seen(pod, is_new=entry is None)
        if self._parts.service_goals.is_on:
            self._parts.service_goals.seen(pod, now)
        if entry is None and self._consolidation.is_under_way:
            self._consolidation.adopt(pod)
        return [*made, AnnounceFailure(pod, SCHEDULER_ERROR, pause.words)] if pause else made

    def _see_deleted(self, pod: Pod, now: float) -> list[Instruction]:
        """A pod without a node is being deleted."""
        self._cluster.nominations.drop(pod.uid)
        self._unread.pop(pod.uid, None)
        if self._leave_queue(pod) is None:
            return []
        if pod.gang:
            self._gangs.left(pod, now)
        return [AnnounceFailure(pod, SCHEDULER_ERROR, f"skip schedule deleting pod: {pod.key}")]

    # -- on a node ---------------------------------------------------------------------------

    def _see_bound(self, pod: Pod, now: float) -> list[Instruction]:
        if pod.reservation is not None:
            return [*reservations.see(self._cluster, pod, pod.reservation)]
        ours, held = pod.scheduler in self._placements, self._cluster.holdings.get(pod.uid)
        warnings = (edit_of(held, pod), queue_edit_of(held, pod)) if ours else ()
        if self._unread:
            self._unread.pop(pod.uid, None)
        under_way = self._in_flight.entry_of(pod.uid) is not None
        if not under_way:
            was_pending = self._gangs.count(pod, now) if pod.gang else self._leave_queue(pod)
            if was_pending is None:
                self._count(pod, known=held is not None)
        self._in_flight.confirm(pod.uid)
        self._cluster.nominations.settle(pod.uid, pod.node)
        self._cluster.confirm(pod)
        if pod.problem:
            self._cluster.distrust(pod.node, pod.key)
        return [warning for warning in warnings if warning]

    def _finished(self, pod: Pod, now: float) -> list[Instruction]:
        if pod.started and pod.uid in self._cluster.holdings:
            self._kept.run_times.finished(pod, now)
        made = self._lose(pod, now)
        if pod.gang:
            self._gangs.count(pod, now)
        return made

    def _lose(self, pod: Pod, now: float) -> list[Instruction]:
        """The pod uses no node any more, and waits for none."""
        if pod.reservation is not None:
            return [*reservations.lose(self._cluster, pod, pod.reservation)]
        self._leave_queue(pod)
        if self._unread:
            self._unread.pop(pod.uid, None)
        self._in_flight.confirm(pod.uid)
        self._cluster.nominations.drop(pod.uid)
        if pod.uid in self._cluster.holdings:
            self._parts.plans.pod_left(pod.uid, now)
        self._parts.plans.advance.left(pod.uid)
        self._cluster.remove(pod.uid)
        self._cluster.trust(pod.key)
        self._gangs.victim_gone(pod.uid, now)
        return self._gangs.left(pod, now) if pod.gang else []

    def _leave_queue(self, pod: Pod) -> Entry | None:
        if pod.request.claims:
            self._claim_gates.forget(pod)
        return self._requeuer.leave_queue(pod.uid)

    def _count(self, pod: Pod, *, known: bool) -> None:
        ours = pod.scheduler in self._placements
        if not known and (ours or pod.request.gpu_request or pod.request.amount(GPU)):
            self._kept.demand.add(pod.request)
