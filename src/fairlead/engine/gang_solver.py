"""Gangs whose pods differ, and that found no nodes: the solver is asked, and its plan is tried.

Such a gang waits anyway, so that no unit waits for the solver. A plan is a proposal: it is tried in
a trial like any other way to fill the gang, and dropped if the nodes have changed meanwhile. What
is asked and answered is decided by events alone, so that a replay decides the same.
"""

from collections.abc import Mapping

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine.gang_trials import Filling, GangTrials, ordered
from fairlead.model.solver import SolverAnswer, SolverQuestion, is_valid
from fairlead.placement.gang_part import has_topology
from fairlead.placement.place import Placement
from fairlead.placement.solver_question import AskedGang, ask
from fairlead.queue.entries import Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Gang

#: Pods of a gang that is asked about.
_MOST_PODS = 1000
#: Questions without an answer.
_MOST_OPEN = 4
#: Gangs of which the last question is remembered.
_MOST_REMEMBERED = 256


class GangSolver:
    """Off unless a profile has it on."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        placements: Mapping[str, Placement],
        trials: GangTrials,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._placements = placements
        self._trials = trials
        self.is_on = any(each.profile.solver for each in placements.values())
        self._open: dict[str, AskedGang] = {}
        #: By gang: what was asked last, so that it is not asked again.
        self._last: dict[str, int] = {}
        #: Nodes by the uid of the pod, by gang.
        self._plans: dict[str, dict[str, str]] = {}
        self._number = 0
        self._next_s = 0.0

    @property
    def questions(self) -> tuple[SolverQuestion, ...]:
        """Those without an answer, the oldest first."""
        return tuple(asked.question for asked in self._open.values())

    def refused(self, gang: Gang, now: float) -> None:
        """The gang found no nodes: asks, unless that is of no use or too soon."""
        terms = self._placements[gang.pod.scheduler].profile.solver
        if terms is None or now < self._next_s or not self._may_ask(gang):
            return
        self._next_s = now + terms.budget_s
        pods = ordered(gang)[: gang.room]
        asked = ask(
            gang.key, self._number, pods, self._cluster, self._placements, terms.budget_s
        )  # fmt: skip
        if asked is None:
            return
        question = asked.question
        content = hash((question.counts, question.patterns, question.classes, asked.nodes))
        if self._last.get(gang.key) != content:
            self._remember(gang.key, content)
            self._open[gang.key] = asked
            self._number += 1

    def _may_ask(self, gang: Gang) -> bool:
        known = gang.key in self._open or len(self._open) >= _MOST_OPEN
        return not known and 2 <= len(gang.pods) <= _MOST_PODS and not has_topology(gang.spec)

    def _remember(self, key: str, content: int) -> None:
        self._last.pop(key, None)
        self._last[key] = content
        if len(self._last) > _MOST_REMEMBERED:
            del self._last[next(iter(self._last))]

    def answered(self, key: str, number: int, answer: SolverAnswer, now: float) -> None:
        """The gang is tried again, by the plan first."""
        asked = self._open.get(key)
        if asked is None or asked.question.number != number:
            return
        del self._open[key]
        entry = self._queue.gang(key)
        if answer is None or entry is None or not is_valid(asked.question, answer):
            return
        if len(self._plans) >= _MOST_REMEMBERED:
            self._plans = {
                gang: plan for gang, plan in self._plans.items() if self._queue.gang(gang)
            }
        self._plans[key] = asked.places(answer)
        if entry.pool is Pool.WAITING:
            self._queue.wake(entry, "PlanComputed", now=now)

    def has_plan(self, gang: Gang) -> bool:
        return bool(self._plans) and gang.key in self._plans

    def filled(self, trial: Trial, gang: Gang) -> Filling | None:
        """By the plan, which is used once; None if that does not satisfy the gang any more."""
        places, start = self._plans.pop(gang.key), trial.checkpoint()
        nodes = {name: self._cluster.nodes.named([name]) for name in set(places.values())}
        pods = [pod for pod in ordered(gang) if pod.uid in places]
        within = {pod.uid: nodes[places[pod.uid]] for pod in pods}
        filling = Filling.of(gang, pods, within)
        self._trials.fill(trial, filling, len(pods))
        if filling.satisfied and not filling.wastes:
            filling.succeeded = True
            return filling
        trial.rollback(start)
        return None
