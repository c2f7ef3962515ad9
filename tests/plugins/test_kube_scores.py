"""kube-scheduler's scores: cases worked out by hand, and a slow copy of each as a judge."""

import random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slow_scores as slow
from builders import a_node, a_pod, a_taint, pod_term, selects
from examples import examples
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.default_selectors import DefaultSelectors
from fairlead.model.nodes import GPU, Image
from fairlead.model.pods import NodeTerm, Pod, PodField, PreferredTerm, Toleration
from fairlead.model.selectors import LabelSelector, PodTerm, Requirement, SpreadRule
from fairlead.plugins.allocation import LeastAllocated, MostAllocated, RequestedToCapacityRatio
from fairlead.plugins.api import RelativeScore
from fairlead.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from fairlead.plugins.image_locality import ImageLocality
from fairlead.plugins.inter_pod_affinity import InterPodAffinity
from fairlead.plugins.node_affinity import AddedAffinity, NodeAffinity
from fairlead.plugins.pod_topology_spread import DefaultConstraint, PodTopologySpread
from fairlead.plugins.shapes import ShapePoint
from fairlead.plugins.taint_toleration import TaintToleration
from fairlead.testing.drawn import random_node, random_pod

GIB, MIB = 1 << 30, 1 << 20
HOST = "kubernetes.io/hostname"
ALL_FIELDS = PodField.IMAGES | PodField.PREFERRED_AFFINITY | PodField.DEFAULT_SELECTOR


def scores(plugin, cluster: Cluster, pod: Pod, left: set[str] | None = None) -> dict[str, float]:
    """As a view asks."""
    nodes = cluster.nodes
    request = cluster.request_of(pod, (), ALL_FIELDS)
    mask = nodes.present() if left is None else nodes.named(left)
    if isinstance(plugin, RelativeScore):
        applies_as_score = plugin.applies_as_score(request, nodes)
        found = plugin.rank(request, nodes, mask) if applies_as_score else np.zeros(len(nodes))
    else:
        found = plugin.rate(request, nodes)
    return {name: float(found[row]) for name, row in cluster.row_of.items() if mask[row]}


def a_cluster(*nodes, pods: tuple[Pod, ...] = ()) -> Cluster:
    cluster = Cluster()
    for node in nodes:
        cluster.put_node(node)
    for pod in pods:
        cluster.confirm(pod)
    return cluster


def prefers(weight: int, key: str, *values: str) -> PreferredTerm:
    return PreferredTerm(weight, NodeTerm((Requirement(key, "In", values),)))


def soft(*keys: str):
    return tuple(a_taint(key, effect="PreferNoSchedule") for key in keys)


# -- by hand -------------------------------------------------------------------------------------


class TestTaints:
    cluster = a_cluster(
        a_node("a", taints=soft("x", "y", "z")), a_node("b", taints=soft("x")), a_node("c")
    )

    def test_the_fewer_the_better(self) -> None:
        # 3, 1 and 0 taints: 100 - 100*3/3, 100 - 100*1/3 (= 33), 100
        assert scores(TaintToleration(), self.cluster, a_pod()) == {"a": 0, "b": 67, "c": 100}

    def test_among_those_left_only(self) -> None:
        assert scores(TaintToleration(), self.cluster, a_pod(), {"b", "c"}) == {"b": 0, "c": 100}

    def test_what_is_tolerated_does_not_count(self) -> None:
        some = a_pod(tolerations=(Toleration("x", "Exists"), Toleration("y", "Exists")))
        assert scores(TaintToleration(), self.cluster, some) == {"a": 0, "b": 100, "c": 100}
        wrong = Toleration("x", "Exists", effect="NoSchedule")
        assert scores(TaintToleration(), self.cluster, a_pod(tolerations=(wrong,)))["b"] == 67


class TestNodeAffinity:
    cluster = a_cluster(
        a_node("a", labels={"disk": "ssd"}),
        a_node("b", labels={"disk": "ssd", "rack": "1"}),
        a_node("c"),
    )

    def test_weights_add_up(self) -> None:
        pod = a_pod(preferred=(prefers(10, "disk", "ssd"), prefers(20, "rack", "1")))
        assert scores(NodeAffinity(), self.cluster, pod) == {"a": 33, "b": 100, "c": 0}

    def test_terms_without_sense_count_for_nothing(self) -> None:
        bad = (
            PreferredTerm(50, NodeTerm()),
            PreferredTerm(50, NodeTerm((Requirement("disk", "Near", ("ssd",)),))),
            PreferredTerm(50, NodeTerm((Requirement("disk", "Gt", ("x",)),))),
            PreferredTerm(0, NodeTerm((Requirement("rack", "Exists"),))),
        )
        pod = a_pod(preferred=(*bad, prefers(1, "disk", "ssd")))
        assert scores(NodeAffinity(), self.cluster, pod) == {"a": 100, "b": 100, "c": 0}

    def test_the_profile_adds_its_own(self) -> None:
        added = NodeAffinity(AddedAffinity(preferred=(prefers(1, "rack", "1"),)))
        assert scores(added, self.cluster, a_pod()) == {"a": 0, "b": 100, "c": 0}
        pod = a_pod(preferred=(prefers(1, "disk", "ssd"),))
        assert scores(added, self.cluster, pod) == {"a": 50, "b": 100, "c": 0}

    def test_what_the_profile_requires_is_refused_in_other_words(self) -> None:
        rule = NodeAffinity(AddedAffinity((NodeTerm((Requirement("rack", "Exists"),)),)))
        pod = a_pod(node_selector=(("disk", "hdd"),))
        told = {r.text: r.where.tolist() for r in rule.reasons(pod.request, self.cluster.nodes)}
        assert told == {
            "node(s) didn't match scheduler-enforced node affinity": [True, False, True],
            "node(s) didn't match Pod's node affinity/selector": [False, True, False],
        }

    @pytest.mark.parametrize(
        "line",
        [
            Requirement("a", "In"),
            Requirement("a", "Exists", ("x",)),
            Requirement("a", "Gt", ("x",)),
            Requirement("a", "Near", ("x",)),
        ],
        ids=lambda line: line.operator,
    )
    def test_what_the_profile_adds_must_make_sense(self, line: Requirement) -> None:
        with pytest.raises(ValueError, match=f"added_affinity: a: {line.operator}"):
            AddedAffinity((NodeTerm((line,)),))


def named(*values: str) -> Requirement:
    return Requirement("metadata.name", "In", values)


@pytest.mark.parametrize(
    ("terms", "only", "message"),
    [
        pytest.param(None, None, "", id="no terms"),
        pytest.param((), None, "", id="an empty list of terms"),
        pytest.param((NodeTerm(fields=(named("a"),)),), {"a"}, "", id="one name"),
        pytest.param(
            (NodeTerm(fields=(named("a"),)), NodeTerm(fields=(named("b"),))),
            {"a", "b"}, "", id="one or the other",
        ),
        pytest.param(
            (NodeTerm(fields=(named("a"),)), NodeTerm((Requirement("x", "Exists"),))),
            None, "", id="a term that names nobody leaves all",
        ),
        pytest.param(
            (NodeTerm(fields=(named("a"), named("b"))),),
            None, "pod affinity terms conflict", id="two names at once",
        ),
        pytest.param(
            (NodeTerm(fields=(named("a"), named("b"))), NodeTerm(fields=(named("c"),))),
            {"c"}, "", id="a conflict beside a good term",
        ),
    ],
)  # fmt: skip
def test_node_affinity_knows_the_only_nodes_in_question(terms, only, message: str) -> None:
    cluster = a_cluster(a_node("a"), a_node("b"), a_node("c"))
    request, nodes = a_pod(node_terms=terms).request, cluster.nodes
    mask = NodeAffinity().pre_filter_result(request, nodes)
    found = None if mask is None else {n for n, row in cluster.row_of.items() if mask[row]}
    assert (found, NodeAffinity().pre_filter(request, nodes)) == (only, message)


class TestBalance:
    def cluster(self, **used: tuple[int, int]) -> Cluster:
        """Nodes with 10 cores and 10 GiB, of which so many are used."""
        nodes = [a_node(name, resources={"cpu": 10_000, "memory": 10 * GIB}) for name in used]
        pods = [
            a_pod(f"on-{name}", node=name, cpu=cpu * 1000, resources={"memory": memory * GIB})
            for name, (cpu, memory) in used.items()
        ]
        return a_cluster(*nodes, pods=tuple(pods))

    def test_what_evens_out_is_best(self) -> None:
        pod = a_pod(cpu=1000, resources={"memory": 3 * GIB})
        # a: 0.2/0.2 → 0.3/0.5, from 100 to 90: 50 + 40/2. b: 0.4/0 → 0.5/0.3, from 80 to 90.
        cluster = self.cluster(a=(2, 2), b=(4, 0))
        assert scores(NodeResourcesBalancedAllocation(), cluster, pod) == {"a": 70, "b": 80}

    def test_a_pod_that_asks_for_neither_is_no_reason(self) -> None:
        cluster = self.cluster(a=(2, 2), b=(4, 0))
        pod = a_pod(gpus=1)
        assert scores(NodeResourcesBalancedAllocation(), cluster, pod) == {"a": 0, "b": 0}

    def test_three_resources(self) -> None:
        # before 0/0/0: 100. After 0.1/0/0.5: mean 0.2, variance (0.01+0.04+0.09)/3 → 0.216
        plugin = NodeResourcesBalancedAllocation({"cpu": 1, "memory": 1, GPU: 1})
        cluster = self.cluster(a=(0, 0))
        assert scores(plugin, cluster, a_pod(cpu=1000, gpus=4)) == {"a": 50 + (50 + 78 - 100) // 2}


class TestShape:
    def rate(self, used: int, shape: tuple[tuple[int, int], ...]) -> float:
        node = a_node("a", resources={"cpu": 100})
        plugin = RequestedToCapacityRatio({"cpu": 1}, tuple(ShapePoint(x, y) for x, y in shape))
        return scores(plugin, a_cluster(node), a_pod(scored=(used, 0)))["a"]

    @pytest.mark.parametrize(
        ("used", "expected"), [(0, 0), (29, 29), (30, 30), (100, 100), (150, 100)]
    )
    def test_fuller_is_better_by_default(self, used: int, expected: int) -> None:
        assert self.rate(used, ((0, 0), (100, 10))) == expected

    @pytest.mark.parametrize(
        ("used", "expected"),
        # falling from 100 to 30 over 7 percent: 100 - 70*3/7 = 70, 100 - 70*1/7 = 90
        [(5, 100), (10, 100), (11, 90), (13, 70), (17, 30), (99, 30)],
    )
    def test_beyond_the_corners_the_line_is_flat(self, used: int, expected: int) -> None:
        assert self.rate(used, ((10, 10), (17, 3))) == expected

    def test_between_corners_it_is_cut_towards_the_first(self) -> None:
        # from 100 to 90 over 3 percent: 100 - 10/3 = 96.67, and not 96
        assert self.rate(1, ((0, 10), (3, 9))) == 97

    def test_resources_that_score_nothing_do_not_count(self) -> None:
        node = a_node("a", resources={"cpu": 100, "memory": 100})
        plugin = RequestedToCapacityRatio()
        assert scores(plugin, a_cluster(node), a_pod(scored=(50, 0))) == {"a": 50}
        assert scores(plugin, a_cluster(node), a_pod(scored=(50, 25))) == {"a": 38}  # 37.5

    @pytest.mark.parametrize("shape", [(), ((0, 11),), ((5, 1), (5, 2)), ((-1, 0),), ((101, 0),)])
    def test_a_shape_must_make_sense(self, shape) -> None:
        with pytest.raises(ValueError, match="shape: "):
            RequestedToCapacityRatio(shape=tuple(ShapePoint(x, y) for x, y in shape))


def test_ephemeral_storage_counts_even_for_pods_that_ask_for_none() -> None:
    cluster = a_cluster(
        a_node("a", resources={"ephemeral-storage": 100, "pods": 10}),
        pods=(a_pod(node="a", resources={"ephemeral-storage": 40}),),
    )
    # pods are no resource here: kube-scheduler knows nothing of them when it scores
    plugin = LeastAllocated({"ephemeral-storage": 1, "pods": 1})
    assert scores(plugin, cluster, a_pod()) == {"a": 60}


@pytest.mark.parametrize("weights", [{}, {"cpu": 0}, {"cpu": 101}])
def test_weights_of_resources_must_make_sense(weights) -> None:
    with pytest.raises(ValueError, match="resources: "):
        LeastAllocated(weights)


WEB = {"app": "web"}
ABOUT_WEB = pod_term("zone", **WEB)


def zones(*pods: Pod) -> Cluster:
    labels = {"a": {"zone": "1", HOST: "a"}, "b": {"zone": "2", HOST: "b"}, "c": {HOST: "c"}}
    return a_cluster(*(a_node(name, labels=found) for name, found in labels.items()), pods=pods)


class TestPreferredAffinity:
    def test_its_own(self) -> None:
        cluster = zones(*(a_pod(f"w{i}", node=n, labels=WEB) for i, n in enumerate("aab")))
        assert scores(InterPodAffinity(), cluster, a_pod(preferred_affinity=((ABOUT_WEB, 5),))) == {
            "a": 100, "b": 50, "c": 0,
        }  # fmt: skip
        averse = a_pod(preferred_affinity=((ABOUT_WEB, -5),))
        assert scores(InterPodAffinity(), cluster, averse) == {
            "a": 0, "b": 50, "c": 100,
        }  # fmt: skip

    def test_those_of_others_until_they_go(self) -> None:
        fan = a_pod("fan", node="b", preferred_affinity=((ABOUT_WEB, 5),))
        cluster = zones(fan, a_pod("shy", node="a", preferred_affinity=((ABOUT_WEB, -5),)))
        web = a_pod(labels=WEB)
        assert scores(InterPodAffinity(), cluster, web) == {"a": 0, "b": 100, "c": 50}
        assert scores(InterPodAffinity(), cluster, a_pod(labels={"app": "db"}))["b"] == 0
        cluster.remove(fan.uid)
        assert scores(InterPodAffinity(), cluster, web) == {"a": 0, "b": 100, "c": 100}

    def test_others_needs_count_by_the_option(self) -> None:
        cluster = zones(
            a_pod("needs", node="a", required_affinity=(ABOUT_WEB,)),
            a_pod("fan", node="b", preferred_affinity=((ABOUT_WEB, 4),)),
        )
        web = a_pod(labels=WEB)
        assert scores(InterPodAffinity(), cluster, web) == {"a": 25, "b": 100, "c": 0}
        assert scores(InterPodAffinity(8), cluster, web) == {"a": 100, "b": 50, "c": 0}
        assert scores(InterPodAffinity(0), cluster, web) == {"a": 0, "b": 100, "c": 0}

    def test_others_wishes_can_be_left_out_for_pods_without_any(self) -> None:
        plugin = InterPodAffinity(ignore_preferred_terms_of_existing_pods=True)
        cluster = zones(a_pod("fan", node="b", preferred_affinity=((ABOUT_WEB, 4),)))
        assert set(scores(plugin, cluster, a_pod(labels=WEB)).values()) == {0}
        wishing = a_pod(labels=WEB, preferred_affinity=((pod_term(HOST, app="nobody"), 1),))
        assert scores(plugin, cluster, wishing) == {"a": 0, "b": 100, "c": 0}

    def test_namespaces_are_told_by_their_labels(self) -> None:
        term = PodTerm("zone", selects(**WEB), (), selects(team="x"))
        cluster = zones(a_pod("fan", node="b", preferred_affinity=((term, 4),)))
        assert scores(InterPodAffinity(), cluster, a_pod(labels=WEB))["b"] == 0
        cluster.put_namespace("default", {"team": "x"})
        assert scores(InterPodAffinity(), cluster, a_pod(labels=WEB))["b"] == 100

    def test_labels_that_only_wishes_ask_about_split_no_other_profiles_requests(self) -> None:
        cluster = zones(a_pod("fan", node="b", preferred_affinity=((ABOUT_WEB, 4),)))
        web, db = a_pod(labels=WEB), a_pod(labels={"app": "db"})
        assert cluster.request_of(web) == cluster.request_of(db)
        pod_fields = PodField.PREFERRED_AFFINITY
        assert cluster.request_of(web, (), pod_fields) != cluster.request_of(db, (), pod_fields)


class TestSoftSpread:
    def pod(self, *rules: SpreadRule, **more: Any) -> Pod:
        return a_pod(labels=WEB, soft_spread=rules, **more)

    def test_by_zone(self) -> None:
        # two domains: ln 4 = 1.386. a: 2 pods = 2.77 → 3; b: 1 pod → 1. 100*(3+1-3)/3, 100*3/3
        cluster = zones(*(a_pod(f"w{i}", node=n, labels=WEB) for i, n in enumerate("aab")))
        rule = SpreadRule("zone", 1, selects(**WEB))
        assert scores(PodTopologySpread(), cluster, self.pod(rule)) == {"a": 33, "b": 100, "c": 0}

    def test_by_host(self) -> None:
        # three nodes: ln 5 = 1.609, and 4 for the skew: a: 3.2+4 → 7, b: 1.6+4 → 6, c: 4
        cluster = zones(*(a_pod(f"w{i}", node=n, labels=WEB) for i, n in enumerate("aab")))
        rule = SpreadRule(HOST, 5, selects(**WEB))
        assert scores(PodTopologySpread(), cluster, self.pod(rule)) == {
            "a": 57, "b": 71, "c": 100,
        }  # fmt: skip

    def test_nothing_counted_is_best_everywhere(self) -> None:
        rule = SpreadRule(HOST, 1, selects(**WEB))
        assert set(scores(PodTopologySpread(), zones(), self.pod(rule)).values()) == {100}

    def test_no_node_with_all_the_keys(self) -> None:
        rules = SpreadRule("zone", 1, selects(**WEB)), SpreadRule("rack", 1, selects(**WEB))
        assert set(scores(PodTopologySpread(), zones(), self.pod(*rules)).values()) == {0}


class TestDefaultSpread:
    """For pods that say nothing themselves, by whom they belong with."""

    def test_kin_are_those_of_all_services_and_of_the_owner(self) -> None:
        selectors = DefaultSelectors()
        pod = a_pod(labels={"app": "web", "tier": "x"}, owner=("ReplicaSet", "web-1"))
        assert selectors.of(pod) is None
        selectors.put("Service", "default", "web", selects(app="web"))
        selectors.put("Service", "default", "db", selects(app="db"))
        selectors.put("Service", "default", "all", LabelSelector())
        selectors.put("Service", "other", "x", selects(tier="x"))
        assert selectors.of(pod) == selects(app="web")
        selectors.put("ReplicaSet", "default", "web-1", selects(app="web", tier="x"))
        selectors.put("StatefulSet", "default", "web-1", selects(no="body"))
        assert selectors.of(pod) == selects(app="web", tier="x")
        assert selectors.of(a_pod(labels={"app": "web"})) == selects(app="web")
        selectors.put("Service", "default", "web", None)
        selectors.put("ReplicaSet", "default", "web-1", None)
        assert selectors.of(pod) is None

    def cluster(self) -> Cluster:
        cluster = zones(*(a_pod(f"w{i}", node=n, labels=WEB) for i, n in enumerate("aab")))
        cluster.default_selectors.put("Service", "default", "web", selects(**WEB))
        return cluster

    def test_the_systems_rules(self) -> None:
        # three nodes: ln 5 = 1.609 a pod, and 2 for the skew: a: 3.2+2 → 5, b: 1.6+2 → 4, c: 2
        expected = {"a": 40, "b": 60, "c": 100}
        plugin, cluster = PodTopologySpread("System"), self.cluster()
        assert scores(plugin, cluster, a_pod(labels=WEB)) == expected
        assert set(scores(plugin, cluster, a_pod(labels={"app": "db"})).values()) == {0}

    def test_rules_of_its_own_stand_alone(self) -> None:
        own = a_pod(labels=WEB, spread=(SpreadRule(HOST, 9, selects(**WEB)),))
        assert set(scores(PodTopologySpread("System"), self.cluster(), own).values()) == {0}

    def test_a_list_can_forbid(self) -> None:
        rule = PodTopologySpread("List", (DefaultConstraint("zone", 1, "DoNotSchedule"),))
        cluster = self.cluster()
        request = cluster.request_of(a_pod(labels=WEB), (), rule.pod_fields)
        assert rule.applies(request, cluster.nodes)
        assert rule.allows(request, cluster.nodes).tolist() == [False, True, False]
        assert not rule.applies(cluster.request_of(a_pod(), (), rule.pod_fields), cluster.nodes)

    def test_a_list_is_as_strict_as_a_pods_own_rules(self) -> None:
        rule = PodTopologySpread("List", (DefaultConstraint("zone", 1, "ScheduleAnyway"),))
        found = scores(rule, self.cluster(), a_pod(labels=WEB))
        assert found == {"a": 33, "b": 100, "c": 0}

    def test_only_profiles_that_look_at_kin_tell_pods_apart_by_it(self) -> None:
        cluster = self.cluster()
        web, db = a_pod(labels=WEB), a_pod(labels={"app": "db"})
        assert cluster.request_of(web) == cluster.request_of(db)
        assert PodTopologySpread().pod_fields == PodField(0)
        assert built_in("default-scheduler").pod_fields & PodField.DEFAULT_SELECTOR
        assert not built_in("gpu-scheduler").pod_fields

    @pytest.mark.parametrize(
        "options",
        [
            {"defaulting": "System", "default_constraints": [("zone", 1, "ScheduleAnyway")]},
            {"default_constraints": [("zone", 1, "ScheduleAnyway")] * 2},
            {"default_constraints": [("", 1, "ScheduleAnyway")]},
            {"default_constraints": [("zone", 0, "ScheduleAnyway")]},
        ],
    )
    def test_options_must_make_sense(self, options) -> None:
        keys = ("topology_key", "max_skew", "when_unsatisfiable")
        constraints = [dict(zip(keys, c, strict=True)) for c in options["default_constraints"]]
        with pytest.raises(msgspec.ValidationError, match="default_constraints"):
            msgspec.convert({**options, "default_constraints": constraints}, PodTopologySpread)


class TestImages:
    def test_scaled_by_how_many_have_it_and_clamped(self) -> None:
        here = (Image(("x:1", "x@sha256:0"), 1000 * MIB),)
        cluster = a_cluster(a_node("a", images=here), a_node("b", images=here), a_node("c"))
        # 1000 MiB * 2/3 = 666 MiB: 100 * (666.6 - 23) / 977
        assert scores(ImageLocality(), cluster, a_pod(images=("x:1",), containers=1)) == {
            "a": 65, "b": 65, "c": 0,
        }  # fmt: skip
        two = a_pod(images=("x:1", "other:1"), containers=2)
        assert scores(ImageLocality(), cluster, two)["a"] == 32  # of 1977 MiB

    def test_a_small_image_is_not_worth_it(self) -> None:
        cluster = a_cluster(a_node("a", images=(Image(("x:1",), 23 * MIB),)), a_node("b"))
        assert scores(ImageLocality(), cluster, a_pod(images=("x:1",), containers=1))["a"] == 0

    def test_images_come_and_go(self) -> None:
        pod = a_pod(images=("x:1",), containers=1)
        cluster = a_cluster(a_node("a"))
        assert scores(ImageLocality(), cluster, pod) == {"a": 0}
        cluster.put_node(a_node("a", images=(Image(("x:1",), 2000 * MIB),)))
        assert scores(ImageLocality(), cluster, pod) == {"a": 100}
        cluster.remove_node("a")
        cluster.put_node(a_node("b"))
        assert scores(ImageLocality(), cluster, pod) == {"b": 0}

    def test_images_split_no_other_profiles_requests(self) -> None:
        cluster = Cluster()
        x, y = a_pod(images=("x:1",), containers=1), a_pod(images=("y:1",), containers=1)
        assert cluster.request_of(x) == cluster.request_of(y)
        assert cluster.request_of(x, (), PodField.IMAGES) != cluster.request_of(
            y, (), PodField.IMAGES
        )


# -- by the slow copy ----------------------------------------------------------------------------

SELECTORS = (
    selects(app="a"), selects(app="b"), LabelSelector(), None,
    LabelSelector((Requirement("app", "NotIn", ("a",)),)),
    LabelSelector((Requirement("app", "Near", ("a",)),)),
)  # fmt: skip
KEYS = ("zone", "rank", HOST, "nobody-has-it")
LINES = (
    Requirement("zone", "In", ("a",)), Requirement("rank", "Gt", ("3",)),
    Requirement("rank", "Lt", ("2",)), Requirement("zone", "DoesNotExist"),
    Requirement("rank", "Exists"), Requirement("rank", "Gt", ("x",)),
)  # fmt: skip


def some(dice: random.Random, most: int, make) -> tuple:
    return tuple(make() for _ in range(dice.randint(0, most)))


def random_term(dice: random.Random) -> PodTerm:
    selected = dice.choice([None, None, selects(team="x"), LabelSelector()])
    spaces = () if selected is not None and dice.random() < 0.5 else ("default",)
    return PodTerm(dice.choice(KEYS), dice.choice(SELECTORS), spaces, selected)


def random_rules(dice: random.Random) -> tuple[SpreadRule, ...]:
    return tuple(
        SpreadRule(
            key, dice.randint(1, 5), dice.choice(SELECTORS), 1,
            dice.random() < 0.5, dice.random() < 0.5,
        )
        for key in dice.sample(KEYS[:3], dice.randint(0, 3))
    )  # fmt: skip


def random_scene(dice: random.Random) -> tuple[Cluster, slow.Scene]:
    names = [f"n{number}" for number in range(dice.randint(1, 7))]
    nodes = {name: random_node(dice, name) for name in names}
    if dice.random() < 0.7:
        nodes = {name: _labelled(dice, node) for name, node in nodes.items()}
    pods = [_wishing(dice, random_pod(dice, number)) for number in range(dice.randint(0, 20))]
    asks = a_pod(
        labels={"app": dice.choice("abc")},
        gpus=dice.randint(0, 3),
        cpu=dice.choice([0, 0, 700]),
        resources={"memory": dice.choice([0, GIB])},
        scored=(dice.choice([100, 700]), dice.choice([200 * MIB, GIB])),
        tolerations=some(dice, 1, lambda: Toleration("dedicated", "Exists")),
        preferred=some(
            dice, 3, lambda: PreferredTerm(dice.randint(0, 9), NodeTerm((dice.choice(LINES),)))
        ),
        node_selector=some(dice, 1, lambda: ("zone", "a")),
        preferred_affinity=some(dice, 2, lambda: (random_term(dice), dice.randint(-9, 9))),
        soft_spread=random_rules(dice),
        images=dice.choice([("x:1",), ("x:1", "y:2", "x:1"), ("nobody:1",)]),
        containers=2,
    )
    cluster = a_cluster(*nodes.values(), pods=tuple(pods))
    spaces = {"default": {"team": dice.choice("xy")}}
    cluster.put_namespace("default", spaces["default"])
    served = dice.random() < 0.7
    if served:
        cluster.default_selectors.put("Service", "default", "web", selects(app="a"))
    default_selector = selects(app="a") if served and asks.labels["app"] == "a" else None
    left = set(dice.sample(names, dice.randint(1, len(names))))
    there = [pod for pod in pods if pod.node in nodes]
    return cluster, slow.Scene(nodes, there, asks, left, spaces, default_selector)


def _labelled(dice: random.Random, node):
    zone = {"topology.kubernetes.io/zone": dice.choice("12")} if dice.random() < 0.7 else {}
    return a_node(
        node.name, labels={**node.labels, **zone, HOST: node.name}, allocatable=node.allocatable,
        taints=node.taints, images=node.images,
    )  # fmt: skip


def _wishing(dice: random.Random, pod: Pod) -> Pod:
    request = pod.request
    return a_pod(
        pod.name, uid=pod.uid, node=pod.node, labels=pod.labels, deleting=pod.deleting,
        resources=dict(request.resources), scored=request.scored,
        required_affinity=some(dice, 1, lambda: random_term(dice)),
        preferred_affinity=some(dice, 1, lambda: (random_term(dice), dice.randint(-9, 9))),
    )  # fmt: skip


WEIGHTS = {"cpu": 3, "memory": 1, GPU: 2}
SHAPE = (ShapePoint(0, 10), ShapePoint(7, 3), ShapePoint(60, 0), ShapePoint(100, 9))
JUDGES = {
    "taints": (TaintToleration(), slow.taints),
    "node affinity": (NodeAffinity(), slow.node_affinity),
    "least": (LeastAllocated(WEIGHTS), lambda s: slow.allocation(s, WEIGHTS, slow.least)),
    "most": (MostAllocated(WEIGHTS), lambda s: slow.allocation(s, WEIGHTS, slow.most)),
    "ratio": (RequestedToCapacityRatio(WEIGHTS, SHAPE), lambda s: slow.ratio(s, WEIGHTS, SHAPE)),
    "balance of two": (
        NodeResourcesBalancedAllocation(), lambda s: slow.balance(s, ["cpu", "memory"])
    ),
    "balance of three": (
        NodeResourcesBalancedAllocation(WEIGHTS), lambda s: slow.balance(s, list(WEIGHTS))
    ),
    "wishes": (InterPodAffinity(), lambda s: slow.pod_affinity(s, 1, False)),
    "own wishes first": (
        InterPodAffinity(7, True), lambda s: slow.pod_affinity(s, 7, True)
    ),
    "spreading": (
        PodTopologySpread(),
        lambda s: slow.soft_spread(s, s.asks.request.soft_spread, all_keys=True),
    ),
    "default spreading": (PodTopologySpread("System"), slow.system_spread),
    "images": (ImageLocality(), slow.images),
}  # fmt: skip


@pytest.mark.parametrize("judge", JUDGES.values(), ids=JUDGES.keys())
@given(dice=st.randoms(use_true_random=False))
@examples(60)
def test_arrays_agree_with_the_slow_and_simple_scores(judge, dice: random.Random) -> None:
    plugin, slowly = judge
    cluster, scene = random_scene(dice)
    expected = slowly(scene)
    request = cluster.request_of(scene.asks, (), ALL_FIELDS)
    if isinstance(plugin, RelativeScore) and not plugin.applies_as_score(request, cluster.nodes):
        assert len(set(expected.values())) == 1, "it should have cared"
    else:
        assert scores(plugin, cluster, scene.asks, scene.left) == expected
