"""Pods make room for a pod that was refused, which is nominated for the node meanwhile."""

from itertools import chain

from fairlead.cluster.cluster import Cluster
from fairlead.engine import reservations
from fairlead.engine.in_flight import InFlight
from fairlead.engine.instructions import ClearNomination, Evict, Instruction
from fairlead.engine.requeuer import PREEMPTION_ASPECTS, Requeuer
from fairlead.placement.verdicts import Eviction
from fairlead.queue.entries import Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Unit


class Evictions:
    def __init__(
        self, cluster: Cluster, queue: SchedulingQueue, in_flight: InFlight, requeuer: Requeuer
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._in_flight = in_flight
        self._requeuer = requeuer

    def begin(self, unit: Unit, eviction: Eviction, now: float) -> list[Instruction]:
        made: list[Instruction] = []
        pod = unit.pod
        victims, unreserved = reservations.victims(self._cluster, eviction.remaining())
        made += unreserved
        # As in kube-scheduler, a pod that only waits for terminating pods clears no nominations.
        for other in chain.from_iterable(map(self._cluster.nominations.on, victims)):
            if self._cluster.eviction_rule.may_evict(pod, other):
                made.append(ClearNomination(other))
                self._requeuer.clear_nomination(other.uid, now)
        self._cluster.nominations.put(pod, eviction.node)
        if victims and pod.uid not in self._in_flight.evicting:
            self._in_flight.evicting.add(pod.uid)
            made.append(Evict(pod, eviction.node, victims))
        following = self._queue.first_of_class(self._requeuer.class_of(unit))
        if following is not None and self._requeuer.may_preempt(following.unit.pod):
            self._queue.wake(following, "NodeAdd", now=now)
        return made

    def ended(self, uid: str, problem: str, now: float) -> None:
        self._in_flight.evicting.discard(uid)
        entry = self._queue.get(uid)
        if entry is None or entry.pool is not Pool.WAITING:
            return
        if problem:  # who denies it once may well do so again
            self._queue.postpone(entry, "ForceActivate")
        elif self._cluster.nominations.node_of(uid) in self._cluster.row_of:
            return  # that the victims go is seen by itself
        elif self._requeuer.may_schedule(entry.unit.pod, PREEMPTION_ASPECTS):
            self._queue.wake(entry, "ForceActivate", now=now)
