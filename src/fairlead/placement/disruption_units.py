"""What is evicted together: a pod, a member of a gang above its minimum, or a whole gang.

A unit has a cost. Which units may go is said by a rule that counts what was taken so far, so that a
limit over several units (a disruption budget, the share of a queue) holds for all of them together.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, Self

from fairlead.cluster.claim_charges import held_milli
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.gang_units import GangUnit
from fairlead.cluster.holdings import Holding
from fairlead.cluster.priority_sums import AmountsByRow
from fairlead.model.budgets import Budget
from fairlead.model.consolidation import saved_at_s
from fairlead.model.gpus import WHOLE
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod

#: What a pod loses for each of its GPUs however short it ran: it has to start again.
_RESTART_S = 60.0

#: What it costs to look at a pod (see `Work.spent`), and to weigh one.
_WORK_TO_LOOK = 3
_WORK_PER_POD = 10

#: Priorities, the lowest first, that are told apart before nodes are looked at.
_MOST_LEVELS = 4


class Cost(NamedTuple):
    """The lower the better; compared in this order."""

    #: The highest of all pods.
    priority: int
    #: GPU-seconds that are thrown away.
    loss: float
    pods: int
    #: Of members that go singly, the highest ranks go first.
    rank: int = 0

    def plus(self, other: "Cost") -> "Cost":
        return Cost(
            max(self.priority, other.priority),
            self.loss + other.loss,
            self.pods + other.pods,
            self.rank + other.rank,
        )


NO_COST = Cost(-(2**31), 0.0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class DisruptionUnit:
    #: The uid of a pod, or the key of a gang.
    key: str
    held: tuple[Holding, ...]
    cost: Cost
    #: The gang that it is, or is a member of; empty for plain pods.
    gang: str = ""
    #: Its pods are being deleted or evicted: to wait for them costs nothing.
    is_leaving: bool = False

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(held.pod for held in self.held)


class VictimRule(Protocol):
    """Which units may go, and what the loss of each counts."""

    def may_evict(self, pod: Pod) -> bool:
        """Whether it may go at all; asked first, for every pod of a node."""
        ...

    def levels(self) -> Sequence[AmountsByRow]:
        """What such pods hold, by resource and row: first those that go first, then more of them,
        and at last all.
        """
        ...

    def weight(self, unit: DisruptionUnit) -> float:
        """By what its loss is multiplied."""
        ...

    def allows(self, unit: DisruptionUnit) -> bool:
        """Whether it may go besides those that were taken."""
        ...

    def take(self, unit: DisruptionUnit, sign: int) -> None:
        """It goes (+1), or stays after all (-1)."""
        ...


class ByLowerPriority:
    """The cluster's own rule for a preemptor: pods of lower priority."""

    def __init__(self, cluster: Cluster, preemptor: Pod) -> None:
        self._cluster = cluster
        self._preemptor = preemptor
        self._rule = cluster.eviction_rule

    def may_evict(self, pod: Pod) -> bool:
        return self._rule.may_evict(self._preemptor, pod)

    def levels(self) -> Sequence[AmountsByRow]:
        cluster, preemptor = self._cluster, self._preemptor
        table = cluster.evictable(preemptor)
        limit = self._rule.priority_limit(preemptor)
        lower = cluster.priorities_below(limit) if limit is not None else ()
        first = (replace(preemptor, priority=its) for its in lower[1:_MOST_LEVELS])
        return [*map(cluster.evictable, first), table]

    def weight(self, unit: DisruptionUnit) -> float:
        return 1.0

    def allows(self, unit: DisruptionUnit) -> bool:
        limit = self._rule.priority_limit(self._preemptor)
        return limit is None or unit.cost.priority < limit

    def take(self, unit: DisruptionUnit, sign: int) -> None:
        pass


class WithinBudgets:
    """A rule that also keeps to disruption budgets, as the Eviction API does."""

    def __init__(self, cluster: Cluster, rule: VictimRule, going: Collection[str] = ()) -> None:
        """`going`: uids of pods that are evicted already."""
        self._work = cluster.work
        self._rule = rule
        self._going = going
        self._budgets: dict[str, list[Budget]] = {}
        for budget in cluster.budgets.values():
            self._budgets.setdefault(budget.namespace, []).append(budget)
        self._protecting: dict[str, tuple[Budget, ...]] = {}
        self._used: Counter[str] = Counter()
        self.levels = rule.levels
        self.weight = rule.weight

    def may_evict(self, pod: Pod) -> bool:
        if not self._rule.may_evict(pod):
            return False
        if not self._budgets or pod.deleting or pod.uid in self._going:
            return True
        budgets = self._budgets_of(pod)
        return not budgets or (len(budgets) == 1 and budgets[0].allowed > 0)

    def allows(self, unit: DisruptionUnit) -> bool:
        if not self._rule.allows(unit):
            return False
        if not self._budgets or unit.is_leaving:
            return True
        used: Counter[str] = Counter()
        for budgets in map(self._budgets_of, unit.pods):
            if len(budgets) > 1:  # the Eviction API refuses it, whatever they allow
                return False
            for budget in budgets:
                used[budget.key] += 1
                if self._used[budget.key] + used[budget.key] > budget.allowed:
                    return False
        return True

    def take(self, unit: DisruptionUnit, sign: int) -> None:
        self._rule.take(unit, sign)
        if self._budgets and not unit.is_leaving:
            for budget in (b for pod in unit.pods for b in self._budgets_of(pod)):
                self._used[budget.key] += sign

    def _budgets_of(self, pod: Pod) -> tuple[Budget, ...]:
        found = self._protecting.get(pod.uid)
        if found is None:
            budgets = self._budgets.get(pod.namespace, ())
            self._work.terms += len(budgets)
            found = tuple(budget for budget in budgets if budget.protects(pod))
            self._protecting[pod.uid] = found
        return found


class DisruptionUnits:
    """The units of one search, by row, the cheapest first."""

    def __init__(
        self,
        cluster: Cluster,
        rule: VictimRule,
        utc_s: float,
        being_bound: Collection[str] = (),
        going: Collection[str] = (),
    ) -> None:
        """`being_bound`: keys of gangs that are left out, since some members have no node yet.
        `going`: uids of pods that are evicted for others already.
        """
        self._going = going
        self.rule = rule
        self._cluster = cluster
        self._being_bound = being_bound
        self._utc_s = utc_s
        self._by_row: dict[int, list[DisruptionUnit]] = {}
        self._gangs: dict[str, DisruptionUnit | None] = {}
        self._singles: dict[str, frozenset[str]] = {}
        #: By gang, and by the name of the group.
        self._spare: dict[str, dict[str, DisruptionUnit | None]] = {}
        #: Whether members of gangs that are being bound were left out.
        self.left_out = False

    def on(self, row: int) -> Sequence[DisruptionUnit]:
        found = self._by_row.get(row)
        if found is None:
            found = self._by_row[row] = sorted(self._on(row), key=_cost)
        return found

    def _on(self, row: int) -> Iterable[DisruptionUnit]:
        held = self._cluster.held_on(self._cluster.node_at(row).name)
        self._cluster.work.pods += _WORK_TO_LOOK * len(held)
        may_evict = self.rule.may_evict
        units = (self._unit_of(each) for each in held if may_evict(each.pod))
        return {unit.key: unit for unit in units if unit is not None}.values()

    def _unit_of(self, held: Holding) -> DisruptionUnit | None:
        pod = held.pod
        if pod.gang is None or pod.deleting:
            return self._single(held)
        key = pod.gang.gang
        unit = self._cluster.gangs.get(key)
        if key in self._being_bound:
            self.left_out = True
            return None
        if unit is None or pod.uid in self._goes_singly(key, unit):
            return self._single(held)
        if (group := self._spare_group(key, pod.gang.group, unit)) is not None:
            return group
        if key not in self._gangs:
            self._gangs[key] = self._whole(key, unit)
        return self._gangs[key]

    def _spare_group(self, key: str, group: str, unit: GangUnit) -> DisruptionUnit | None:
        """Of a gang with more groups than it needs: those that go with this one, without the rest.

        None: it goes with all.
        """
        if key not in self._spare:
            self._spare[key] = {
                name: self._group_unit(key, names, unit)
                for names in unit.spare_groups for name in names
            }  # fmt: skip
        return self._spare[key].get(group)

    def _group_unit(self, key: str, names: frozenset[str], unit: GangUnit) -> DisruptionUnit | None:
        members = [each for each in self._members(unit) if unit.placed[each.pod.uid] in names]
        if not members or not all(self.rule.may_evict(held.pod) for held in members):
            return None
        return self._weighed(f"{key}#{min(names)}", tuple(members), key, unit.priority)

    def _goes_singly(self, key: str, unit: GangUnit) -> frozenset[str]:
        """Of its members above the minimum, those with the highest ranks."""
        found = self._singles.get(key)
        if found is None:
            ranked = sorted(self._members(unit), key=_rank, reverse=True)
            found = frozenset(held.pod.uid for held in ranked[: unit.spare])
            self._singles[key] = found
        return found

    def _members(self, unit: GangUnit) -> list[Holding]:
        self._cluster.work.pods += _WORK_PER_POD * len(unit.placed)
        holdings = self._cluster.holdings
        return [holdings[uid] for uid in unit.placed if uid in holdings]

    def _single(self, held: Holding) -> DisruptionUnit:
        pod = held.pod
        gang = pod.gang.gang if pod.gang else ""
        self._cluster.work.pods += _WORK_PER_POD - _WORK_TO_LOOK
        return self._weighed(pod.uid, (held,), gang, pod.priority, -_rank(held)[0])

    def _whole(self, key: str, unit: GangUnit) -> DisruptionUnit | None:
        """None if one of its members may not go."""
        members = self._members(unit)
        if not all(self.rule.may_evict(held.pod) for held in members):
            return None
        return self._weighed(key, tuple(members), key, unit.priority)

    def _weighed(
        self, key: str, held: tuple[Holding, ...], gang: str, priority: int, rank: int = 0
    ) -> DisruptionUnit:
        if all(each.pod.deleting or each.pod.uid in self._going for each in held):
            return DisruptionUnit(key, held, NO_COST, gang, is_leaving=True)
        loss = sum(
            self._gpus_of(each) * (_RESTART_S + lost_s(each.pod, self._utc_s)) for each in held
        )
        highest = max(priority, *(each.pod.priority for each in held))
        cost = Cost(highest, loss, len(held), rank)
        unit = DisruptionUnit(key, held, cost, gang)
        weight = self.rule.weight(unit)
        if weight == 1.0:
            return unit
        return DisruptionUnit(key, held, cost._replace(loss=weight * loss), gang)

    def _gpus_of(self, held: Holding) -> float:
        """Those of its claims included."""
        pod, found = held.pod, gpus_of(held)
        if not pod.request.claims:
            return found
        return found + held_milli(pod.uid, pod.request.claims, self._cluster.claims) / WHOLE


def _cost(unit: DisruptionUnit) -> tuple[Cost, "_Youngest", str]:
    """Among equals, those that started last go first."""
    started = min((held.pod.started for held in unit.held), default="")
    return unit.cost, _Youngest(started), unit.key


@dataclass(frozen=True, slots=True)
class _Youngest:
    started: str

    def __lt__(self, other: Self) -> bool:
        return (self.started or "~") > (other.started or "~")


def _rank(held: Holding) -> tuple[int, str]:
    rank = held.pod.gang.rank if held.pod.gang else None
    return rank or 0, held.pod.key


def gpus_of(held: Holding) -> float:
    """Whole GPUs that it holds, shares counted as parts of one."""
    counted = next((amount for name, amount in held.amounts if name == GPU), 0)
    if counted or held.grant is None:
        return float(counted)
    return sum(use.milli for use in held.grant.uses) / WHOLE


def gpus_of_pod(pod: Pod) -> float:
    """The same of a bound pod, by what it asked for."""
    asked = pod.request.gpu_request
    if asked is None or asked.whole:
        return float(pod.request.amount(GPU) or (asked.gpus if asked else 0))
    return asked.gpus * asked.milli / WHOLE


def lost_s(pod: Pod, utc_s: float) -> float:
    """Seconds of work that are thrown away with the pod: since its start or last checkpoint."""
    since_s = saved_at_s(pod, utc_s)
    return 0.0 if since_s is None else max(0.0, utc_s - since_s)


def victims_by_node(units: Iterable[DisruptionUnit]) -> Mapping[str, tuple[Pod, ...]]:
    """Pods that must be evicted, without those that are being deleted already."""
    found: dict[str, tuple[Pod, ...]] = {}
    for held in _remaining(units):
        found[held.node] = (*found.get(held.node, ()), held.pod)
    return found


def _remaining(units: Iterable[DisruptionUnit]) -> Iterator[Holding]:
    for unit in units:
        if not unit.is_leaving:
            yield from (held for held in unit.held if not held.pod.deleting)
