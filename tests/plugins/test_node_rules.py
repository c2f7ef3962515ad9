"""Rules of administrators and users about nodes, as expressions."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod
from examples import some
from fairlead.apps.audit import Breach, broken
from fairlead.apps.config import config as configs
from fairlead.apps.config.profiles import built_in, ruled
from fairlead.apps.config.rules_config import node_rules, rule_warnings
from fairlead.cluster.cluster import Cluster
from fairlead.kube.node_rules import read_node_rule
from fairlead.model.errors import ConfigError, FairleadError
from fairlead.model.pods import Pod
from fairlead.model.rules import NODE_RULE, NodeRule
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed, Refused
from fairlead.plugins.rules import NodeRules
from fairlead.testing import check_plugin
from fairlead.testing.builders import a_gpu_node

EU = NodeRule("eu", 'node.labels["region"] == "eu"', ("finance", "hr-*"), message="data stays")
LARGE = "gpus.exists(g, g.memoryMib >= 40000 && g.model.contains('H100'))"
NODES = (
    a_gpu_node("large", gpus=2, model="H100", memory_mib=80000, labels={"region": "eu"}),
    a_gpu_node("small", gpus=2, model="A10", memory_mib=24000, labels={"region": "us"}),
    a_node("plain", labels={"tier": "x"}),
)


def the_nodes() -> Cluster:
    cluster = Cluster()
    for node in NODES:
        cluster.put_node(node)
    return cluster


def placement(*rules: NodeRule, user_rules: bool = False) -> Placement:
    profile = ruled(built_in("gpu-scheduler"), NodeRules(rules, user_rules))
    return Placement(profile, the_nodes())


def of(namespace: str, rule: str = "", **labels: str) -> Pod:
    pod = a_pod("p", labels=labels)
    return replace(pod, namespace=namespace, request=replace(pod.request, node_rule=rule))


@pytest.mark.parametrize(("namespace", "nodes"), [("finance", 1), ("hr-eu", 1), ("hr", 3)])
def test_pods_of_a_namespace_run_only_where_its_rule_holds(namespace: str, nodes: int) -> None:
    rules = placement(EU)
    assert int(rules.view(of(namespace)).left.sum()) == nodes


def test_a_refusal_says_which_rule_and_why() -> None:
    never = NodeRule("never", "false", ("finance",), message="closed")
    verdict = placement(never).place(of("finance"))
    assert isinstance(verdict, Refused)
    assert verdict.reasons == (("node(s) didn't match the rule never (closed)", 3),)


def test_labels_of_the_pod_choose_rules_and_annotations_do_not() -> None:
    rule = NodeRule(
        "secret", 'node.labels[?"region"].orValue("") == "eu"', (), (("data", "secret"),)
    )
    rules = placement(rule)
    marked = of("a", data="secret")
    assert int(rules.view(marked).left.sum()) == 1
    hidden = replace(marked, annotations={"data": "public"})
    assert int(rules.view(hidden).left.sum()) == 1
    assert int(rules.view(of("a")).left.sum()) == 3


def test_a_rule_of_a_pod_only_restricts_and_has_to_be_enabled() -> None:
    enabled = placement(EU, user_rules=True)
    verdict = enabled.place(of("finance", LARGE))
    assert isinstance(verdict, Placed)
    assert verdict.node == "large"
    assert isinstance(enabled.place(of("finance", 'node.name == "small" || true')), Placed)
    assert int(enabled.view(of("finance", "true")).left.sum()) == 1
    refused = placement().place(of("a", LARGE))
    assert isinstance(refused, Refused)
    assert NODE_RULE in refused.message
    assert "userRules" in refused.message


def test_an_expression_that_fails_or_costs_too_much_refuses_the_node_and_explain_says_why() -> None:
    dear = NodeRule("dear", "[1,2,3].all(a, [1,2,3].all(b, [1,2,3].all(c, a + b + c > 0)))")
    rules = NodeRules((EU, dear))
    cluster = the_nodes()
    request = cluster.request_of(of("finance"), rules.pod_keys)
    nodes = cluster.nodes
    assert not rules.allows(request, nodes).any()
    missing = rules.detail(request, nodes.only(nodes.named(["plain"])))
    assert "no such key: region" in missing
    assert "cost" in rules.detail(request, nodes.only(nodes.named(["large"])))


def test_a_rule_of_a_user_may_cost_less_than_one_of_the_administrator() -> None:
    some = "[1,2,3,4].all(a, [1,2,3,4].all(b, a + b > 0))"
    cluster = the_nodes()
    rules = NodeRules((NodeRule("some", some),), user_rules=True)
    request = cluster.request_of(of("a"), rules.pod_keys)
    assert rules.allows(request, cluster.nodes).all()
    own = cluster.request_of(of("a", some), rules.pod_keys)
    assert not rules.allows(own, cluster.nodes).any()


def test_pods_that_no_rule_is_about_share_their_views() -> None:
    rules = NodeRules()
    cluster = the_nodes()
    one, two = (cluster.request_of(of(each), rules.pod_keys) for each in ("a", "b"))
    assert one == two
    assert not rules.concerns(one)


@pytest.mark.parametrize(
    "expression",
    ["node.nothing", "node.name", "gpus[0].model ==", "1 + 'a' == 2", "device.driver == 'x'"],
)
def test_what_cannot_be_meant_is_refused_with_the_place(expression: str) -> None:
    with pytest.raises(FairleadError, match=NODE_RULE):
        read_node_rule(expression)


def test_a_long_rule_is_refused() -> None:
    with pytest.raises(FairleadError, match="1,024 characters"):
        read_node_rule("true || " * 200 + "true")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rules: [{name: a, nodes: node.x}]", "rule 'a': compilation failed"),
        ("rules: [{name: a, nodes: 'true'}, {name: a, nodes: 'true'}]", "two rules have the name"),
    ],
)
def test_rules_of_the_configuration_are_checked(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        node_rules(configs.parse(text).rules)


def test_labels_that_a_kubelet_can_write_are_warned_about() -> None:
    weak = 'node.labels["topology.kubernetes.io/zone"] == "a"'
    strong = 'node.labels["x.node-restriction.kubernetes.io/zone"] == "a"'
    text = f"rules: [{{name: a, nodes: '{weak}'}}, {{name: b, nodes: '{strong}'}}]"
    (found,) = rule_warnings(configs.parse(text).rules)
    assert str(found).startswith(
        "rules.a: a kubelet can write the label topology.kubernetes.io/zone"
    )


def test_no_profile_can_leave_the_rules_out() -> None:
    config = configs.parse(
        "userRules: true\nrules: [{name: a, nodes: 'true'}]\n"
        "profiles: [{schedulerName: x, filters: {disabled: ['*'], "
        "enabled: [NodeResourcesFit, NodeTrusted]}}]"
    )
    built = configs.build_profiles(config.profiles, configs.Registry())
    (profile,) = config.ruled(built).values()
    assert [rule.name for rule in profile.filters] == [
        "NodeResourcesFit",
        "NodeRules",
        "NodeTrusted",
    ]


def test_an_audit_finds_pods_that_the_rules_of_today_refuse() -> None:
    cluster = the_nodes()
    for name, node, namespace in (
        ("a", "large", "finance"),
        ("b", "small", "finance"),
        ("c", "small", "x"),
    ):
        cluster.confirm(replace(a_pod(name), namespace=namespace, uid=name, node=node))
    assert list(broken(cluster, NodeRules((EU,)))) == [
        Breach("finance/b", "small", "gpu-scheduler", "the rule eu (data stays)")
    ]


def test_it_keeps_the_contract_of_plugins() -> None:
    check_plugin(NodeRules(), seeds=some(range(12), 3))


def test_labels_of_the_namespace_choose_nodes_and_one_that_was_not_seen_is_refused() -> None:
    label = 'pod.namespaceLabels[?"region"].orValue("us")'
    rule = NodeRule("where", f'node.labels[?"region"].orValue("") == {label}', ())
    rules = placement(rule)
    cluster = rules._cluster
    assert not rules.view(of("new")).left.any()
    for labels, node in (({"region": "eu"}, "large"), ({}, "small")):
        cluster.put_namespace("new", labels)
        verdict = rules.place(of("new"))
        assert isinstance(verdict, Placed)
        assert verdict.node == node
