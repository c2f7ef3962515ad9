"""Preemption: which pods to evict, and on which node, so that a pod can run.

Who may be evicted is the cluster's `eviction_rule`. All nodes are checked at once: would the pod
fit without those pods? On a few of the nodes that remain the eviction is tried: all of them leave,
and then those that may stay come back, the most important first. The node is chosen as
kube-scheduler chooses it.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import field, replace

import numpy as np

from fairlead.cluster.arrays import NodeMask, Rows
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.draft import Draft
from fairlead.cluster.holdings import Holding
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.priority_sums import AmountsByRow
from fairlead.model.budgets import Budget
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.quantities import PODS
from fairlead.placement.node_trial import NO_RULE, NodeTrial
from fairlead.placement.nominated import NominatedAmounts
from fairlead.placement.profile import Profile
from fairlead.placement.verdicts import Eviction, TriedEviction, unavailable
from fairlead.placement.views import View
from fairlead.plugins.api import EvictionForecast, Filter, reasons_of

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NEVER = "not eligible due to preemptionPolicy=Never."
UNDER_WAY = "not eligible due to a terminating pod on the nominated node."

NOT_YET = "not evaluated yet"
TOO_MANY = "too many pods or disruption budgets to evaluate"

# Up to this many nodes all are tried, so that the choice is the best there is. Among more,
# the search ends when this many in a row were no better than the best so far.
_TRY_ALL = 100
_NO_BETTER = 4

# What a search may cost (see `Work.spent`): then it takes the best so far, or says that it was cut
# short, and the next attempt goes on where it ended.
_MOST_WORK = 40_000
# On one node, pods that could have to go, and comparisons of these with budgets.
_MOST_EVICTABLE = 1000
_MOST_COMPARED = 30_000

_LAST = "~"  # sorts after every time: a pod that has not started is as if it started now


@dataclass(slots=True)
class PreemptionOutcome:
    """An eviction, or what stood against it on each node that was looked into."""

    eviction: Eviction | None = None
    looked_into: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    #: Is there more to look into, in another attempt?
    cut_short: bool = False

    def message(self, nodes: int) -> str:
        """Why evicting pods does not help, node by node."""
        return unavailable(nodes, {**self.counts, NOT_HELPFUL: nodes - self.looked_into})


class Preemption:
    """The search for one pod. It looks, and changes nothing."""

    def __init__(
        self,
        pod: Pod,
        view: View,
        profile: Profile,
        cluster: Cluster,
        nominated: NominatedAmounts | None,
        *,
        goes_on: bool = True,
    ) -> None:
        self._pod = pod
        self._view = view
        self._profile = profile
        self._cluster = cluster
        self._nominated = nominated
        self._trial = NodeTrial(pod, view, profile, cluster)
        #: Does the next search go on where this one ends?
        self._goes_on = goes_on and not cluster.in_trial
        self._budgets: dict[str, list[Budget]] = {}
        for budget in cluster.budgets.values():
            self._budgets.setdefault(budget.namespace, []).append(budget)

    def search(self, resolvable: NodeMask) -> PreemptionOutcome:
        """The best eviction on one of the nodes where evicting could help."""
        outcome = PreemptionOutcome(looked_into=int(np.count_nonzero(resolvable)))
        amounts = self._cluster.evictable(self._pod)
        rows = np.flatnonzero(resolvable & self._has_victims(amounts))
        outcome.counts[NO_VICTIMS] = outcome.looked_into - len(rows)
        possible = self._possible(rows, amounts, outcome)
        outcome.eviction = self._best(self._fewest_victims_first(possible, amounts), outcome)
        return outcome

    def on(self, row: int, first: Collection[str]) -> Eviction | None:
        """Who would have to leave this node: some of the first (uids) if that will do.

        None if that would not help, or if too many could have to leave.
        """
        node = self._cluster.node_at(row).name
        evictable = self._evictable(node)
        if self._is_too_much(evictable):
            return None
        violating = self._violating(evictable)
        wanted = frozenset(first)
        some = [held for held in evictable if held.pod.uid in wanted]
        for leaving in (some, evictable):
            found, against = self._try_eviction(row, node, leaving, violating)
            if found is None and not against and some:
                # As we see it no pod must go; the caller may see more.
                pods = tuple(held.pod for held in some)
                return Eviction(node, {node: pods}, sum(pod.uid in violating for pod in pods))
            if found is not None:
                return found
        return None

    def on_several(
        self, offered: Iterable[tuple[int, Collection[str]]]
    ) -> list[Eviction | None]:  # fmt: skip
        """The same for several nodes in their order, until that would take too long."""
        work, start = self._cluster.work, self._cluster.work.spent
        found: list[Eviction | None] = []
        for row, first in offered:
            if work.spent - start > _MOST_WORK:
                break
            found.append(self.on(row, first))
        return found

    def _evictable(self, node: str) -> list[Holding]:
        evictable = self._cluster.evictable_on(self._pod, node)
        found = sorted(evictable, key=lambda held: _importance(held.pod))
        return _by_rank(found) if self._cluster.gangs else found

    def _has_victims(self, amounts: AmountsByRow) -> NodeMask:
        pods = self._cluster.columns.resource_index[PODS]
        found: NodeMask = amounts[pods, : self._cluster.columns.size] > 0
        return found

    def _possible(self, rows: Rows, amounts: AmountsByRow, outcome: PreemptionOutcome) -> Rows:
        """The rows where the pod would fit by what is taken, without those that may be evicted."""
        if not len(rows):
            return rows
        left_taken = self._cluster.columns.requested - amounts
        if self._nominated:
            left_taken[:, self._nominated.rows] += self._nominated.amounts
        request = self._view.request
        nodes = Nodes(self._cluster.columns, rows)
        left = nodes.all()
        limit = self._cluster.eviction_rule.priority_limit(self._pod)
        with self._cluster.taking(left_taken):
            for index, rule in enumerate(self._profile.filters):
                self._cluster.work.ask(len(rows))
                if self._trial.needs_draft_for(index):
                    forecast = self._profile.eviction_forecasts.get(index)
                    if forecast is None or limit is None:
                        break  # from here on only a trial can show it
                    left &= self._forecast(forecast, limit, rows, left, outcome)
                    continue
                whole_cluster = index in self._profile.cluster_filters
                if whole_cluster and not self._view.speaks(index):
                    continue
                allowed = self._view.allowed[index, rows] if whole_cluster else None
                refused = left & ~(rule.allows(request, nodes) if allowed is None else allowed)
                if refused.any():
                    left &= ~refused
                    self._blame(rule, rows[refused], outcome, whole_cluster=whole_cluster)
        return rows[left]

    def _blame(
        self, rule: Filter, rows: Rows, outcome: PreemptionOutcome, *, whole_cluster: bool
    ) -> None:
        columns = self._cluster.columns
        nodes = Nodes(columns) if whole_cluster else Nodes(columns, rows)
        for reason in reasons_of(rule, self._view.request, nodes):
            where = reason.where[rows] if whole_cluster else reason.where
            outcome.counts[reason.text] += int(where.sum())

    def _forecast(
        self,
        rule: EvictionForecast,
        below: int,
        rows: Rows,
        left: NodeMask,
        outcome: PreemptionOutcome,
    ) -> NodeMask:
        """The rows that the filter leaves; it cannot predict rows with nominated pods."""
        asked = left
        if self._nominated:
            asked = left & ~np.isin(rows, self._nominated.rows)
        allowed = np.ones(len(rows), dtype=np.bool_)
        for reason in rule.reasons_without(self._view.request, self._cluster.nodes, below):
            refused = reason.where[rows] & asked
            outcome.counts[reason.text] += int(refused.sum())
            allowed &= ~refused
        return allowed

    def _fewest_victims_first(self, rows: Rows, amounts: AmountsByRow) -> Rows:
        """Where few could have to go first; rows keep their order among equals."""
        if len(rows) <= _TRY_ALL:
            return rows
        pods = self._cluster.columns.resource_index[PODS]
        return rows[np.argsort(amounts[pods, rows], kind="stable")]

    def _best(self, rows: Rows, outcome: PreemptionOutcome) -> Eviction | None:
        best: Eviction | None = None
        no_better = 0
        work, start = self._cluster.work, self._cluster.work.spent
        first = self._view.searched if self._goes_on else 0
        first = first if first < len(rows) else 0
        for looked, row in enumerate(rows[first:]):
            if work.spent - start > _MOST_WORK:
                self._interrupt(first, looked, rows, outcome, found=best is not None)
                return best
            found = self._try(int(row), outcome)
            if found is None:
                continue
            if best is None or _loss(found) < _loss(best):
                best, no_better = found, 0
            else:
                no_better += 1
            if len(rows) > _TRY_ALL and no_better >= _NO_BETTER and not best.violations:
                break
        self._remember(0)
        outcome.counts[NOT_YET] += first
        return best

    def _interrupt(
        self, first: int, looked: int, rows: Rows, outcome: PreemptionOutcome, *, found: bool
    ) -> None:
        """The next search for pods like this one goes on from here, unless this one found some."""
        self._remember(0 if found else first + looked)
        outcome.cut_short = not found
        outcome.counts[NOT_YET] += len(rows) - looked

    def _remember(self, position: int) -> None:
        if self._goes_on:
            self._view.searched = position

    def _try(self, row: int, outcome: PreemptionOutcome) -> Eviction | None:
        """Who would have to leave this node; None, and why, if that would not help."""
        cluster = self._cluster
        node = cluster.node_at(row).name
        evictable = self._evictable(node)
        if self._is_too_much(evictable):
            outcome.counts[TOO_MANY] += 1
            return None
        violating = self._violating(evictable)
        nominated = cluster.nominations.against(self._pod, node)
        conditions = [held.pod for held in evictable], violating, nominated
        tried = self._view.tried.get(row)
        if tried is None or tried.conditions != conditions or self._trial.needs_draft:
            tried = TriedEviction(conditions, *self._try_eviction(row, node, evictable, violating))
            self._view.tried[row] = tried
        outcome.counts.update(tried.against)
        return self._with_gangs(tried.eviction) if cluster.gangs else tried.eviction

    def _with_gangs(self, eviction: Eviction | None) -> Eviction | None:
        """The same with all members of gangs that would be of no use; None if one may not go."""
        if eviction is None:
            return None
        leaving = dict(eviction.victims_by_node)
        gone = {pod.uid for pod in eviction.victims}
        for unit in self._cluster.gangs.broken_by(eviction.victims):
            self._cluster.work.pods += len(unit.placed)
            for uid in unit.placed.keys() - gone:
                held = self._cluster.holdings.get(uid)
                if held is None:
                    continue
                if not self._cluster.eviction_rule.may_evict(self._pod, held.pod):
                    return None
                leaving[held.node] = (*leaving.get(held.node, ()), held.pod)
        return replace(eviction, victims_by_node=leaving)

    def _try_eviction(
        self, row: int, node: str, evictable: Sequence[Holding], violating: set[str]
    ) -> tuple[Eviction | None, list[str]]:
        with self._cluster.draft(row) as draft:
            for held in evictable:
                draft.take(held)
            if self._trial.refuser(row, draft) != NO_RULE:
                return None, self._trial.refusal_texts(row, draft)
            return self._minimal_victims(row, node, evictable, violating, draft), []

    def _minimal_victims(
        self, row: int, node: str, evictable: Sequence[Holding], violating: set[str], draft: Draft
    ) -> Eviction | None:
        victims: list[Pod] = []
        violations = 0
        # Those whose budget is used up are the first to be let back in.
        for held in sorted(evictable, key=lambda held: held.pod.uid not in violating):
            draft.add(held)
            if self._trial.refuses(row, draft):
                draft.take(held)
                victims.append(held.pod)
                violations += held.pod.uid in violating
        victims.sort(key=_importance)
        return Eviction(node, {node: tuple(victims)}, violations) if victims else None

    def _is_too_much(self, evictable: Sequence[Holding]) -> bool:
        compared = sum(len(self._budgets.get(held.pod.namespace, ())) for held in evictable)
        return len(evictable) > _MOST_EVICTABLE or compared > _MOST_COMPARED

    def _violating(self, held: Sequence[Holding]) -> set[str]:
        """Pods whose eviction, the most important first, would overdraw a budget or end a gang."""
        gangs = self._cluster.gangs
        violating = gangs.vital(h.pod for h in reversed(held)) if gangs else set()
        if not self._budgets:
            return violating
        used: Counter[int] = Counter()  # by identity: a selector may name thousands
        for pod in (h.pod for h in held):
            budgets = self._budgets.get(pod.namespace, ())
            self._cluster.work.terms += len(budgets)
            for budget in budgets:
                if budget.protects(pod):
                    used[id(budget)] += 1
                    if used[id(budget)] > budget.allowed:
                        violating.add(pod.uid)
                        if self._cluster.behaviour.stops_at_exhausted_budget:
                            break
        return violating


def ineligible(pod: Pod, cluster: Cluster, row: int | None) -> str:
    """Why the pod may not evict others now, or nothing.

    `row` is the node that it is nominated for, if evicting could help there.
    """
    if not pod.preempts:
        return NEVER
    if row is None:
        return ""
    node = cluster.node_at(row).name
    leaving = any(held.pod.evicted for held in cluster.evictable_on(pod, node))
    return UNDER_WAY if leaving else ""


def _importance(pod: Pod) -> tuple[int, str, str]:
    """Sorts the most important first: by priority, then who has run longest."""
    return -pod.priority, pod.started or _LAST, pod.key


def _by_rank(evictable: list[Holding]) -> list[Holding]:
    """Members of one gang in the order of their ranks: the last of them are the first to go."""
    members: dict[str, list[Holding]] = {}
    for held in evictable:
        if held.pod.gang is not None:
            members.setdefault(held.pod.gang.gang, []).append(held)
    ranked = {key: iter(sorted(found, key=_rank_of)) for key, found in members.items()}
    return [next(ranked[h.pod.gang.gang]) if h.pod.gang else h for h in evictable]


def _rank_of(held: Holding) -> int:
    return _rank(held.pod)


def _rank(pod: Pod) -> int:
    """0 for pods of no gang, and those without a rank."""
    return (pod.gang.rank or 0) if pod.gang else 0


def _loss(eviction: Eviction) -> tuple[int, int, int, int, int, "_Latest"]:
    """What the choice of a node is made by, the smaller the better."""
    victims = eviction.victims
    top = max(victim.priority for victim in victims)
    return (
        eviction.violations,
        top,
        sum(victim.priority + 2**31 for victim in victims),
        len(victims),
        -max((_rank(victim) for victim in victims), default=0),
        _Latest(min(v.started or _LAST for v in victims if v.priority == top)),
    )


@dataclass(frozen=True, slots=True)
class _Latest:
    """A time that sorts before earlier ones."""

    time: str

    def __lt__(self, other: "_Latest") -> bool:
        return self.time > other.time
