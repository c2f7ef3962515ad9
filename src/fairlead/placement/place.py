"""Choosing a node for a pod, or saying why there is none and who could make room."""

from collections.abc import Hashable, Iterable
from dataclasses import replace
from functools import reduce
from operator import index, or_
from typing import Any

import numpy as np

from fairlead.cluster.arrays import NodeMask, NodeScores, PerNode
from fairlead.cluster.aspects import EVERYTHING, Aspect
from fairlead.cluster.claim_outlook import told
from fairlead.cluster.claim_search import CANNOT
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.extended_claims import gets_devices
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.planned_places import NO_PLACE
from fairlead.model.errors import FilterFailed, PluginFault
from fairlead.model.extended import may_be_unoffered
from fairlead.model.goals import GoalCount
from fairlead.model.gpus import GpuRequest, Grant
from fairlead.model.leader_groups import led_group
from fairlead.model.pods import Amounts, Pod, PodRequest
from fairlead.placement.claim_refusals import with_claims
from fairlead.placement.copies import copies, in_large_domains
from fairlead.placement.extended import count_extended, extended_totals
from fairlead.placement.faults import fault_of
from fairlead.placement.gpus import GpuPreference, Occupied, choose, is_free
from fairlead.placement.node_trial import NodeTrial
from fairlead.placement.nominated import (
    NominatedAmounts,
    blocked,
    nominated_against,
    refused_beside,
)
from fairlead.placement.preempt import Preemption, PreemptionOutcome, ineligible
from fairlead.placement.profile import Profile
from fairlead.placement.refusals import RefusalCounts, count_refusals
from fairlead.placement.scope import Scope
from fairlead.placement.verdicts import Placed, PlacementRecord, Refused, Verdict
from fairlead.placement.views import REFUSED, View, Views
from fairlead.plugins.api import GpuScores, Picker, concerns
from fairlead.plugins.claim_step import ClaimStep
from fairlead.plugins.dynamic_resources import DynamicResources
from fairlead.plugins.node_resources_fit import NodeResourcesFit
from fairlead.plugins.prepare import PrepareStep, failure_of

NOWHERE = -1
_COUNTS_ALL = NodeResourcesFit()


class Placement:
    """Answers for pods of one profile. It looks, and changes nothing."""

    def __init__(self, profile: Profile, cluster: Cluster) -> None:
        self.profile = profile
        self._cluster = cluster
        self._everywhere = Scope(cluster)
        self._views = Views(profile, cluster)
        self._chooser = profile.gpu_chooser
        #: Levels of its goals that pods wait for; mostly none.
        self.limited_levels = profile.goals.limited if profile.goals else ()
        rules = [rule for rule in profile.filters if isinstance(rule, DynamicResources)]
        #: Whether claims of gangs may get later alternatives.
        self.tries_later = any(rule.tries_later for rule in rules)
        #: Whether equal devices of claims are chosen by policies.
        self._chooses = any(rule.chooses for rule in rules)

    def view(self, pod: Pod) -> View:
        """The answers shared by all pods that ask for the same."""
        return self._views.of(self.settled_request(pod))

    @property
    def views_kept(self) -> int:
        """How many views are kept at the size that the cluster has now."""
        return self._views.most

    def settled_request(self, pod: Pod) -> PodRequest:
        """The request of the view of the pod."""
        request = self._cluster.map_indices.settled(self.request(pod))
        if not request.claims:
            return request
        return replace(request, claims=self._cluster.claims.settled(request.claims))

    def request(self, pod: Pod) -> PodRequest:
        """What the rules see of the pod; pods with equal requests get equal answers."""
        return self._cluster.request_of(pod, self.profile.pod_keys, self.profile.pod_fields)

    def place(self, pod: Pod, within: NodeMask | None = None, *, evicts: bool = True) -> Verdict:
        """Where the pod goes; among equally good nodes the first, so that a replay agrees.

        `within` limits it, and the pods that are evicted for it, to the rows of a mask. Without
        `evicts` no search for victims is made.
        Raises PluginFault, which names the plugin, its file and its line, if one fails.
        """
        try:
            scope = self._scope(pod, within)
            found = self._found(pod, scope)
            return self._why_not(pod, scope, evicts) if found is None else found
        except Exception as error:
            raise fault_of(error, self.profile) from error

    def find(self, pod: Pod, within: NodeMask | None = None) -> Placed | None:
        """The same, without victims and without the reasons of a refusal. Raises PluginFault."""
        try:
            return self._found(pod, self._scope(pod, within))
        except Exception as error:
            raise fault_of(error, self.profile) from error

    def _scope(self, pod: Pod, within: NodeMask | None) -> Scope:
        """The rows where the pod may be placed."""
        if self._cluster.planned_places:
            within = self._as_planned(pod, within)
        if self._cluster.open_rows is not None:
            within = self._opened(self._everywhere.rows() if within is None else within)
        if self._cluster.counted is not None:
            within = self._counted(pod, within)
        return self._everywhere if within is None else Scope(self._cluster, within)

    def _found(self, pod: Pod, scope: Scope) -> Placed | None:
        terms = pod.request.capacity
        if terms is not None and terms.prefers_spot and (found := self._on_spot(pod, scope)):
            return found
        if pod.request.required_affinity and (found := self._leading(pod, scope)):
            return found
        if self._cluster.columns.devices.services and (found := self._beside_like(pod, scope)):
            return found
        return self._best_of(pod, scope)

    def _best_of(self, pod: Pod, scope: Scope) -> Placed | None:
        view = self.view(pod)
        if view.pre_filter_message:
            return None
        if view.request.claims:
            self._raise_failure(view, pod, scope)
        row = self._nominated_row(view, pod, scope)
        if row != NOWHERE:
            return self._placed(view, row, float(_limited(view, scope, None)[row]), pod)
        totals = self._totals(view, pod, scope)
        row = self._best(view, totals)
        return None if row == NOWHERE else self._placed(view, row, float(totals[row]), pod)

    def _why_not(self, pod: Pod, scope: Scope, evicts: bool) -> Refused:
        view = self.view(pod)
        refused = self._refused(view, pod, scope, evicts)
        return self._with_claims(refused, view, pod, scope) if view.request.claims else refused

    def _on_spot(self, pod: Pod, scope: Scope) -> Placed | None:
        """On spot capacity, if the pod fits there."""
        rows: NodeMask = self._cluster.nodes.spot() & self.view(pod).left & scope.rows()
        return self._best_of(pod, Scope(self._cluster, rows)) if rows.any() else None

    def _leading(self, pod: Pod, scope: Scope) -> Placed | None:
        """In a domain with room for all pods of the group that it leads, if there is one."""
        group = led_group(pod)
        if group is None:
            return None
        room = self.copies(self.view(pod).request, group.pods)
        rows = in_large_domains(room, self._cluster.nodes.domains(group.label), group.pods)
        rows = rows & scope.rows()
        return self._best_of(pod, Scope(self._cluster, rows)) if rows.any() else None

    def _beside_like(self, pod: Pod, scope: Scope) -> Placed | None:
        """On a GPU with pods of its service class, if such pods share GPUs first."""
        ask = self.view(pod).chosen_gpus
        if ask is None or ask.whole or not ask.service:
            return None
        gpus = self._cluster.nodes.gpus
        like = gpus.with_like(ask)
        if not like.any():
            return None
        shared: PerNode = (like & gpus.usable(ask)).sum(axis=1)
        rows: NodeMask = (shared > 0) & self.view(pod).left & scope.rows()
        return self._best_of(pod, Scope(self._cluster, rows)) if rows.any() else None

    def _raise_failure(self, view: View, pod: Pod, scope: Scope) -> None:
        """A filter that fails on a node which the filters before it allow ends the attempt."""
        nodes = self._cluster.nodes
        for place, rule in self.profile.failing_filters.items():
            asked = scope.rows() & view.allowed[:place].all(axis=0)
            failing = np.flatnonzero(rule.failing(view.request, nodes) & asked)
            if len(failing):
                text = rule.failure(self.request(pod), nodes.at(failing[:1]))
                raise FilterFailed(f'running "{rule.name}" filter plugin: {text}')

    def record(self, pod: Pod, placed: Placed) -> PlacementRecord:
        """What counted, before the pod is there and has changed it. Raises as `place` does."""
        try:
            return self._record(pod, placed)
        except Exception as error:
            raise fault_of(error, self.profile) from error

    def _record(self, pod: Pod, placed: Placed) -> PlacementRecord:
        view, node = self.view(pod), self._one(placed.node)
        fit, uses = self.profile.gpu_details, placed.grant.uses if placed.grant else ()
        given = {use.uuid for use in uses}
        gpus = fit.gpus(view.request, node) if fit and given else ()
        return PlacementRecord(
            placed.score,
            view.added(self._cluster.row_of[placed.node]),
            tuple(gpu for gpu in gpus if gpu.uuid in given),
            self.goal_counts(view.request, node),
        )

    def goal_counts(self, request: PodRequest, node: Nodes) -> tuple[GoalCount, ...]:
        """What each goal of the profile counts on the single node given."""
        goals = self.profile.goals
        return tuple(
            GoalCount(goal.name, goal.unit, float(goal.count(request, node)[0]))
            for goal in (goals.all if goals else ())
        )

    def fits(self, pod: Pod) -> bool:
        """Would it be placed now?"""
        view = self.view(pod)
        left = self._opened(view.left)
        if self._cluster.counted is not None:
            counted = self._counted(pod, left)
            left = left if counted is None else counted
        if view.pre_filter_message or not left.any():
            return False
        nominated = nominated_against(pod, self._cluster)
        if nominated is None:
            return True
        refused = blocked(nominated, pod, view, self.profile, self._cluster)
        return refused is None or bool((left & ~refused).any())

    def refused_by(self, pod: Pod) -> Aspect:
        """What would have to change for the pod to fit: all that its refusers read, or more."""
        view, profile = self.view(pod), self.profile
        if profile.picker:
            return EVERYTHING
        if view.left.any():  # nominated pods keep it away, by whichever rule
            return reduce(or_, (rule.reads for rule in profile.filters), Aspect.PRESENCE)
        refusing = np.flatnonzero(~view.allowed.all(axis=1))
        rules = (
            *(rule for rule in profile.pre_filters if concerns(rule, view.request)),
            *profile.pre_filter_results,
            *(profile.filters[i] for i in refusing),
        )
        return reduce(or_, (rule.reads for rule in rules), Aspect.PRESENCE)

    def steps(self, pod: Pod, node: str) -> tuple[PrepareStep, ...]:
        """What must be done before the pod can be bound to the node, in order.

        Raises PluginFault, as `place` does.
        """
        try:
            for rule in self.profile.pre_binds:
                if rule.prepares(pod.request):
                    return self._steps(pod, node)
        except Exception as error:
            raise fault_of(error, self.profile) from error
        return ()

    def _steps(self, pod: Pod, node: str) -> tuple[PrepareStep, ...]:
        request, one, claims = self.request(pod), self._one(node), self._cluster.claims
        rules = (rule for rule in self.profile.pre_binds if rule.prepares(pod.request))
        claims.wanted = self._cluster.planned_places.get(pod.uid, NO_PLACE).devices
        try:
            steps = tuple(step for rule in rules if (step := rule.pre_bind(request, one)))
            chooses = self._chooses and not claims.wanted
            return tuple(self._with_choice(step, node) for step in steps) if chooses else steps
        finally:
            claims.wanted = NO_PLACE.devices

    def _with_choice(self, step: PrepareStep, node: str) -> PrepareStep:
        if not isinstance(step, ClaimStep):
            return step
        from fairlead.placement.device_choice import chosen  # where a profile chooses

        return chosen(step, node, self._cluster)

    def problem_after(self, steps: Iterable[PrepareStep], node: str) -> str:
        """Why the pod cannot run on the node after all, now that the steps are done."""
        one = self._one(node)
        problems = ((step, step.problem(one, node)) for step in steps)
        return next((failure_of(step, problem) for step, problem in problems if problem), "")

    def _one(self, node: str) -> Nodes:
        row = self._cluster.row_of.get(node, 0)
        return Nodes(self._cluster.columns, slice(row, row + 1))

    def could_make_room(self, pod: Pod) -> bool:
        """Would it be refused now, but with others evicted for it?"""
        verdict = self.place(pod)
        return isinstance(verdict, Refused) and verdict.eviction is not None

    def reachable(self, pod: Pod) -> NodeMask:
        """Rows that fit the pod now, or could if pods were evicted there. Raises PluginFault."""
        try:
            view = self.view(pod)
            if view.pre_filter_message:
                return self._cluster.nodes.none()
            found = count_refusals(
                pod, view, self.profile, self._cluster, None, self._everywhere
            )  # fmt: skip
        except Exception as error:
            raise fault_of(error, self.profile) from error
        return self._opened(found.resolvable | view.left)

    def lacks_devices(self, pod: Pod) -> NodeMask:
        """Rows where claims cannot be allocated now, and that could fit if pods were evicted.

        Other filters that no eviction changes allow the pod there. Raises PluginFault.
        """
        nodes = self._cluster.nodes
        try:
            view = self.view(pod)
            if view.pre_filter_message:
                return nodes.none()
            found = nodes.present() & (told(view.request.claims, nodes) == CANNOT)
        except Exception as error:
            raise fault_of(error, self.profile) from error
        for place, rule in enumerate(self.profile.filters):
            if not rule.resolvable and not isinstance(rule, DynamicResources):
                found &= view.allowed[place]
        return self._opened(found)

    def _opened(self, rows: NodeMask) -> NodeMask:
        """Those of the rows that pods may be placed on just now."""
        open_rows = self._cluster.open_rows
        found: NodeMask = rows if open_rows is None else rows & open_rows
        return found

    def _as_planned(self, pod: Pod, rows: NodeMask | None) -> NodeMask | None:
        """The row that was planned for the pod, if any was."""
        place = self._cluster.planned_places.get(pod.uid)
        if place is None:
            return rows
        found = self._cluster.nodes.named([place.node])
        return found if rows is None else rows & found

    def _counted(self, pod: Pod, rows: NodeMask | None) -> NodeMask | None:
        """Those of the rows where enough is left of the counted resources of the pod."""
        books = self._cluster.counted
        found = books.rows(pod) if books is not None and books.concerns(pod) else None
        if found is None:
            return rows
        both: NodeMask = found if rows is None else found & rows
        return both

    def amounts(self, request: PodRequest) -> Amounts:
        """The resources of the request that must be free on a node."""
        rules = self.profile.filters
        fit = next((rule for rule in rules if isinstance(rule, NodeResourcesFit)), _COUNTS_ALL)
        return tuple(
            (name, n)
            for name, n in request.resources
            if n > 0 and not fit.ignores(name) and not may_be_unoffered(request.claims, name)
        )

    def most_copies(self, request: PodRequest, most: int) -> int:
        """How many pods with the request could have nodes, up to `most`; there may be fewer."""
        return int(self.copies(request, most).sum())

    def copies(self, request: PodRequest, most: int) -> PerNode:
        """The same for each row."""
        found = copies(self._views.of(request), self.amounts(request), self._cluster, most)
        open_rows = self._cluster.open_rows
        return found if open_rows is None else np.where(open_rows, found, 0)

    def totals(self, pod: Pod) -> NodeScores:
        """Each node's total for this very pod, `REFUSED` where it cannot go."""
        return self._totals(self.view(pod), pod, self._everywhere)

    def _placed(self, view: View, row: int, score: float, pod: Pod) -> Placed:
        node = self._cluster.node_at(row).name
        if not self.asked_gpus(view) or self._gets_devices(view, row):
            return Placed(node, score)
        grant = self.grant(view, row, pod)
        if grant is None:
            ask = view.request.gpu_request
            raise PluginFault(f"{node} passed every filter, but has no GPUs for {ask}")
        return Placed(node, score, grant)

    def asked_gpus(self, view: View) -> GpuRequest | None:
        """What the request asks of GPUs, if it is for this profile to choose them."""
        return view.chosen_gpus

    def grant(self, view: View, row: int, pod: Pod) -> Grant | None:
        """The GPUs that the pod would get there; none if it asks for none, or there are none."""
        ask = self.asked_gpus(view)
        if ask is None or self._gets_devices(view, row):
            return None
        if not self._cluster.nominations.against(pod, self._cluster.node_at(row).name):
            return self._planned(pod, ask, row) or self._chosen(view, ask, row)
        now = Occupied.of(self._cluster.columns.devices, row)
        with self._cluster.draft(row) as draft:  # not the GPUs that others wait for
            NodeTrial(pod, view, self.profile, self._cluster).expect(row, draft)
            return self._planned(pod, ask, row) or self._chosen(view, ask, row, now)

    def _planned(self, pod: Pod, ask: GpuRequest, row: int) -> Grant | None:
        """The GPUs that were planned for the pod, if they are free."""
        if not self._cluster.planned_places:
            return None
        planned = self._cluster.planned_places.get(pod.uid, NO_PLACE).grant
        free = planned and is_free(planned, ask, self._cluster.columns.devices, row)
        return planned if free else None

    def _gets_devices(self, view: View, row: int) -> bool:
        """Whether a claim chooses the GPUs."""
        node = self._cluster.columns.nodes[row]
        return view.gets_devices and gets_devices(view.request.claims, node)

    def _chosen(
        self, view: View, ask: GpuRequest, row: int, now: Occupied | None = None
    ) -> Grant | None:
        preference = self.profile.gpus if ask.whole else self._preference(view, row)
        return choose(ask, self._cluster.columns.devices, row, preference, now)

    def _preference(self, view: View, row: int) -> GpuPreference:
        """How shares find their GPU on the node."""
        if self._chooser is None:
            return self.profile.gpus
        node = Nodes(self._cluster.columns, slice(row, row + 1))
        rated: GpuScores = self._chooser.rate_gpus(view.request, node)
        preference: list[float] = np.asarray(rated[0]).tolist()
        return preference

    # -- choosing ----------------------------------------------------------------------------

    def _nominated_row(self, view: View, pod: Pod, scope: Scope) -> int:
        """The nominated node of the pod, if it fits there now."""
        row = scope.nominated_row(pod)
        if row is None or not view.total[row] > REFUSED:
            return NOWHERE
        if self._cluster.extended is not None and not self._cluster.extended.rows[row]:
            return NOWHERE
        trial = NodeTrial(pod, view, self.profile, self._cluster)
        return NOWHERE if refused_beside(row, trial, self._cluster) else row

    def _totals(self, view: View, pod: Pod, scope: Scope) -> NodeScores:
        nominated, refused = nominated_against(pod, self._cluster), None
        if nominated is not None:
            refused = blocked(nominated, pod, view, self.profile, self._cluster)
        totals = _limited(view, scope, refused)
        extended = self._cluster.extended
        return totals if extended is None else extended_totals(totals, extended)

    def _best(self, view: View, totals: NodeScores) -> int:
        if self.profile.picker:
            return _picked(self.profile.picker, view.request, totals, self._cluster)
        if not len(totals):
            return NOWHERE
        row = int(totals.argmax())
        return row if totals[row] > REFUSED else NOWHERE

    # -- refusing ----------------------------------------------------------------------------

    def _refused(self, view: View, pod: Pod, scope: Scope, evicts: bool) -> Refused:
        if view.pre_filter_message:
            return _refused_before_filters(view, self.profile, len(scope))
        nominated = nominated_against(pod, self._cluster)
        key, answers = self._circumstances(pod), self._answers(view, scope)
        found: RefusalCounts | None = answers.get(key)
        if found is None:
            found = count_refusals(pod, view, self.profile, self._cluster, nominated, scope)
            count_extended(found, scope.rows() & view.left, pod, self._cluster)
            answers[key] = found
        if not evicts:
            return self._refusal(len(scope), found, None)
        return self._make_room(found, view, pod, nominated, scope)

    def _with_claims(self, refused: Refused, view: View, pod: Pod, scope: Scope) -> Refused:
        filters = self.profile.filters
        at = next((i for i, rule in enumerate(filters) if isinstance(rule, DynamicResources)), None)
        if at is None:
            return refused
        return with_claims(refused, pod, view, at, self._cluster, scope)

    def _answers(self, view: View, scope: Scope) -> dict[Hashable, Any]:
        """Where refusals are kept for pods with the same request."""
        return view.answers if scope.whole and self._cluster.extended is None else {}

    def _circumstances(self, pod: Pod) -> tuple[Hashable, int, str]:
        """What a refusal depends on, besides the request and the state of the cluster."""
        nominations, key = self._cluster.nominations, self._cluster.eviction_rule.key(pod)
        return key, nominations.version, nominations.node_of(pod.uid) and pod.uid

    def _make_room(
        self,
        found: RefusalCounts,
        view: View,
        pod: Pod,
        nominated: NominatedAmounts | None,
        scope: Scope,
    ) -> Refused:
        nodes = len(scope)
        if not nodes:
            return self._refusal(nodes, found, None, nomination="")
        if not self.profile.preempts:
            return self._refusal(nodes, found, None)
        row = scope.nominated_row(pod)
        resolvable = row is not None and bool(found.resolvable[row])
        if why := ineligible(pod, self._cluster, row if resolvable else None):
            return self._refusal(nodes, found, why)
        outcome = self._eviction(found, view, pod, nominated, scope)
        if outcome.eviction is None:
            return self._refusal(nodes, found, outcome.message(nodes), outcome, nomination="")
        return self._refusal(nodes, found, None, outcome, nomination=outcome.eviction.node)

    def _eviction(
        self,
        found: RefusalCounts,
        view: View,
        pod: Pod,
        nominated: NominatedAmounts | None,
        scope: Scope,
    ) -> PreemptionOutcome:
        key, answers = ("eviction", self._circumstances(pod)), self._answers(view, scope)
        outcome: PreemptionOutcome | None = answers.get(key)
        if outcome is None:
            search = Preemption(
                pod, view, self.profile, self._cluster, nominated, goes_on=scope.whole
            )
            outcome = search.search(found.resolvable)
            if outcome.eviction is None and not outcome.cut_short:
                answers[key] = outcome  # else who is evicted may change with a budget or start
        return outcome

    def _refusal(
        self,
        nodes: int,
        found: RefusalCounts,
        no_eviction: str | None,
        outcome: PreemptionOutcome | None = None,
        nomination: str | None = None,
    ) -> Refused:
        return Refused(
            nodes=nodes,
            reasons=tuple(sorted((text, n) for text, n in found.counts.items() if n)),
            refusers=tuple(found.refusers),
            woken_by=found.woken_by,
            no_eviction=no_eviction,
            eviction=outcome.eviction if outcome else None,
            unfinished=outcome is not None and outcome.cut_short,
            nomination=nomination,
            nearest=found.nearest,
            behaviour=self._cluster.behaviour,
        )


def _limited(view: View, scope: Scope, refused: NodeMask | None) -> NodeScores:
    """The totals of the view without the nodes that are refused, and those outside the scope."""
    refused = scope.refusing(refused)
    return view.total if refused is None else view.without(refused)


def _refused_before_filters(view: View, profile: Profile, nodes: int) -> Refused:
    rules = [rule for rule in profile.pre_filters if concerns(rule, view.request)]
    woken_by = reduce(or_, (rule.reads for rule in rules), Aspect.PRESENCE)
    return Refused(
        nodes,
        (),
        tuple(rule.name for rule in rules),
        woken_by,
        pre_filter_message=view.pre_filter_message,
    )


def _picked(picker: Picker, request: PodRequest, totals: NodeScores, cluster: Cluster) -> int:
    rows = np.flatnonzero(totals > REFUSED)
    if not len(rows):
        return NOWHERE
    position = picker.pick(request, Nodes(cluster.columns, rows), totals[rows])
    if position == NOWHERE:
        return NOWHERE
    if not 0 <= index(position) < len(rows):
        last = len(rows) - 1
        raise PluginFault(f"pick() returned {position}; return a position from 0 to {last}, or -1")
    return int(rows[position])
