"""What the filters would answer for one node if other pods were there.

A draft (`Cluster.draft`) changes only which pods are on the node, so only rules that read pods are
called again; the results of the others are in the view. Rules are named by their index in the
profile.
"""

from collections.abc import Callable, Iterable

from fairlead.cluster.cluster import Cluster
from fairlead.cluster.draft import Draft
from fairlead.cluster.holdings import Holding
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import Grant
from fairlead.model.pods import Pod
from fairlead.placement.gpus import Occupied, choose
from fairlead.placement.profile import Profile
from fairlead.placement.views import View
from fairlead.plugins.api import (
    NO_FITTING_GPU,
    DetailedFilter,
    DetailedGpuFilter,
    Filter,
    FilterTrial,
    GpuDetail,
    Reason,
    concerns,
    nearest_of,
    reasons_of,
)

NO_RULE = -1


class NodeTrial:
    """One pod's request against one profile; the cluster is as the draft under way has it."""

    def __init__(self, pod: Pod, view: View, profile: Profile, cluster: Cluster) -> None:
        self._pod = pod
        self._view = view
        self._profile = profile
        self._cluster = cluster
        request, nodes = view.request, cluster.nodes
        #: Rules that look at pods and have something to say about this request.
        self._asked = {
            index
            for index in profile.about_pods
            if (
                profile.cluster_filters[index].applies(request, nodes)
                if index in profile.cluster_filters
                else concerns(profile.filters[index], request)
            )
        }
        self._drafted = self._asked & (profile.by_pods | profile.cluster_filters.keys())
        #: Rules that look around, as all pods are where they are; and what they ask of one row.
        self._trials: dict[int, FilterTrial] = {
            index: profile.eviction_forecasts[index].trial(request, nodes)
            for index in self._asked & profile.eviction_forecasts.keys()
        }
        self._lasting: dict[int, list[Reason]] = {}
        self._in_order = sorted(self._asked)
        self._questions: dict[int, Callable[[], bool]] = {}
        self._at = NO_RULE

    @property
    def needs_draft(self) -> bool:
        """Does any rule speak that sees more than how much is taken on the node?"""
        return bool(self._drafted)

    def needs_draft_for(self, index: int) -> bool:
        return index in self._drafted

    def refuser(self, row: int, draft: Draft) -> int:
        """The first rule that refuses the row with its nominated pods there, or without."""
        nominated = self.expect(row, draft)
        refuser = self.first(row)
        for held in nominated:
            draft.take(held)
        if refuser == NO_RULE and nominated and self.needs_draft:
            return self.first(row)
        return refuser

    def refuses(self, row: int, draft: Draft) -> bool:
        """Does any rule that looks at pods refuse the row? What others said was asked before."""
        nominated = self.expect(row, draft)
        refused = self._refuses(row)
        for held in nominated:
            draft.take(held)
        return refused or (bool(nominated) and self.needs_draft and self._refuses(row))

    def _refuses(self, row: int) -> bool:
        rules = self._profile.filters
        return not all(self._allows(index, rules[index], row) for index in self._in_order)

    def names(self, index: int) -> set[str]:
        """The rule's name, if there is a rule."""
        return set() if index == NO_RULE else {self._profile.filters[index].name}

    def refusal_texts(self, row: int, draft: Draft) -> list[str]:
        """The texts of that refusal; nothing if no rule refuses."""
        nominated = self.expect(row, draft)
        texts = self._first_refusal(row)
        for held in nominated:
            draft.take(held)
        asks_for_gpus = self._view.request.gpu_request is not None
        return texts or self._first_refusal(row) or [NO_FITTING_GPU] * asks_for_gpus

    def _first_refusal(self, row: int) -> list[str]:
        refuser = self.first(row)
        return [] if refuser == NO_RULE else self.reasons(refuser, row)[0]

    def first(self, row: int) -> int:
        """The first rule that refuses the row as it is now."""
        for index, rule in enumerate(self._profile.filters):
            if index in self._asked:
                if not self._allows(index, rule, row):
                    return index
            elif index not in self._profile.about_pods and not self._view.allowed[index, row]:
                return index
        return NO_RULE

    def _allows(self, index: int, rule: Filter, row: int) -> bool:
        if index in self._trials:
            return self._question(index, row)()
        nodes, position = self._seen_by(index, row)
        return bool(rule.allows(self._view.request, nodes)[position])

    def _question(self, index: int, row: int) -> Callable[[], bool]:
        if row != self._at:
            self._at = row
            node = self._cluster.node_at(row).name
            pods = self._cluster.pods_on(node)
            pods += self._cluster.nominations.against(self._pod, node)
            self._questions = {at: trial.at(row, pods) for at, trial in self._trials.items()}
        return self._questions[index]

    def expect(self, row: int, draft: Draft) -> list[Holding]:
        """Adds the nominated pods that this pod must leave room for."""
        node = self._cluster.node_at(row).name
        nominated = self._cluster.nominations.against(self._pod, node)
        expected = []
        for pod in sorted(nominated, key=lambda pod: -pod.priority):
            grant = self._expected_grant(pod, row, draft)
            expected.append(Holding.of(pod, node, assumed=True, grant=grant))
            draft.add(expected[-1])
        return expected

    def has_gpus(self, row: int, now: Occupied) -> bool:
        """Whether the pod would get GPUs beside those who are expected, and as things are `now`."""
        ask = self._view.chosen_gpus
        if ask is None:
            return True
        devices = self._cluster.columns.devices
        return choose(ask, devices, row, self._profile.gpus, now) is not None

    def _expected_grant(self, pod: Pod, row: int, draft: Draft) -> Grant | None:
        """The GPUs that a pod will get there: free ones, or those of pods that make room."""
        ask = self._profile.chosen_gpus(self._cluster.request_of(pod).gpu_request)
        if ask is None:
            return None
        node = self._cluster.node_at(row).name
        evictable = self._cluster.evictable_on(pod, node)
        evictable = [h for h in evictable if h.grant and h.pod.uid not in draft.away]
        leaving = [h for h in evictable if h.pod.deleting]
        for gone in ([], leaving, evictable):
            for held in gone:
                draft.take(held)
            grant = choose(ask, self._cluster.columns.devices, row, self._profile.gpus)
            for held in gone:
                draft.add(held)
            if grant is not None:
                return grant
        return None

    def reasons(self, index: int, row: int) -> tuple[list[str], bool]:
        """What the rule says against the row, and whether evicting pods could help."""
        nodes, position = self._seen_by(index, row)
        found = [reason for reason in self._reasons_for(index, nodes) if reason.where[position]]
        return [r.text for r in found], any(r.resolvable[position] for r in found)

    def _reasons_for(self, index: int, nodes: Nodes) -> Iterable[Reason]:
        """What a rule answers for all nodes, whatever pods are there, is asked once."""
        if index not in self._profile.cluster_filters or index in self._profile.about_pods:
            return reasons_of(self._profile.filters[index], self._view.request, nodes)
        if index not in self._lasting:
            rule = self._profile.filters[index]
            self._lasting[index] = list(reasons_of(rule, self._view.request, nodes))
        return self._lasting[index]

    def detail(self, index: int, row: int) -> str:
        """Numbers to the refusal, where the rule has some."""
        rule = self._profile.filters[index]
        node = Nodes(self._cluster.columns, slice(row, row + 1))
        return rule.detail(self._view.request, node) if isinstance(rule, DetailedFilter) else ""

    def gpus(self, index: int, row: int) -> tuple[GpuDetail, ...]:
        """The same GPU by GPU, where the rule looks at GPUs."""
        rule = self._profile.filters[index]
        node = Nodes(self._cluster.columns, slice(row, row + 1))
        return rule.gpus(self._view.request, node) if isinstance(rule, DetailedGpuFilter) else ()

    def nearest(self, index: int, row: int) -> str:
        """How near the row came, where the rule looks at GPUs."""
        node = Nodes(self._cluster.columns, slice(row, row + 1))
        return nearest_of(self._profile.filters[index], self._view.request, node)

    def _seen_by(self, index: int, row: int) -> tuple[Nodes, int]:
        if index in self._profile.cluster_filters:
            return self._cluster.nodes, row
        return Nodes(self._cluster.columns, slice(row, row + 1)), 0
