"""The plans that there are, in the order of their units, and how they are made."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import TypeVar

from fairlead.claims.errors import LookUnfinished
from fairlead.cluster.cluster import Cluster
from fairlead.engine.backfill.device_looks import LooksAt, limited_looks
from fairlead.engine.backfill.futures import Plan, UnitKey
from fairlead.engine.backfill.planner import Planner
from fairlead.engine.backfill.ranks import UnitRanks
from fairlead.engine.backfill.row_states import OF_PODS, RowStates
from fairlead.engine.backfill.scopes import PlanScope, Scopes
from fairlead.engine.backfill.start_search import StartSearch
from fairlead.engine.backfill.trial_parts import TrialUnfinished
from fairlead.model.backfill import BackfillTerms
from fairlead.model.errors import PluginFault
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.queue.entries import Entry
from fairlead.queue.units import Unit

#: What planning may cost in one turn (see `Work.spent`); at least one unit is planned.
MOST_WORK = 60_000
#: Running pods beyond which it takes a turn of its own to list when they end.
MANY_PODS = 10_000
#: Pods of a gang beyond which its plan may take several turns.
_MANY_MEMBERS = 200
#: Claims that are listed in one turn.
_MOST_LISTED = 12_000
#: How many are kept.
_MOST_GIVEN_UP = 1024

T = TypeVar("T")


@dataclass(slots=True)
class TurnWork:
    """What planning has left in this turn."""

    cluster: Cluster
    until: int = 0
    #: The unit that was last planned, or whose plan was checked.
    unit: Unit | None = None

    def begin(self) -> None:
        self.until, self.unit = self.cluster.work.spent + MOST_WORK, None

    def end(self) -> None:
        """What is left is for the next turn."""
        self.until = self.cluster.work.spent - 1

    @property
    def is_spent(self) -> bool:
        return self.cluster.work.spent > self.until


@dataclass(slots=True)
class MadePlans:
    cluster: Cluster
    planner: Planner
    terms: BackfillTerms
    scopes: Scopes
    ranks: UnitRanks
    states: RowStates
    looks_at: LooksAt
    all: list[Plan] = field(default_factory=list)
    #: Whether another unit may have to be planned.
    is_due: bool = False
    #: Plans that are to be checked whole in the next turn, and those that are being made again.
    unchecked: set[Plan] = field(default_factory=set)
    former: dict[str, Plan] = field(default_factory=dict)
    #: Units that have no plan since looking at devices took too long.
    given_up: dict[str, Entry] = field(default_factory=dict)
    turn: TurnWork = field(init=False)
    #: What was begun in the turn before.
    _begun: StartSearch | None = None

    def __post_init__(self) -> None:
        self.turn = TurnWork(self.cluster)

    def of(self, scope: PlanScope) -> list[Plan]:
        """Of the units that are planned together."""
        return [plan for plan in self.all if self.scopes.of(plan.entry.unit) is scope]

    def make(
        self,
        entry: Entry,
        order: UnitKey,
        now: float,
        ahead: Sequence[Plan] | None = None,
        *,
        at_once: bool = False,
    ) -> Plan | None:
        """A plan beside those that are before it; None if there is no start."""
        ahead = self.all if ahead is None else ahead
        if not self.is_looked_at(entry.unit, entry.unit.pods):
            return None
        made = self._tried(
            entry, lambda: self.planner.plan(entry, order, ahead, now, at_once=at_once)
        )
        return None if made is None else self._ranked(made)

    def is_looked_at(self, unit: Unit, pods: Iterable[Pod]) -> bool:
        """Whether all devices were looked at for these pods of it; if not, the turn is over."""
        self.turn.unit = unit
        done = not self.cluster.claims.are_used or self.looks_at(pods)
        if not done:
            self.turn.end()
        return done

    def _tried(self, entry: Entry, find: Callable[[], T | None]) -> T | None:
        """What is found; None also if that fails, or takes too long."""
        self.given_up.pop(entry.unit.key, None)
        try:
            with limited_looks(self.cluster):
                return find()
        except PluginFault:  # the attempt itself reports it
            return None
        except LookUnfinished:
            self.give_up(entry)
            return None

    def give_up(self, entry: Entry) -> None:
        """It would take too long to find out which devices will be free."""
        if len(self.given_up) >= _MOST_GIVEN_UP:
            self.given_up.clear()
        self.given_up[entry.unit.key] = entry

    def begin(self, entry: Entry, order: UnitKey, now: float, ahead: Sequence[Plan]) -> bool:
        """Whether `go_on` may be called in this turn: where many pods run, it is for the next."""
        self.turn.unit = entry.unit
        if self._begun is not None and self._begun.is_for(entry, order, ahead):
            return self._are_claims_listed(self._begun)
        if not self.is_looked_at(entry.unit, entry.unit.pods):
            return False
        self._begun = self._tried(entry, lambda: self.planner.search(entry, order, ahead, now))
        if self._begun is None:
            return not self.turn.is_spent
        if self.many_pods_run:
            self.turn.end()
            return False
        return self._are_claims_listed(self._begun) and not self.turn.is_spent

    def _are_claims_listed(self, search: StartSearch) -> bool:
        """Lists more claims that end, if the unit has claims; whether that was all."""
        if search.listing is None:
            return True
        self._begun = self.planner.listed(search, _MOST_LISTED)
        if self._begun.listing is not None or self.many_pods_run:
            self.turn.end()
        return not self.turn.is_spent

    @property
    def has_begun(self) -> bool:
        """Whether a plan is to be gone on with: when pods end is known then."""
        return self._begun is not None

    @property
    def many_pods_run(self) -> bool:
        """Whether it takes a turn of its own to list when pods end."""
        return len(self.cluster.holdings) > MANY_PODS

    def takes_turns(self, unit: Unit) -> bool:
        """Whether a plan for it may take more than one turn."""
        return self.many_pods_run or len(unit.pods) > _MANY_MEMBERS

    def go_on(self) -> Plan | None:
        """The plan that was begun; None if there is no start, or if it `has_begun` still."""
        search, self._begun = self._begun, None
        if search is None:
            return None
        try:
            made = self._tried(search.entry, lambda: self.planner.found(search, in_parts=True))
        except TrialUnfinished:
            self._begun = search
            self.turn.end()
            return None
        if made is None:
            return None
        former = self.former.pop(made.planned.unit_key, None)
        return self._ranked(made if former is None else made.follow(former))

    def _ranked(self, made: Plan) -> Plan:
        entry = made.entry
        made.rule, made.rank = self.scopes.of(entry.unit).mode.rule, self.ranks.rank_of(entry)
        return made

    def keeps(self, at: int, nodes: set[str], now: float, changed: int) -> bool:
        """Whether this plan still holds, with other GPUs of its nodes if it must.

        `changed`: the aspects of these nodes that have changed.
        """
        plan, late_s, before = self.all[at], self.terms.resolution_s, self.all[:at]
        self.turn.unit = plan.entry.unit
        self.unchecked.discard(plan)
        if any(node not in self.cluster.row_of for node in plan.on):
            return False
        states = {node: self.states.of(plan, before, node, late_s, now) for node in nodes}
        if not changed & ~OF_PODS and all(plan.seen.get(n) == s for n, s in states.items()):
            return True
        futures = self.planner.futures
        made = self._tried(plan.entry, lambda: futures.held(plan, before, nodes, now, late_s))
        if made is not None:
            self.all[at] = made
            made.seen.update(states)
        return made is not None

    def make_again(self, at: int, now: float) -> None:
        """This one, and those after it that do not hold any more."""
        again, self.all = self.all[at:], self.all[:at]
        for number, plan in enumerate(again):
            self.all.append(plan)
            if number and self.turn.is_spent:
                self.unchecked.add(plan)
                continue
            if number and self.keeps(len(self.all) - 1, set(plan.on), now, -1):
                continue
            self.all.pop()
            unit = plan.entry.unit
            if self.takes_turns(unit) or not self.is_looked_at(unit, unit.pods):
                self.former[plan.planned.unit_key] = plan
                continue
            made = self.make(plan.entry, plan.order, now)
            if made is not None:
                self.all.append(made.follow(plan))
        self.is_due = True

    def insert(self, made: Plan, scope: PlanScope, depth: int, now: float) -> None:
        """Those after it are planned again; of more than the depth the last ones are dropped."""
        at = sum(plan.order < made.order for plan in self.all)
        after = [plan.entry for plan in self.all[at:]]
        mine = [p for p in (*self.all[:at], made) if self.scopes.of(p.entry.unit) is scope]
        room = depth - len(mine)
        kept = []
        for plan in self.all[at:]:
            own = self.scopes.of(plan.entry.unit) is scope
            if own and room <= 0:
                continue
            room -= own
            kept.append(plan)
        self.all = [*self.all[:at], made, *kept]
        if after and kept:
            self.make_again(at + 1, now)
