"""Where the pods of a gang with topology rules go: plans, the best first.

A plan gives each pod a row. It is made from what is free, so that a trial may find that a row takes
fewer pods; what the trial found limits the next plan. The last plans only name the domains.
"""

from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from fairlead.cluster.arrays import NodeMask, PerNode, Rows
from fairlead.cluster.cluster import Cluster
from fairlead.model.gangs import GangSpec
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod, PodRequest
from fairlead.placement.gang_part import GangPart, gang_part_of
from fairlead.placement.gang_room import GangRoom
from fairlead.placement.gang_subsets import subsets
from fairlead.placement.joint_groups import JointGroup, JointGroups
from fairlead.placement.place import Placement
from fairlead.placement.rank_order import along_the_tree
from fairlead.placement.topology_solver import Question, limits_of, most_in_a_domain, solve
from fairlead.placement.tree_knapsack import Sets
from fairlead.placement.unequal_pods import MOST_WORK, Kinds, Taken, spread_over_few

#: Plans that are made for one attempt.
MOST_PLANS = 8
#: Kinds of pods that are planned one by one; of more, those that are near each other become one.
_MOST_KINDS = 32
#: Domains that are tried in full for pods that differ.
_MOST_REGIONS = 12
#: Domains of each group that are tried together with those of others, and the numbers that this may
#: compute in one attempt.
_MOST_OPTIONS = 16
_MOST_JOINT_WORK = 16_000_000

#: Rows of nodes that a plan looks at, for each kind of pods, in about a microsecond.
_ROWS_EACH = 5

#: A row for each pod, found step by step.
RowSteps = Generator[None, None, dict[str, int] | None]

#: A plan, found step by step.
PlanSteps = Generator[None, None, "GangPlan | None"]

_NO_ROWS: Rows = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class GangPlan:
    """The pods in the order of their ranks, and the rows that each may use."""

    order: tuple[Pod, ...]
    within: Mapping[str, NodeMask]
    #: The row of each pod; empty if only domains are named.
    rows: Mapping[str, int] = field(default_factory=dict)


class GangPlans:
    """The plans for one attempt at a gang."""

    def __init__(
        self,
        spec: GangSpec,
        pods: Sequence[Pod],
        placed: Mapping[str, Sequence[str]],
        cluster: Cluster,
        placements: Mapping[str, Placement],
        waited_s: float,
        needed: int | None = None,
        counted: Counter[str] | None = None,
        room: GangRoom | None = None,
    ) -> None:
        """`placed`: the nodes of members that have one, by group; `needed`: None for all pods.

        `counted`: by group, members that need no node any more; None: those that are placed.
        `room`: what is known already of the requests of the pods.
        """
        self._spec = spec
        self._needed = len(pods) if needed is None else needed
        self.part = gang_part_of(spec, pods)
        named = {rule.topology for rule in self.part.every_rule if rule.topology}
        self.tree = cluster.topology.tree(self.part.levels(), named)
        self._placed = {
            group: np.array(
                [cluster.row_of[n] for n in nodes if n in cluster.row_of], dtype=np.intp
            )
            for group, nodes in placed.items()
        }
        nodes = Counter({group: len(rows) for group, rows in self._placed.items()})
        self._counted = nodes if counted is None else counted
        self.waited_s = waited_s
        self.room = room if room is not None and room.is_current else GangRoom(cluster)
        self._requests = self._known(placements)
        self._most_plans = MOST_PLANS
        if self.room.coarsen(_MOST_KINDS):
            self._requests = self._known(placements)
            self._most_plans = 1
        self._size = cluster.columns.size
        self._masks: dict[int, NodeMask] = {}
        self._learnt = True
        self._joint_work = _MOST_JOINT_WORK
        self._work_each = MOST_WORK // max(1, self.part.count)
        #: What was spent on plans; one is about a microsecond.
        self.spent = 0

    def _known(self, placements: Mapping[str, Placement]) -> dict[str, PodRequest]:
        pods = self.part.every_pod
        return {pod.uid: self.room.know(pod, placements[pod.scheduler]) for pod in pods}

    def __iter__(self) -> Iterator[GangPlan]:
        """Call `learn` after a plan that did not work out."""
        plan: GangPlan | None = None
        for _ in range(self._most_plans):
            if not self._learnt:
                break
            rows = _last(self._rows())
            if not rows:
                break
            plan = self._exact(rows)
            self._learnt = False
            yield plan
        if plan is not None:
            yield self._loose(plan)

    def next(self, last: GangPlan | None = None) -> PlanSteps:
        """The first plan, or the one after `last`, found step by step: each is about one group."""
        if last is not None and not self._learnt:
            return self._loose(last)
        self._learnt = False
        rows = yield from self._rows()
        if rows:
            return self._exact(rows)
        return self._loose(last) if last is not None else None

    @property
    def may_be_ignored(self) -> bool:
        """Whether all rules are preferences, and none asks to wait for a better place."""
        return not any(
            rule.required or (rule.patience_s or 0.0) > self.waited_s
            for rule in self.part.every_rule
        )

    def without_rules(self, last: GangPlan) -> PlanSteps:
        """Its pods wherever they fit."""
        yield
        return GangPlan(last.order, {})

    def _rows(self) -> RowSteps:
        return (yield from self._planned(self.part)) or (yield from self._with_fewer())

    def learn(self, plan: GangPlan, placed: Collection[str], untried: Collection[str]) -> None:
        """In the trial these pods got the rows of the plan, and those were not looked at."""
        counts = Counter(
            (self._requests[uid], row) for uid, row in plan.rows.items() if uid in placed
        )
        for uid, row in plan.rows.items():
            if uid not in placed and uid not in untried:
                self._learnt = True
                self.room.limit(self._requests[uid], row, counts[self._requests[uid], row])

    def question(self, part: GangPart, pods: Sequence[Pod], used: Rows = _NO_ROWS) -> Question:
        """About equal pods of a part."""
        request = self._requests[pods[0].uid]
        return Question(
            pods=len(pods),
            tree=self.tree,
            limits=limits_of(part.rules, self.tree, self.waited_s),
            room=self.room.of(request),
            free_milli=self.room.gpus_milli(),
            penalty=self.room.penalty(request),
            bound=self.bound(part),
            used=used,
            sets=self._sets(part),
        )

    def bound(self, part: GangPart) -> Rows:
        """The rows of members of the part that have nodes."""
        of_part = (
            rows for group, rows in self._placed.items() if not part.groups or group in part.groups
        )
        return np.unique(np.concatenate([_NO_ROWS, *of_part]))

    def gpus_of(self, pod: Pod) -> int:
        """Thousandths of GPUs that a pod of the gang takes."""
        return self.room.gpus_of(self._requests[pod.uid])

    def fits_after(self, waited_s: float) -> bool:
        """Whether there would be a plan if the gang had waited so long."""
        now, self.waited_s = self.waited_s, waited_s
        found = _last(self._rows())
        self.waited_s = now
        return bool(found)

    def classes(self, pods: Sequence[Pod]) -> list[list[Pod]]:
        """Pods with equal requests, those with more GPUs first."""
        by_request: dict[PodRequest, list[Pod]] = {}
        for pod in pods:
            by_request.setdefault(self._requests[pod.uid], []).append(pod)
        return sorted(by_request.values(), key=self._size_of, reverse=True)

    def _size_of(self, pods: list[Pod]) -> tuple[int, tuple[int, int]]:
        request = self._requests[pods[0].uid]
        return self.room.gpus_of(request), request.scored

    def _sets(self, part: GangPart) -> Sets | None:
        rule = next(iter(part.set_rules), None)
        if rule is None or part.set_size <= 1:
            return None
        level = self.tree.place(rule.level)
        return None if level is None else Sets(part.set_size, level)

    # -- planning ----------------------------------------------------------------------------

    def _planned(self, part: GangPart) -> RowSteps:
        self.room.given = {}
        everywhere = np.ones(self._size, dtype=np.bool_)
        return self._place(part, everywhere, {})

    def _with_fewer(self) -> RowSteps:
        """As many as one domain takes, or as the gang needs; the lowest ranks first."""
        part, pods = self.part, self.part.pods
        if self._needed >= len(part.every_pod):
            return None
        if part.parts or self._spec.groups or len(self.classes(pods)) != 1:
            return (yield from self._with_subset())
        self.room.given = {}
        most = most_in_a_domain(self.question(part, pods))
        if not self._needed <= most < len(pods):
            return None
        return (yield from self._planned(replace(part, pods=pods[: max(most, 1)])))

    def _with_subset(self) -> RowSteps:
        spec, every = self._spec, self.part.every_pod
        for pods in subsets(spec, every, self._counted, self._has_room, self._needed):
            if rows := (yield from self._planned(gang_part_of(self._spec, pods))):
                return rows
        return None

    def _has_room(self, pod: Pod) -> bool:
        self.room.given = {}
        return bool(self.room.of(self._requests[pod.uid]).any())

    def _place(self, part: GangPart, within: NodeMask, before: Mapping[str, int]) -> RowSteps:
        classes = self.classes(part.pods)
        self.spent += len(classes) * self._size // _ROWS_EACH
        yield
        if not part.parts and len(classes) <= 1:
            return self._place_equal(part, classes[0], within, before) if classes else {}
        if not part.parts and not self._sets(part):
            return self._place_unequal(part, classes, within, before)
        best: tuple[tuple[int, int], dict[str, int]] | None = None
        given = self.room.given
        for region in self._regions(part, within):
            self.room.given = given
            found = yield from self._place_inside(part, classes, region, before)
            if found is None and best is None:
                self.room.given = given
                found = self._place_together(part, classes, region, before)
            if found is not None:
                value = self._value(found)
                if best is None or value < best[0]:
                    best = value, found
                    taken = self.room.given
        if best is None:
            self.room.given = given
            return None
        self.room.given = taken
        return best[1]

    def _place_equal(
        self, part: GangPart, pods: list[Pod], within: NodeMask, before: Mapping[str, int]
    ) -> dict[str, int] | None:
        used = np.unique(np.array([*before.values()], dtype=np.intp))
        question = self.question(part, pods, used)
        question = replace(question, room=np.where(within, question.room, 0))
        taken = solve(question)
        if taken is None and question.sets and not part.set_rules[0].required:
            taken = solve(replace(question, sets=None))
        if taken is None:
            return None
        self.room.give(self._requests[pods[0].uid], taken)
        sets = question.sets
        rows = along_the_tree(taken, self.tree, (sets.level, sets.size) if sets else None)
        return dict(zip((pod.uid for pod in pods), rows.tolist(), strict=True))

    def _place_unequal(
        self, part: GangPart, classes: list[list[Pod]], within: NodeMask, before: Mapping[str, int]
    ) -> dict[str, int] | None:
        """Pods that differ, without parts or sets: by kinds, in few domains."""
        limits = limits_of(part.rules, self.tree, self.waited_s)
        level = limits.only if limits.only is not None else next(iter(limits.few), None)
        domains, inside = self.tree.at(level) if level is not None else (None, None)
        if domains is None or inside is None:
            domains, inside = np.zeros(self._size, dtype=np.int64), np.ones(self._size, np.bool_)
        allowed = within
        for required in limits.most:
            allowed = allowed & self.tree.at(required)[1]
        bound = self.bound(part)
        bound = bound[inside[bound]]
        if len(bound) and limits.only is not None:
            allowed = allowed & np.isin(domains, domains[bound])
            domains = np.zeros(self._size, dtype=np.int64)
        requests = [self._requests[pods[0].uid] for pods in classes]
        room = np.array([self.room.of(request) for request in requests])
        for rows in (allowed & inside, allowed):
            nodes = np.flatnonzero(rows & room.any(axis=0))
            used = [*before.values(), *bound.tolist()]
            kinds = self._kinds_of(classes, nodes, used, domains)
            most = limits.most.get(level, len(nodes)) if level is not None else 1
            taken = spread_over_few(kinds, min(most, len(nodes)), self._work_each)
            if taken is not None:
                return self._ranked_rows(classes, nodes, taken)
        return None

    def _kinds_of(
        self, classes: list[list[Pod]], nodes: Rows, used: list[int], domains: PerNode
    ) -> Kinds:
        requests = [self._requests[pods[0].uid] for pods in classes]
        free, needs = self.room.amounts(requests, nodes)
        in_use = np.zeros(self._size, dtype=np.bool_)
        in_use[used] = True
        return Kinds(
            counts=np.array([len(pods) for pods in classes]),
            needs=needs,
            room=np.array([self.room.of(request)[nodes] for request in requests]),
            free=free,
            size=np.array([max(self.room.gpus_of(each), 1) for each in requests]),
            left=self.room.gpus_milli()[nodes],
            used=in_use[nodes],
            domains=domains[nodes],
        )

    def _ranked_rows(self, classes: list[list[Pod]], nodes: Rows, taken: Taken) -> dict[str, int]:
        found: dict[str, int] = {}
        for pods, counts in zip(classes, taken, strict=True):
            by_row = np.zeros(self._size, dtype=np.int64)
            by_row[nodes] = counts
            self.room.give(self._requests[pods[0].uid], by_row)
            rows = along_the_tree(by_row, self.tree).tolist()
            found |= dict(zip((pod.uid for pod in pods), rows, strict=True))
        return found

    def _place_inside(
        self, part: GangPart, classes: list[list[Pod]], region: NodeMask, before: Mapping[str, int]
    ) -> RowSteps:
        """One part after another, then the pods that belong to none, the largest first."""
        found: dict[str, int] = {}
        for inner in sorted(part.parts, key=self._demand, reverse=True):
            rows = yield from self._place(inner, region, {**before, **found})
            if rows is None:
                return None
            found |= rows
        loose = replace(part, parts=(), rules=tuple(r for r in part.rules if not r.required))
        for pods in classes:
            rows = self._place_equal(loose, pods, region, {**before, **found})
            if rows is None:
                return None
            found |= rows
        return found

    def _place_together(
        self, part: GangPart, classes: list[list[Pod]], region: NodeMask, before: Mapping[str, int]
    ) -> dict[str, int] | None:
        """All parts at once, where one after another failed."""
        options = [self._options(inner, region) for inner in part.parts]
        if self._joint_work <= 0 or not all(options):
            return None
        by_group = [*(self.classes(inner.pods) for inner in part.parts), classes]
        kinds = sorted(
            ((number, pods) for number, each in enumerate(by_group) for pods in each),
            key=lambda kind: self._size_of(kind[1]),
            reverse=True,
        )
        together = [pods for _, pods in kinds]
        nodes = np.flatnonzero(region)
        groups = [
            JointGroup(
                tuple(at for at, (its, _) in enumerate(kinds) if its == number),
                tuple(rows[nodes] for rows in each),
            )
            for number, each in enumerate([*options, [region]])
        ]
        used = [*before.values(), *self.bound(part).tolist()]
        table = self._kinds_of(together, nodes, used, np.zeros(self._size, dtype=np.int64))
        search = JointGroups(table, groups, self._joint_work)
        taken = search.solve()
        self._joint_work = search.work
        return None if taken is None else self._ranked_rows(together, nodes, taken)

    def _options(self, part: GangPart, region: NodeMask) -> list[NodeMask]:
        """The rows of each domain that a part could be in; none if it is not that simple."""
        limits = limits_of(part.rules, self.tree, self.waited_s)
        if part.parts or part.set_rules or any(most != 1 for most in limits.most.values()):
            return []
        rows = region
        for level in limits.most:
            rows = rows & self.tree.at(level)[1]
        if limits.only is None:
            return [rows]
        domains, inside = self.tree.at(limits.only)
        bound = self.bound(part)
        bound = bound[inside[bound]]
        if len(bound):
            return [rows & np.isin(domains, domains[bound])]
        fitting, _ = self._domains_by_room(part, domains, rows)
        return [rows & (domains == domain) for domain in fitting[:_MOST_OPTIONS].tolist()]

    def _demand(self, part: GangPart) -> tuple[int, int]:
        """Parts with narrower rules first, then those that take more."""
        limits = limits_of(part.rules, self.tree, self.waited_s)
        only = -1 if limits.only is None else limits.only
        return only, sum(self.room.gpus_of(self._requests[pod.uid]) for pod in part.every_pod)

    def _regions(self, part: GangPart, within: NodeMask) -> Iterator[NodeMask]:
        """Rows to try for pods that differ: one domain, then more of them if rules allow it."""
        limits = limits_of(part.rules, self.tree, self.waited_s)
        level = limits.only
        if level is None:
            level = limits.few[0] if limits.few else None
        if level is None:
            yield within
            return
        domains, inside = self.tree.at(level)
        fitting, order = self._domains_by_room(part, domains, inside & within)
        bound = self.bound(part)
        bound = bound[inside[bound]]
        if len(bound):
            region = within & np.isin(domains, domains[bound])
            yield region
        elif len(fitting):
            for domain in fitting[:_MOST_REGIONS].tolist():
                yield within & inside & (domains == domain)
        most = limits.most.get(level, len(order))
        yield from self._unions(domains, inside & within, order, most, fitting)
        if level in limits.few and level not in limits.most:
            yield within

    def _unions(
        self, domains: PerNode, rows: NodeMask, order: Rows, most: int, fitting: Rows
    ) -> Iterator[NodeMask]:
        """The domains with most room: two of them, three, and so on."""
        if len(fitting):
            return
        for count in range(2, min(most, _MOST_REGIONS, len(order)) + 1):
            yield rows & np.isin(domains, order[:count])

    def _domains_by_room(
        self, part: GangPart, domains: PerNode, rows: NodeMask
    ) -> tuple[Rows, Rows]:
        """Domains that may have room for all pods, the fullest first; all of them by room."""
        size = int(domains.max(initial=0)) + 1
        share = np.full(size, np.inf)
        for pods in self.classes(part.every_pod):
            room = np.where(rows, self.room.of(self._requests[pods[0].uid]), 0)
            sums = np.bincount(domains, weights=np.minimum(room, len(pods)), minlength=size)
            share = np.minimum(share, sums / len(pods))
        free = np.bincount(
            domains, weights=np.where(rows, self.room.gpus_milli(), 0), minlength=size
        )
        demand = sum(self.room.gpus_of(self._requests[pod.uid]) for pod in part.every_pod)
        enough = np.flatnonzero((share >= 1) & (free >= demand))
        order = np.lexsort((-free, -share))
        return enough[np.argsort(free[enough], kind="stable")], order[share[order] > 0]

    def _value(self, found: Mapping[str, int]) -> tuple[int, int]:
        rows = np.unique(np.array([*found.values()], dtype=np.intp))
        return len(rows), int(self.room.gpus_milli()[rows].sum())

    # -- plans -------------------------------------------------------------------------------

    def _exact(self, rows: dict[str, int]) -> GangPlan:
        order = tuple(pod for pod in self.part.every_pod if pod.uid in rows)
        return GangPlan(order, {uid: self._row_mask(row) for uid, row in rows.items()}, rows)

    def _loose(self, plan: GangPlan) -> GangPlan:
        """The same domains, but any of their nodes."""
        within: dict[str, NodeMask] = {}
        self._domain_masks(self.part, plan, None, within)
        return GangPlan(plan.order, within)

    def _domain_masks(
        self, part: GangPart, plan: GangPlan, outer: NodeMask | None, within: dict[str, NodeMask]
    ) -> None:
        mask = np.ones(self._size, dtype=np.bool_) if outer is None else outer
        chosen = np.array([plan.rows[p.uid] for p in part.every_pod if p.uid in plan.rows])
        for level in limits_of(part.rules, self.tree, self.waited_s).most if len(chosen) else ():
            domains, inside = self.tree.at(level)
            mask = mask & inside & np.isin(domains, domains[chosen])
        for inner in part.parts:
            self._domain_masks(inner, plan, mask, within)
        sets = self._sets(part)
        for pod in part.pods:
            within[pod.uid] = mask
            if sets and pod.uid in plan.rows:
                domains, inside = self.tree.at(sets.level)
                within[pod.uid] = mask & inside & (domains == domains[plan.rows[pod.uid]])

    def _row_mask(self, row: int) -> NodeMask:
        mask = self._masks.get(row)
        if mask is None:
            mask = self._masks[row] = np.zeros(self._size, dtype=np.bool_)
            mask[row] = True
        return mask


def _last(steps: RowSteps) -> dict[str, int] | None:
    """All steps at once."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        found: dict[str, int] | None = end.value
        return found
