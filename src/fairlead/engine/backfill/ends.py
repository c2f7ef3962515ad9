"""When running pods end, as planned starts count it."""

from collections.abc import Callable, Iterator
from math import ceil
from typing import Protocol

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.model.backfill import FILLER, BackfillTerms, FillerRule
from fairlead.model.consolidation import time_of
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.run_times import RunEnd, RunTime
from fairlead.queue.units import Unit

#: Pods that are looked at in one turn, after how many of them no plan is made in the same turn, and
#: how long what was found is kept.
_MOST_LOOKS = 4000
_FEW_LOOKS = 500
KEPT_S = 1800.0
#: Ends are written with a precision of a second at best.
_EARLY_S = 1.0


class KnowsRunTimes(Protocol):
    def of(self, unit: Unit) -> RunTime | None:
        """What a waiting unit will take."""
        ...

    def expected_s(self, unit: Unit) -> float | None:
        """The same, as one number."""
        ...

    def bound_s(self, unit: Unit) -> float | None:
        """The bound that all of its pods have, whatever is expected."""
        ...

    def end_s(self, pod_uid: str, *, now: float) -> RunEnd | None:
        """When a running pod ends; None if nothing is known."""
        ...


@dataclass(frozen=True, slots=True)
class PodEnd:
    at_s: float
    #: Whether it is ended then, at the latest.
    bounded: bool


class Ends:
    """By the terms: bounds, estimates, and a guess where nothing is known."""

    def __init__(
        self,
        cluster: Cluster,
        run_times: KnowsRunTimes,
        terms: BackfillTerms,
        utc_s: Callable[[float], float],
    ) -> None:
        self._cluster = cluster
        #: What was found for running pods, and when: as long as the pod is the same.
        self._kept: dict[str, tuple[Pod, PodEnd | None, float]] = {}
        self._run_times = run_times
        self._terms = terms
        self._utc_s = utc_s
        #: Whether a pod is evicted for the unit of another pod, since it runs longer than it said.
        self.has_overrun: Callable[[str, str, float], bool] = lambda _uid, _planned, _now: False
        self.has_overruns: Callable[[], bool] = lambda: False
        #: Whether others are evicted for devices that the claims of a pod ask for.
        self.evicts_for_devices: Callable[[Pod], bool] = lambda _planned: False

    def of(self, held: Holding, now: float, planned: Pod | None = None) -> PodEnd | None:
        """None: it does not end, as far as is known.

        `planned`: a pod of the unit whose start is planned; fillers end when it needs their room.
        """
        pod = held.pod
        if planned is not None and self.has_overrun(pod.uid, planned.uid, now):
            return PodEnd(now, bounded=True)
        if pod.deleting or (planned is not None and self.yields(pod, planned)):
            return PodEnd(now, bounded=True)
        kept = self._kept.get(pod.uid)
        if kept is not None and kept[0] is pod and (kept[1] is None or kept[1].at_s > now):
            return kept[1]
        found = self._found(held, now)
        if pod.started:
            self._kept[pod.uid] = pod, found, now
        return found

    def of_all(self, now: float, planned: Pod) -> Iterator[tuple[str, Holding, PodEnd]]:
        """Those of all pods that end, by uid."""
        yields = planned.preempts and self._terms.fillers is FillerRule.PREEMPTIBLE
        each_alone = self.has_overruns() or yields
        for uid, held in self._cluster.holdings.items():
            pod, kept = held.pod, self._kept.get(uid)
            is_known = kept is not None and kept[0] is pod and not _ends_early(pod)
            end = kept[1] if kept is not None and is_known and not each_alone else None
            if end is None or end.at_s <= now:
                end = self.of(held, now, planned)
            if end is not None:
                yield uid, held, end

    def is_warm(self, now: float) -> bool:
        """Looks at some running pods, so that a plan need not look at all of them in one turn."""
        holdings, left = self._cluster.holdings, _MOST_LOOKS
        if len(self._kept) > 2 * len(holdings) + _MOST_LOOKS:
            self._kept = {uid: kept for uid, kept in self._kept.items() if uid in holdings}
        for uid, held in holdings.items():
            if not held.pod.started:  # nothing is kept of it
                continue
            kept = self._kept.get(uid)
            if kept is not None and kept[0] is held.pod and _is_settled(kept[1], now - kept[2]):
                continue
            if left == 0:
                return False
            left -= 1
            self._kept.pop(uid, None)
            self.of(held, now)
        return left >= _MOST_LOOKS - _FEW_LOOKS

    def left(self, uid: str, now: float) -> bool:
        """A pod has left its node; whether before the end that was expected."""
        kept = self._kept.pop(uid, None)
        return kept is None or kept[1] is None or kept[1].at_s > now + _EARLY_S

    def _found(self, held: Holding, now: float) -> PodEnd | None:
        end = self._run_times.end_s(held.pod.uid, now=now)
        if end is None:
            return self._guessed(held.pod, now)
        if end.bounded and end.latest_s is not None:
            return PodEnd(_rounded(end.latest_s), bounded=True)
        return PodEnd(_rounded(end.expected_s), bounded=False) if self._terms.estimates else None

    def _guessed(self, pod: Pod, now: float) -> PodEnd | None:
        """Doubled until it is longer than it has run."""
        if self._terms.unknown_s is None or not pod.request.resources:
            return None
        wall_s = time_of(pod.started)
        started_s = now if wall_s is None else min(now, wall_s - self._utc_s(0.0))
        length_s = self._terms.unknown_s
        while started_s + length_s <= now:
            length_s *= 2
        return PodEnd(started_s + length_s, bounded=False)

    def yields(self, pod: Pod, planned: Pod) -> bool:
        """Whether the pod may run for any time, since it is evicted when the other one starts."""
        if not planned.preempts or not self.is_filler(pod):
            return False
        if pod.request.claims and planned.request.claims and not self.evicts_for_devices(planned):
            return False
        return self._cluster.eviction_rule.may_evict(planned, pod) and not self._is_protected(pod)

    def is_filler(self, pod: Pod) -> bool:
        """Whether it may be evicted when a unit of higher priority starts as planned."""
        if self._terms.fillers is FillerRule.MARKED:
            return pod.annotations.get(FILLER) == "true"
        return self._terms.fillers is FillerRule.PREEMPTIBLE

    def _is_protected(self, pod: Pod) -> bool:
        """Whether a PodDisruptionBudget may forbid to evict it."""
        return any(budget.protects(pod) for budget in self._cluster.budgets.values())

    def run_s(self, unit: Unit) -> float | None:
        """How long a waiting unit runs at most; None: for ever, as far as is known."""
        bound_s = self._run_times.bound_s(unit)
        if bound_s is not None:
            return bound_s
        known = self._run_times.of(unit)
        if known is None:
            return None
        if known.bound_s is not None:
            return known.bound_s
        return known.estimate_s if self._terms.estimates else None


def _ends_early(pod: Pod) -> bool:
    """Whether it may end at any time."""
    return pod.deleting or FILLER in pod.annotations


def _is_settled(end: PodEnd | None, since_s: float) -> bool:
    """Whether it need not be read again: bounds stay the same, and estimates are learned."""
    return since_s < KEPT_S or (end is not None and end.bounded)


def _rounded(at_s: float) -> float:
    """Up to a millisecond: the same end is the same number, however it was computed."""
    return ceil(at_s * 1000 - 0.01) / 1000
