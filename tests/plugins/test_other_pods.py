"""Rules about other pods: small scenes, and a slow and simple copy of each rule as a judge."""

import random
from dataclasses import replace

import pytest

from builders import a_node, a_pod, pod_term, selects
from fairlead.cluster.cluster import Cluster
from fairlead.model.pods import Pod
from fairlead.model.selectors import LabelSelector, PodTerm, Requirement, SpreadRule
from fairlead.plugins.inter_pod_affinity import InterPodAffinity
from fairlead.plugins.node_affinity import NodeAffinity
from fairlead.plugins.pod_topology_spread import PodTopologySpread
from fairlead.plugins.taint_toleration import TaintToleration
from fairlead.testing.drawn import random_node, random_pod


def zones(**pods: str) -> Cluster:
    """Nodes a1, a2 in zone a, b1 in b and x in none; `pods` says on which node each app runs."""
    cluster = Cluster()
    for name in ("a1", "a2", "b1", "x"):
        cluster.put_node(a_node(name, labels={"zone": name[0]} if name != "x" else {}))
    for app, places in pods.items():
        for number, place in enumerate(places.split()):
            cluster.confirm(a_pod(f"{app}-{number}", node=place, labels={"app": app}))
    return cluster


def allowed(rule, cluster: Cluster, pod: Pod) -> set[str]:
    request = pod.request_with((), cluster.columns.pods.keys_of_anti_affinity)
    mask = rule.allows(request, cluster.nodes)
    if not rule.applies(request, cluster.nodes):
        assert mask.all(), "what does not apply must refuse nobody"
    return {name for name, row in cluster.row_of.items() if mask[row]}


WEB = {"app": "web"}


class TestAffinity:
    rule = InterPodAffinity()

    def test_near_means_the_same_domain(self) -> None:
        assert allowed(
            self.rule, zones(web="a1"), a_pod(required_affinity=(pod_term("zone", **WEB),))
        ) == {
            "a1",
            "a2",
        }

    def test_the_first_of_its_kind_may_start_anywhere_with_the_key(self) -> None:
        first = a_pod(labels=WEB, required_affinity=(pod_term("zone", **WEB),))
        assert allowed(self.rule, zones(), first) == {"a1", "a2", "b1"}

    def test_but_not_if_it_is_not_of_that_kind(self) -> None:
        assert (
            allowed(self.rule, zones(), a_pod(required_affinity=(pod_term("zone", **WEB),)))
            == set()
        )

    def test_all_terms_must_mean_the_same_pod(self) -> None:
        terms = (pod_term("zone", app="web"), pod_term("zone", app="db"))
        assert allowed(self.rule, zones(web="a1", db="a1"), a_pod(required_affinity=terms)) == set()

    def test_apart_from_others(self) -> None:
        pod = a_pod(anti_affinity=(pod_term("zone", **WEB),))
        assert allowed(self.rule, zones(web="a1"), pod) == {"b1", "x"}

    def test_others_want_to_be_apart_from_me(self) -> None:
        cluster = zones()
        shy = a_pod("shy", node="a1", anti_affinity=(pod_term("zone", **WEB),))
        cluster.confirm(shy)
        assert allowed(self.rule, cluster, a_pod(labels=WEB)) == {"b1", "x"}
        assert allowed(self.rule, cluster, a_pod(labels={"app": "db"})) == {"a1", "a2", "b1", "x"}
        cluster.remove(shy.uid)
        assert cluster.columns.pods.keys_of_anti_affinity == frozenset()

    def test_terminating_pods_still_count(self) -> None:
        cluster = zones()
        cluster.confirm(a_pod("web", node="a1", labels=WEB, deleting=True))
        assert allowed(self.rule, cluster, a_pod(anti_affinity=(pod_term("zone", **WEB),))) == {
            "b1",
            "x",
        }

    def test_other_namespaces_are_meant_only_when_named_or_selected(self) -> None:
        cluster = zones(web="a1")
        cluster.put_namespace("default", {"team": "x"})
        elsewhere = PodTerm("zone", selects(**WEB), ("other",))
        assert len(allowed(self.rule, cluster, a_pod(anti_affinity=(elsewhere,)))) == 4
        chosen = PodTerm("zone", selects(**WEB), (), selects(team="x"))
        assert allowed(self.rule, cluster, a_pod(anti_affinity=(chosen,))) == {"b1", "x"}
        cluster.put_namespace("default", {"team": "y"})
        assert len(allowed(self.rule, cluster, a_pod(anti_affinity=(chosen,)))) == 4

    def test_a_null_selector_means_nobody(self) -> None:
        term = PodTerm("zone", None, ("default",))
        assert len(allowed(self.rule, zones(web="a1"), a_pod(anti_affinity=(term,)))) == 4


class TestSpread:
    rule = PodTopologySpread()

    def pod(self, max_skew: int = 1, labels=WEB, **more) -> Pod:
        selector = more.pop("selector", selects(**WEB))
        rule = SpreadRule("zone", max_skew, selector, **more)
        return a_pod(labels=labels, spread=(rule,))

    def test_the_fuller_domain_is_refused(self) -> None:
        assert allowed(self.rule, zones(web="a1 a2"), self.pod()) == {"b1"}

    def test_up_to_the_skew(self) -> None:
        assert allowed(self.rule, zones(web="a1 a2"), self.pod(3)) == {"a1", "a2", "b1"}

    def test_a_pod_that_is_not_counted_itself(self) -> None:
        cluster = zones(web="a1")
        assert allowed(self.rule, cluster, self.pod(labels={})) == {"a1", "a2", "b1"}

    def test_too_few_domains_count_as_an_empty_one(self) -> None:
        cluster = zones(web="a1 b1")
        assert allowed(self.rule, cluster, self.pod(min_domains=2)) == {"a1", "a2", "b1"}
        assert allowed(self.rule, cluster, self.pod(min_domains=3)) == set()

    def test_terminating_pods_do_not_count(self) -> None:
        cluster = zones()
        cluster.confirm(a_pod("web", node="a1", labels=WEB, deleting=True))
        assert allowed(self.rule, cluster, self.pod()) == {"a1", "a2", "b1"}

    def test_an_empty_selector_counts_nobody_but_the_pod_itself(self) -> None:
        cluster = zones(web="a1 a1 a1")
        assert allowed(self.rule, cluster, self.pod(selector=LabelSelector())) == {"a1", "a2", "b1"}

    def test_only_nodes_where_the_pod_could_go_count(self) -> None:
        cluster = zones(web="a1")
        rule = SpreadRule("zone", 1, selects(**WEB))
        pod = a_pod(labels=WEB, spread=(rule,), node_selector=(("zone", "a"),))
        assert allowed(self.rule, cluster, pod) >= {"a1", "a2"}

    def test_reasons_tell_missing_labels_from_skew(self) -> None:
        cluster = zones(web="a1")
        request = self.pod().request_with((), frozenset())
        found = {
            reason.text: int(reason.where.sum())
            for reason in self.rule.reasons(request, cluster.nodes)
        }
        assert found == {
            "node(s) didn't match pod topology spread constraints (missing required label)": 1,
            "node(s) didn't match pod topology spread constraints": 2,
        }

    @pytest.mark.parametrize(
        ("keys", "missing"),
        [
            pytest.param(("zone", "rack"), 2, id="skewed before a key is missed"),
            pytest.param(("rack", "zone"), 3, id="a key is missed before it is skewed"),
        ],
    )
    def test_a_node_counts_under_the_first_rule_it_breaks(
        self, keys: tuple[str, ...], missing: int
    ) -> None:
        cluster = zones(web="a1")
        a1 = cluster.node_at(cluster.row_of["a1"])
        cluster.put_node(replace(a1, labels={**a1.labels, "rack": "1"}))
        rules = tuple(SpreadRule(key, 1, selects(**WEB), min_domains=2) for key in keys)
        request = a_pod(labels=WEB, spread=rules).request_with((), frozenset())
        found = [int(r.where.sum()) for r in self.rule.reasons(request, cluster.nodes)]
        assert found == [missing, 4 - missing]


# -- slow and simple copies of the rules, node by node and pod by pod ----------------------------


def means(term: PodTerm, pod: Pod) -> bool:
    return (
        term.selector is not None
        and pod.namespace in term.namespaces
        and term.selector.matches(pod.labels)
    )


def slow_affinity(cluster: Cluster, pod: Pod, name: str) -> bool:
    nodes = {n: cluster.node_at(row).labels for n, row in cluster.row_of.items()}
    there = [(nodes[n], p) for n in nodes for p in cluster.pods_on(n)]
    labels = nodes[name]

    def together(key: str, other) -> bool:
        return key in labels and other.get(key) == labels[key]

    terms = pod.request.required_affinity
    if terms:
        matched = [(where, p) for where, p in there if all(means(t, p) for t in terms)]
        if any(t.topology_key not in labels for t in terms):
            return False
        near_all = all(any(together(t.topology_key, where) for where, _ in matched) for t in terms)
        first = not any(t.topology_key in where for where, _ in matched for t in terms)
        if not near_all and not (first and all(means(t, pod) for t in terms)):
            return False
    for term in pod.request.anti_affinity:
        if any(together(term.topology_key, where) and means(term, p) for where, p in there):
            return False
    return not any(
        together(term.topology_key, where) and means(term, pod)
        for where, p in there
        for term in p.request.anti_affinity
    )


def slow_spread(cluster: Cluster, pod: Pod, name: str) -> bool:
    rules = pod.request.spread
    nodes = {n: cluster.node_at(row) for n, row in cluster.row_of.items()}
    fits = NodeAffinity().allows(pod.request, cluster.nodes)
    tolerated = TaintToleration().allows(pod.request, cluster.nodes)
    if any(rule.topology_key not in nodes[name].labels for rule in rules):
        return False
    for rule in rules:
        domains: dict[str, int] = {}
        for other, node in nodes.items():
            row = cluster.row_of[other]
            if any(r.topology_key not in node.labels for r in rules):
                continue
            if (rule.honours_affinity and not fits[row]) or (
                rule.honours_taints and not tolerated[row]
            ):
                continue
            matching = [
                p
                for p in cluster.pods_on(other)
                if not p.deleting
                and p.namespace == pod.namespace
                and rule.selector is not None
                and rule.selector.lines
                and rule.selector.matches(p.labels)
            ]
            domain = node.labels[rule.topology_key]
            domains[domain] = domains.get(domain, 0) + len(matching)
        if not domains:
            continue
        fewest = 0 if len(domains) < rule.min_domains else min(domains.values())
        itself = rule.selector is not None and rule.selector.matches(pod.labels)
        here = domains.get(nodes[name].labels[rule.topology_key], 0)
        if here + itself - fewest > rule.max_skew:
            return False
    return True


SELECTORS = [
    selects(app="a"),
    selects(app="b"),
    LabelSelector(),
    None,
    LabelSelector((Requirement("app", "NotIn", ("a",)),)),
    LabelSelector((Requirement("app", "Exists"),)),
]


def random_asker(dice: random.Random) -> Pod:
    def term() -> PodTerm:
        namespaces = dice.choice([("default",), ("other",), ("default", "other")])
        return PodTerm(dice.choice(["zone", "rank"]), dice.choice(SELECTORS), namespaces)

    spread = tuple(
        SpreadRule(
            key, dice.randint(1, 3), dice.choice(SELECTORS), dice.randint(1, 3),
            dice.random() < 0.5, dice.random() < 0.5,
        )
        for key in dice.sample(["zone", "rank"], dice.randint(0, 2))
    )  # fmt: skip
    return a_pod(
        labels={"app": dice.choice("abc")} if dice.random() < 0.7 else {},
        required_affinity=tuple(term() for _ in range(dice.randint(0, 2))),
        anti_affinity=tuple(term() for _ in range(dice.randint(0, 2))),
        spread=spread,
        node_selector=(("zone", "a"),) if dice.random() < 0.2 else (),
    )


@pytest.mark.parametrize("seed", range(60))
def test_arrays_agree_with_the_slow_and_simple_rules(seed: int) -> None:
    dice = random.Random(seed)
    cluster = Cluster()
    askers = [random_asker(dice) for _ in range(6)]
    for step in range(40):
        name = f"n{dice.randint(0, 7)}"
        match dice.randint(0, 5):
            case 0 | 1:
                cluster.put_node(random_node(dice, name))
            case 2:
                cluster.remove_node(name)
            case 3:
                cluster.remove(f"fixed-{dice.randint(0, 20)}")
            case _:
                cluster.confirm(random_pod(dice, step % 20))
        pod = dice.choice(askers)
        for rule, slow in ((InterPodAffinity(), slow_affinity), (PodTopologySpread(), slow_spread)):
            expected = {name for name in cluster.row_of if slow(cluster, pod, name)}
            if slow is slow_spread and not pod.request.spread:
                expected = set(cluster.row_of)
            assert allowed(rule, cluster, pod) == expected
