"""The solver is asked about gangs that found no nodes, or that might have cheaper ones.

Such a gang is held back for a moment: no pods are evicted for it, and nodes that it found are kept
for it by nominations. A plan is a proposal. It is tried in a trial like any other way to fill the
gang, and taken only if it costs less than what is found without it on the nodes of that moment.
What is asked and answered is decided by events alone, so that a replay decides the same.
"""

from collections.abc import Mapping

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine.gang_search import GangSearch
from fairlead.engine.gang_trials import Filling, ordered
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.solver import (
    SolverAnswer,
    SolverQuestion,
    SolverTerms,
    is_better,
    is_of_use,
)
from fairlead.placement.gang_costs import cost_levels, gang_costs, levels_of
from fairlead.placement.gang_part import has_topology
from fairlead.placement.gang_room import GangRoom
from fairlead.placement.place import Placement
from fairlead.placement.solver_question import AskedGang, ask
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Gang

#: Pods of a gang that is asked about.
_MOST_PODS = 1000
#: Of one that has nodes: it is filled three times in one turn, with and without its plan.
_MOST_COMPARED = 400
#: Questions without an answer.
_MOST_OPEN = 4
#: Gangs of which the last question is remembered.
_MOST_REMEMBERED = 256
#: How long a gang is held back at most: the solver's process is killed before.
_HELD_BUDGETS = 2.0
_HELD_S = 0.5


@dataclass(slots=True)
class _Held:
    """A gang that is held back, and the nodes that are kept for its pods, by uid."""

    asked: AskedGang
    until_s: float
    nodes: Mapping[str, str]
    is_answered: bool = False


class GangSolver:
    """Off unless a profile has it on."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        placements: Mapping[str, Placement],
        search: GangSearch,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._placements = placements
        self._search = search
        self.is_on = any(each.profile.solver for each in placements.values())
        #: By gang: what is asked now, and what was asked last, so that it is not asked again.
        self._held: dict[str, _Held] = {}
        self._last: dict[str, int] = {}
        #: Nodes by the uid of the pod, by gang; empty: it is tried without asking again.
        self._plans: dict[str, dict[str, str]] = {}
        self._number = 0
        self._next_s = 0.0

    @property
    def questions(self) -> tuple[SolverQuestion, ...]:
        """Those without an answer, the oldest first."""
        held = self._held.values()
        return tuple(each.asked.question for each in held if not each.is_answered)

    # -- asking ------------------------------------------------------------------------------

    def prepare(self, gang: Gang, now: float) -> AskedGang | None:
        """A question about the gang, before it is placed; None if it is not to be asked about."""
        if self._end(gang.key) or gang.key in self._plans:
            return None
        terms = self._terms(gang)
        if terms is None or now < self._next_s or not self._may_ask(gang):
            return None
        self._next_s = now + terms.budget_s
        pods = ordered(gang)[: gang.room]
        preferred = self._search.trials.one_model(gang, pods)
        return ask(
            gang.key, self._number, pods, self._cluster, self._placements, terms.budget_s, preferred
        )

    def _terms(self, gang: Gang) -> SolverTerms | None:
        return self._placements[gang.pod.scheduler].profile.solver

    def _may_ask(self, gang: Gang) -> bool:
        is_small = 2 <= len(gang.pods) <= _MOST_PODS
        return is_small and len(self._held) < _MOST_OPEN and not has_topology(gang.spec)

    def worthwhile(self, asked: AskedGang, filling: Filling) -> AskedGang | None:
        """What is asked of a gang that is filled so; None if the answer could be of no use."""
        terms, levels = self._terms(filling.gang), asked.question.levels
        if not filling.succeeded:
            return asked if len(asked.kinds) > 1 and self._is_new(asked) else None
        if terms is None or not terms.improves or not levels:
            return None
        if len(filling.placed) > _MOST_COMPARED:
            return None
        if filling.within is not None:
            asked = asked.within_preferred()
        costs = asked.costs(_nodes(filling))
        if costs is None or not is_better(levels, asked.least(), costs):
            return None
        asked = asked.better_than(costs)
        return asked if self._is_new(asked) else None

    def _is_new(self, asked: AskedGang) -> bool:
        key, question = asked.question.gang, asked.question
        content = hash(
            (question.counts, question.patterns, question.classes, asked.nodes, question.cutoff)
        )
        if self._last.get(key) == content:
            return False
        self._last.pop(key, None)
        self._last[key] = content
        if len(self._last) > _MOST_REMEMBERED:
            del self._last[next(iter(self._last))]
        return True

    def hold(self, entry: Entry, asked: AskedGang, filling: Filling, now: float) -> None:
        """The gang is not decided before the answer, or its time; what it found is kept for it."""
        until_s = now + _HELD_BUDGETS * asked.question.budget_s + _HELD_S
        members = filling.placed if filling.succeeded else []
        nodes = {member.pod.uid: member.placed.node for member in members}
        self._held[filling.gang.key] = _Held(asked, until_s, nodes)
        self._number += 1
        for member in members:
            self._cluster.nominations.put(member.pod, member.placed.node)
        self._queue.hold_until(entry, until_s)

    # -- answers -----------------------------------------------------------------------------

    def answered(self, key: str, number: int, answer: SolverAnswer, now: float) -> None:
        """The gang is tried again, by the plan first."""
        held = self._held.get(key)
        if held is None or held.is_answered or held.asked.question.number != number:
            return
        entry = self._queue.gang(key)
        if entry is None or entry.pool is not Pool.BACKOFF:
            self._end(key)
            return
        held.is_answered = True
        useful = answer is not None and is_of_use(held.asked.question, answer)
        self._remember(key, held.asked.places(answer) if answer and useful else {})
        self._queue.release(entry, now=now)

    def _remember(self, key: str, plan: dict[str, str]) -> None:
        if len(self._plans) >= _MOST_REMEMBERED:
            known = self._queue.gang
            self._plans = {gang: each for gang, each in self._plans.items() if known(gang)}
        self._plans[key] = plan

    def _end(self, key: str) -> bool:
        """The gang is not held back any more; whether it was."""
        held = self._held.pop(key, None)
        if held is None:
            return False
        nominations = self._cluster.nominations
        for uid, node in held.nodes.items():
            if nominations.node_of(uid) == node:
                nominations.drop(uid)
        return True

    def forget(self, key: str) -> None:
        """It has nodes."""
        self._last.pop(key, None)
        self._plans.pop(key, None)

    def due_s(self) -> float | None:
        return min((held.until_s for held in self._held.values()), default=None)

    def tend(self, now: float) -> None:
        """No room is kept any more for gangs that had no answer in time."""
        for key in [key for key, held in self._held.items() if held.until_s <= now]:
            self._end(key)
            if self._queue.gang(key) is not None:
                self._plans.setdefault(key, {})

    # -- plans -------------------------------------------------------------------------------

    def best(self, trial: Trial, gang: Gang, now: float, room: GangRoom | None) -> Filling:
        """By its plan, which is used once, or without it, whatever costs less now."""
        plan = self._plans.pop(gang.key, None) if self._plans else None
        if not plan or plan.keys() != {pod.uid for pod in ordered(gang)[: gang.room]}:
            return self._search.best(trial, gang, now, room)
        if len(plan) > _MOST_COMPARED:  # it found no nodes when it was asked about
            return self._filled(trial, gang, plan) or self._search.best(trial, gang, now, room)
        return self._cheaper(trial, gang, plan, now, room)

    def _cheaper(
        self, trial: Trial, gang: Gang, plan: Mapping[str, str], now: float, room: GangRoom | None
    ) -> Filling:
        start = trial.checkpoint()
        found = self._search.best(trial, gang, now, room)
        trial.rollback(start)
        if not found.succeeded or self._is_cheaper(gang, plan, found):
            planned = self._filled(trial, gang, plan)
            if planned is not None:
                return planned
        return self._search.best(trial, gang, now, room) if found.succeeded else found

    def _is_cheaper(self, gang: Gang, plan: Mapping[str, str], found: Filling) -> bool:
        """Whether the plan costs less than the nodes that were found without it."""
        nodes, known = _nodes(found), self._cluster.row_of
        if not all(node in known for node in plan.values()):
            return False
        if len(nodes) != len(plan):
            return len(nodes) < len(plan)
        new, old = (
            gang_costs(((pod, each[pod.uid]) for pod in gang.pods if pod.uid in each),
                       self._cluster, self._placements)
            for each in (plan, nodes)
        )  # fmt: skip
        levels = levels_of(self._placements[gang.pod.scheduler])
        return is_better(cost_levels(levels, len(plan)), new, old)

    def _filled(self, trial: Trial, gang: Gang, places: Mapping[str, str]) -> Filling | None:
        """By the plan; None if that does not satisfy the gang any more."""
        start = trial.checkpoint()
        nodes = {name: self._cluster.nodes.named([name]) for name in set(places.values())}
        pods = [pod for pod in ordered(gang) if pod.uid in places]
        within = {pod.uid: nodes[places[pod.uid]] for pod in pods}
        filling = Filling.of(gang, pods, within)
        self._search.trials.fill(trial, filling, len(pods))
        if filling.satisfied and not filling.wastes and len(filling.placed) == len(pods):
            filling.succeeded = True
            return filling
        trial.rollback(start)
        return None


def _nodes(filling: Filling) -> dict[str, str]:
    return {member.pod.uid: member.placed.node for member in filling.placed}
