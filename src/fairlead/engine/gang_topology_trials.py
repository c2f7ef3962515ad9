"""Gangs with topology rules: plans are tried one after another, and waits with patience end."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import reduce
from heapq import heappop, heappush
from operator import or_

from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.trial import Trial
from fairlead.engine.gang_trials import Filling, GangTrials, group_of
from fairlead.model.pods import Pod
from fairlead.placement.gang_room import GangRoom
from fairlead.placement.gang_topology import GangPlan, GangPlans
from fairlead.placement.place import Placement
from fairlead.placement.topology_refusals import refusal_of
from fairlead.queue.entries import Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Gang

#: Members that all plans of one attempt may try to place; the first plan is always tried.
_MOST_TRIED = 800
#: Entries that are kept without a look at what they are for.
_FEW = 64


class TopologyTrials:
    """Fills gangs by plans. It changes the trial that it is given, and nothing else."""

    def __init__(
        self, cluster: Cluster, placements: Mapping[str, Placement], trials: GangTrials
    ) -> None:
        self._cluster = cluster
        self._placements = placements
        self._trials = trials

    def plans(self, gang: Gang, waited_s: float, room: GangRoom | None = None) -> GangPlans:
        useless = gang.useless_with(Counter(map(group_of, gang.pods)))
        useful = (pod for pod in gang.pods if group_of(pod) not in useless)
        pods = sorted(useful, key=_rank)[: gang.room]
        placed: dict[str, list[str]] = {}
        for uid, group in gang.placed.items():
            held = self._cluster.holdings.get(uid)
            if held is not None:
                placed.setdefault(group, []).append(held.node)
        counted = Counter(gang.placed.values())
        return GangPlans(
            gang.spec, pods, placed, self._cluster, self._placements, waited_s, gang.needed,
            counted, room,
        )  # fmt: skip

    def best(
        self, trial: Trial, gang: Gang, waited_s: float, room: GangRoom | None = None
    ) -> Filling:
        """One that satisfies the gang and is in the trial, or else why there is none.

        `room`: what is known already of the requests of its pods.
        """
        plans, start = self.plans(gang, waited_s, room), trial.checkpoint()
        enough: GangPlan | None = None
        filling: Filling | None = None
        tried = 0
        for plan in plans:
            filling = self._filled(trial, gang, plan)
            tried += len(plan.order)
            is_last = tried + len(plan.order) > _MOST_TRIED
            fits = filling.satisfied and not filling.wastes
            if fits and (is_last or len(filling.placed) == len(plan.order)):
                return self._succeeded(plans, filling)
            enough = enough or (plan if fits else None)
            trial.rollback(start)
            if is_last:
                break
            _learn(plans, plan, filling)
        if enough is not None:
            return self._succeeded(plans, self._filled(trial, gang, enough))
        return self._without_rules(trial, gang, plans) or self._refused(plans, gang, filling)

    def _succeeded(self, plans: GangPlans, filling: Filling) -> Filling:
        nodes = (member.placed.node for member in filling.placed)
        rows = [self._cluster.row_of[node] for node in nodes]
        filling.spans = plans.tree.spans([*rows, *plans.bound(plans.part).tolist()])
        filling.succeeded = True
        return filling

    def _without_rules(self, trial: Trial, gang: Gang, plans: GangPlans) -> Filling | None:
        """Why the gang would not fit without rules; or how it does, if it only prefers them."""
        start = trial.checkpoint()
        filling = self._trials.best(trial, gang)
        if not filling.succeeded:
            return filling
        if plans.may_be_ignored:
            return self._succeeded(plans, filling)
        trial.rollback(start)
        return None

    def planning(self, gang: Gang, waited_s: float, room: GangRoom | None = None) -> "FirstPlan":
        """The first plan for a large gang, made over several turns."""
        return FirstPlan(self.plans(gang, waited_s, room), gang, self._refused)

    def _refused(self, plans: GangPlans, gang: Gang, last: Filling | None = None) -> Filling:
        """With what the best domain lacks, or why the pods of the last plan found no nodes."""
        filling = last or Filling.of(gang, ())
        if filling.first is None:
            filling.topology = refusal_of(plans, self._cluster)
        filling.awaits = self._awaited(gang)
        return filling

    def _filled(self, trial: Trial, gang: Gang, plan: GangPlan) -> Filling:
        filling = _by(plan, gang)
        self._trials.fill(trial, filling, len(plan.order))
        return filling

    def _awaited(self, gang: Gang) -> Aspect:
        """What could make a domain large enough: all that filters read."""
        names = {pod.scheduler for pod in gang.pods}
        rules = (rule for name in names for rule in self._placements[name].profile.filters)
        return reduce(or_, (rule.reads for rule in rules), Aspect.PRESENCE | Aspect.LABELS)


class FirstPlan:
    """The first plan for a gang, then others, if it does not work out.

    No other unit is tried meanwhile.
    """

    def __init__(
        self, plans: GangPlans, gang: Gang, refused: Callable[[GangPlans, Gang], Filling]
    ) -> None:
        self._plans = plans
        self._gang = gang
        self._refused = refused
        self._steps = plans.next()
        self._members = {pod.uid for pod in gang.pods}
        #: The plan that is filled in, and how many members were tried by all plans.
        self._plan: GangPlan | None = None
        self._tried = 0

    @property
    def is_of_now(self) -> bool:
        """Whether the gang still has the pods that are planned."""
        return self._gang.is_ready and {pod.uid for pod in self._gang.pods} == self._members

    def go_on(self, work: int) -> Filling | None:
        """By the plan, nothing filled in yet, or why there is none; None: it takes more turns."""
        until = self._plans.spent + work
        try:
            while self._plans.spent < until:
                next(self._steps)
        except StopIteration as end:
            plan = self._plan = end.value
            return _by(plan, self._gang) if plan else self._refused(self._plans, self._gang)
        return None

    def learn(self, filling: Filling) -> bool:
        """After a plan that did not work out; whether there is another one."""
        plan = self._plan
        if plan is None or not plan.within:
            return False
        self._tried += len(plan.order)
        if self._tried + len(plan.order) <= _MOST_TRIED:
            _learn(self._plans, plan, filling)
            self._steps = self._plans.next(plan)
        elif self._plans.may_be_ignored:
            self._steps = self._plans.without_rules(plan)
        else:
            return False
        return True


def _learn(plans: GangPlans, plan: GangPlan, filling: Filling) -> None:
    placed = {member.pod.uid for member in filling.placed}
    plans.learn(plan, placed, {pod.uid for pod in filling.left})


def _by(plan: GangPlan, gang: Gang) -> Filling:
    return Filling.of(gang, plan.order, plan.within)


def _rank(pod: Pod) -> float:
    rank = pod.gang.rank if pod.gang else None
    return float("inf") if rank is None else rank


class TopologyPatience:
    """Since when gangs are refused, and when they may use more domains than now."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        self._since_s: dict[str, float] = {}
        self._due_s: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def waited_s(self, key: str, now: float) -> float:
        """How long it has been since the gang was first refused."""
        return max(0.0, now - self._since_s.get(key, now))

    def refused(self, key: str, now: float, next_s: float | None) -> None:
        """`next_s`: how long it will have waited when its rules allow more."""
        since_s = self._since_s.setdefault(key, now)
        if next_s is not None and self._due_s.get(key) != since_s + next_s:
            self._due_s[key] = since_s + next_s
            heappush(self._heap, (since_s + next_s, key))
        most = 2 * len(self._queue.gangs()) + _FEW
        if len(self._heap) > most or len(self._since_s) > most:
            self._forget()

    def wake_at(self, key: str, at_s: float) -> None:
        """Has the gang tried again then, unless that is due before."""
        if self._due_s.get(key, at_s + 1.0) > at_s:
            self._due_s[key] = at_s
            heappush(self._heap, (at_s, key))

    def placed(self, key: str) -> None:
        """Its patience begins again when it is refused the next time."""
        self._since_s.pop(key, None)
        self._due_s.pop(key, None)

    def _forget(self) -> None:
        """Without gangs that are gone, and without times that were replaced."""
        known = self._queue.gang
        self._since_s = {key: since for key, since in self._since_s.items() if known(key)}
        self._due_s = {key: due_s for key, due_s in self._due_s.items() if known(key)}
        self._heap = sorted((due_s, key) for key, due_s in self._due_s.items())

    def due_s(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def tend(self, now: float) -> None:
        """Lets gangs try again whose time has come."""
        while self._heap and self._heap[0][0] <= now:
            due_s, key = heappop(self._heap)
            if self._due_s.get(key) != due_s:
                continue
            del self._due_s[key]
            entry = self._queue.gang(key)
            if entry is not None and entry.pool is Pool.WAITING:
                self._queue.wake(entry, "UnschedulableTimeout", now=now)
