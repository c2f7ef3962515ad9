"""How long units run: what waiting ones will take, and when running ones end.

What a pod declares comes first, corrected by what like units that declared something came to. Of
pods with GPUs that declare nothing, what like units took is expected.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from fairlead.cluster.holdings import Holding
from fairlead.engine import run_dumps
from fairlead.engine.events import RunEnded
from fairlead.engine.owner_run_times import OwnerRunTimes, together
from fairlead.engine.run_ends import Expectation, end_of
from fairlead.engine.run_forecasts import RunForecast
from fairlead.engine.run_history import RunHistory
from fairlead.model.consolidation import time_of
from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.gpu_parts import milli_of_request
from fairlead.model.pods import Pod
from fairlead.model.run_times import LEARNED, RunEnd, RunTime
from fairlead.model.unit_kinds import LONGEST_IMAGE, UnitKind, name_pattern
from fairlead.queue.units import Unit

#: Controllers whose pods run until they are deleted.
SERVICES = frozenset(
    {"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Node", "Deployment"}
)
#: Declared run times are corrected if half of the last ones were wrong by more.
_TOLERATED = 1.5
#: Gangs of which a member has been learned from.
MOST_GANGS = 1024
#: Of a time as the API server writes it, up to the minute.
_MINUTE = len("2026-11-16T12:30")


class RunTimes:
    """It reads no clock: `now` is that of the engine."""

    def __init__(
        self,
        holding_of: Callable[[str], Holding | None],
        wall_offset_s: Callable[[], float],
        spec_of: Callable[[Membership], GangSpec],
    ) -> None:
        self._holding_of, self._wall_offset_s, self._spec_of = holding_of, wall_offset_s, spec_of
        self.history = RunHistory()
        self.owners = OwnerRunTimes()
        self._gangs: OrderedDict[str, None] = OrderedDict()

    # -- what is expected --------------------------------------------------------------------

    def of(self, unit: Unit) -> RunTime | None:
        """What a waiting unit will take; None: nothing is known."""
        found = self.expectation(unit)
        return None if found is None else found.known

    def expected_s(self, unit: Unit) -> float | None:
        """The same, as one number."""
        found = self.expectation(unit)
        return None if found is None else found.expected_s

    def bound_s(self, unit: Unit) -> float | None:
        """The bound that all of its pods have; None: some have none, or they differ."""
        bounds = {self._declared(pod).bound_s for pod in unit.pods}
        return bounds.pop() if len(bounds) == 1 else None

    def of_pod(self, pod: Pod) -> RunTime | None:
        """What one pod takes; None: nothing is known."""
        found = self._expectation(pod)
        return None if found is None else found.known

    def quantiles(self, unit: Unit) -> tuple[float, float, float] | None:
        """How long it runs at least, as expected, and at most, in 8 of 10 cases."""
        found = self.expectation(unit)
        return None if found is None else (found.least_s, found.expected_s, found.most_s)

    def expectation(self, unit: Unit) -> Expectation | None:
        """That of the pod that takes longest; None if one of them runs for ever."""
        return _longest(map(self._expectation, unit.pods))

    def forecast(self, pod: Pod) -> RunForecast | None:
        """What like units took; None: too few have ended."""
        kind = self.kind_of(pod)
        return None if kind is None else self.history.forecast(kind)

    def end_s(self, pod_uid: str, *, now: float) -> RunEnd | None:
        """When a pod that holds a place ends; None if nothing is known, as of services."""
        held = self._holding_of(pod_uid)
        expected = None if held is None else self._expectation(held.pod)
        if held is None or expected is None:
            return None
        return end_of(expected, self._started(held.pod, now), now, partial(self._beyond, held.pod))

    def _expectation(self, pod: Pod) -> Expectation | None:
        declared, kind = self._declared(pod), self.kind_of(pod)
        if kind is None:
            return Expectation.declared(declared) if declared.expected_s is not None else None
        if declared.estimate_s is not None:
            return self._corrected(declared, declared.estimate_s, kind)
        found = self.history.forecast(kind)
        if found is not None:
            source = f"{LEARNED} and {declared.source}" if declared.source else LEARNED
            known = replace(declared, estimate_s=found.expected_s, source=source)
            return Expectation.within(known, found.least_s, found.most_s)
        return Expectation.declared(declared) if declared.expected_s is not None else None

    def _declared(self, pod: Pod) -> RunTime:
        """By the pod, its controllers, and the object of its gang."""
        said = self.owners.declared(pod)
        of_gang = self._spec_of(pod.gang).run_time if pod.gang else None
        return said if of_gang is None else together(said, of_gang, "", pod)

    def _corrected(self, declared: RunTime, estimate_s: float, kind: UnitKind) -> Expectation:
        ratios = self.history.ratios(kind)
        if ratios is None or 1 / _TOLERATED <= ratios[1] <= _TOLERATED:
            return Expectation.declared(declared, ratios)
        source = f"{declared.source}, corrected"
        known = replace(declared, estimate_s=estimate_s * ratios[1], source=source)
        return Expectation.declared(known, ratios)

    def _beyond(self, pod: Pod, ran_s: float) -> float | None:
        kind = self.kind_of(pod)
        return None if kind is None else self.history.beyond(kind, ran_s)

    def _started(self, pod: Pod, now: float) -> float:
        """On the clock of the engine. A pod that has not started does so at once."""
        wall_s = time_of(pod.started)
        return now if wall_s is None else min(now, wall_s - self._wall_offset_s())

    # -- what is learned ---------------------------------------------------------------------

    def kind_of(self, pod: Pod) -> UnitKind | None:
        """What it has in common with units like it; None: it is not learned from."""
        asked = pod.request.gpu_request
        if asked is None or pod.controller.partition("/")[0] in SERVICES:
            return None
        pods = self._spec_of(pod.gang).minimum if pod.gang else 1
        name = name_pattern(pod.controller or f"Pod/{pod.name}")
        image = pod.images[-1][:LONGEST_IMAGE] if pod.images else ""
        return UnitKind(pod.namespace, name, image, pods * milli_of_request(asked, 0))

    def run_of(self, pod: Pod, ran_s: float, *, succeeded: bool) -> RunEnded | None:
        """What can be learned from a pod that has ended; None: nothing."""
        kind, declared = self.kind_of(pod), self._declared(pod)
        if kind is None:
            return None
        gang = f"{pod.gang.gang} {pod.started[:_MINUTE]}" if pod.gang else ""
        return RunEnded(kind, ran_s, succeeded, gang, declared.estimate_s)

    def finished(self, pod: Pod, now: float) -> None:
        """A pod that held its place has ended, by itself, with or without success, or deleted."""
        if pod.started and (ended := self._run_until(pod, now)) is not None:
            self.ended(ended)

    def ended(self, run: RunEnded) -> None:
        """Runs that failed are no example, but show that what was declared was too short."""
        judges = run.declared_s is not None and (run.succeeded or run.ran_s > run.declared_s)
        if not (run.succeeded or judges) or self._is_known(run.gang):
            return
        if run.declared_s is not None and judges:
            self.history.learn_declared(run.kind, run.declared_s, run.ran_s)
        if run.succeeded:
            self.history.learn(run.kind, run.ran_s)

    def dump(self) -> bytes:
        """What was learned; at most `run_dumps.LARGEST_DUMP` bytes."""
        return run_dumps.dump(self.history)

    def load(self, data: bytes) -> None:
        """Takes what another has learned in place of what was learned here. Raises ValueError."""
        self.history = run_dumps.load(data)

    def _run_until(self, pod: Pod, now: float) -> RunEnded | None:
        succeeded = pod.finished and not pod.failed
        return self.run_of(pod, now - self._started(pod, now), succeeded=succeeded)

    def _is_known(self, gang: str) -> bool:
        """Whether a member of the gang has been learned from; now one has."""
        if not gang or gang not in self._gangs:
            self._gangs |= {gang: None} if gang else {}
            if len(self._gangs) > MOST_GANGS:
                self._gangs.popitem(last=False)
            return False
        return True


def _longest(known: Iterable[Expectation | None]) -> Expectation | None:
    """A unit has ended when its last pod has."""
    last: Expectation | None = None
    for each in known:
        if each is None:
            return None
        if last is None or each.expected_s > last.expected_s:
            last = each
    return last
