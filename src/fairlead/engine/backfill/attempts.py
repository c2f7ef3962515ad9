"""Attempts of units that must leave room for planned starts."""

from collections.abc import Callable
from dataclasses import replace

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine.backfill.limits import Limit, Limits
from fairlead.engine.gang_trials import Filling
from fairlead.model.pods import Pod
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed, Refused, Verdict
from fairlead.queue.quota import QuotaRefusal


class LimitedAttempts:
    def __init__(self, cluster: Cluster, limits: Limits) -> None:
        self._cluster = cluster
        self._limits = limits

    def place(
        self, pod: Pod, placement: Placement, limit: Limit, now: float, *, evicts: bool
    ) -> Verdict | QuotaRefusal:
        """Where the pod delays no planned start; the refusal of the limit if it fits elsewhere."""
        for rows in (limit.rows, limit.strict):
            with self._cluster.limited_to(rows):
                verdict = placement.place(pod, evicts=False)
            if isinstance(verdict, Refused):
                break
            if self._keeps(pod, verdict, limit, now):
                return verdict
        whole = placement.place(pod, evicts=False)
        if isinstance(whole, Placed):
            return limit.refusal
        return self._with_eviction(whole, pod, placement, limit) if evicts else whole

    def _keeps(self, pod: Pod, placed: Placed, limit: Limit, now: float) -> bool:
        with self._cluster.trial() as trial:
            trial.assume(pod, placed.node, placed.grant)
            return self._limits.keeps(trial, limit, [placed.node], frozenset((pod.uid,)), now)

    def _with_eviction(
        self, whole: Refused, pod: Pod, placement: Placement, limit: Limit
    ) -> Refused:
        """Others are evicted for it only where that delays no planned start."""
        with self._cluster.limited_to(limit.strict):
            found = placement.place(pod)
        if not isinstance(found, Refused):
            return whole
        return replace(
            whole,
            no_eviction=found.no_eviction,
            eviction=found.eviction,
            unfinished=found.unfinished,
            nomination=found.nomination,
        )

    def fill(
        self, trial: Trial, best: Callable[[Trial], Filling], limit: Limit, now: float
    ) -> Filling:
        """A gang in the trial, where it delays no planned start; `delays` if it fits elsewhere."""
        start = trial.checkpoint()
        for rows in (limit.rows, limit.strict):
            with self._cluster.limited_to(rows):
                filling = best(trial)
            if not filling.succeeded:
                break
            uids = frozenset(member.pod.uid for member in filling.placed)
            nodes = {member.placed.node for member in filling.placed}
            if self._limits.keeps(trial, limit, nodes, uids, now):
                return filling
            trial.rollback(start)
        trial.rollback(start)
        whole = best(trial)
        trial.rollback(start)
        whole.delays, whole.succeeded = whole.succeeded, False
        return whole
