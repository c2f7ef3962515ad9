"""A cluster in memory for tests of plugins: nodes, pods, a profile, and verdicts on pods."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random

from fairlead.apps.config.profiles import built_in
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.nodes import Node
from fairlead.model.pods import Pod
from fairlead.placement.explain import explain
from fairlead.placement.place import Placement
from fairlead.placement.profile import Profile
from fairlead.placement.verdicts import Placed, Verdict
from fairlead.plugins.api import AnyScore, Filter, Picker
from fairlead.testing.builders import SCHEDULER
from fairlead.testing.drawn import draw_cluster


class TestCluster:
    """A cluster in memory that places pods with a built-in profile and the plugins under test.

    `pods` are on the nodes that they name. `filters` are added to those of the profile, `scores`
    replace its scores (all with the same weight), and a `picker` makes the final choice.
    """

    __test__ = False  # pytest: this is not a test

    def __init__(
        self,
        *nodes: Node,
        pods: Iterable[Pod] = (),
        profile: str = SCHEDULER,
        filters: Iterable[Filter] = (),
        scores: Iterable[AnyScore] = (),
        picker: Picker | None = None,
    ) -> None:
        self._cluster = Cluster()
        self._profile = _profile_with(built_in(profile), filters, scores, picker)
        self.add(*nodes)
        for pod in pods:
            self._cluster.confirm(pod)

    @classmethod
    def drawn(
        cls,
        seed: int,
        *,
        profile: str = SCHEDULER,
        filters: Iterable[Filter] = (),
        scores: Iterable[AnyScore] = (),
        picker: Picker | None = None,
    ) -> "TestCluster":
        """One of the clusters of `check_plugin`, with whole GPUs, shares, taints and volumes."""
        drawn = cls(profile=profile, filters=filters, scores=scores, picker=picker)
        drawn._cluster = draw_cluster(Random(seed)).build()
        return drawn

    def add(self, *nodes: Node) -> None:
        """Adds nodes, or replaces those of the same name."""
        for node in nodes:
            self._cluster.put_node(node)

    def remove(self, pod: Pod) -> None:
        """The pod ends; what it had is free again."""
        self._cluster.remove(pod.uid)

    @property
    def nodes(self) -> Nodes:
        """What plugins are given."""
        return self._cluster.nodes

    def place(self, pod: Pod) -> Verdict:
        """`Placed` or `Refused`. A placed pod stays on its node.

        Raises PluginFault if a plugin fails; the message names its file and line.
        """
        verdict = self._placement().place(pod)
        if isinstance(verdict, Placed):
            self._cluster.assume(pod, verdict.node, verdict.grant)
        return verdict

    def reasons(self, pod: Pod) -> Mapping[str, tuple[str, ...]]:
        """By node, why the pod does not fit there; empty where it does. Places nothing."""
        found = explain(self._placement(), self._cluster, pod)
        return {answer.node: answer.reasons for answer in found.nodes}

    def totals(self, pod: Pod) -> Mapping[str, float]:
        """The weighted sum of scores by node, for nodes where the pod fits. Places nothing."""
        found = explain(self._placement(), self._cluster, pod)
        return {each.node: each.score for each in found.nodes if each.score is not None}

    def _placement(self) -> Placement:
        return Placement(self._profile, self._cluster)


def _profile_with(
    profile: Profile,
    filters: Iterable[Filter],
    scores: Iterable[AnyScore],
    picker: Picker | None,
) -> Profile:
    weighted = tuple((score, 1.0) for score in scores) or profile.scores
    return replace(
        profile, filters=(*profile.filters, *filters), scores=weighted, picker=picker
    )  # fmt: skip
