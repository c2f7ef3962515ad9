import pytest

from builders import a_node, a_pod, a_request, a_taint
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpu_resources import GPU_MILLI
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import HostPort, NodeTerm, PodRequest, Toleration
from fairlead.model.selectors import Requirement
from fairlead.plugins.api import reasons_of
from fairlead.plugins.node_affinity import NodeAffinity
from fairlead.plugins.node_ports import NodePorts
from fairlead.plugins.node_resources_fit import NodeResourcesFit
from fairlead.plugins.node_unschedulable import NodeUnschedulable
from fairlead.plugins.taint_toleration import TaintToleration


def allows(rule, request: PodRequest, node: Node, *pods) -> bool:
    cluster = Cluster()
    cluster.put_node(node)
    for pod in pods:
        cluster.confirm(pod)
    return bool(rule.allows(request, cluster.nodes)[0])


def r(key: str, operator: str, *values: str) -> Requirement:
    return Requirement(key, operator, values)


def needs(*requirements: Requirement) -> PodRequest:
    return a_request(node_terms=(NodeTerm(labels=requirements),))


@pytest.mark.parametrize(
    ("request_", "labels", "expected"),
    [
        pytest.param(a_request(), {}, True, id="a pod that asks for nothing goes anywhere"),
        pytest.param(a_request(node_selector=(("a", "1"),)), {"a": "1"}, True, id="selector"),
        pytest.param(a_request(node_selector=(("a", "1"),)), {"a": "2"}, False, id="other value"),
        pytest.param(a_request(node_selector=(("a", "1"),)), {}, False, id="label missing"),
        pytest.param(needs(r("a", "In", "1", "2")), {"a": "2"}, True, id="In"),
        pytest.param(needs(r("a", "In")), {"a": "2"}, False, id="In nothing"),
        pytest.param(needs(r("a", "NotIn", "1")), {}, True, id="NotIn holds where absent"),
        pytest.param(needs(r("a", "NotIn", "1")), {"a": "1"}, False, id="NotIn"),
        pytest.param(needs(r("a", "Exists")), {"a": ""}, True, id="Exists"),
        pytest.param(needs(r("a", "DoesNotExist")), {"a": ""}, False, id="DoesNotExist"),
        pytest.param(needs(r("a", "Gt", "3")), {"a": "4"}, True, id="Gt"),
        pytest.param(needs(r("a", "Gt", "4")), {"a": "4"}, False, id="Gt is strict"),
        pytest.param(needs(r("a", "Lt", "4")), {"a": "x"}, False, id="Lt of no number"),
        pytest.param(needs(r("a", "Gt", "x")), {"a": "4"}, False, id="Gt with a bad bound"),
        pytest.param(needs(r("a", "Gt", "1", "2")), {"a": "4"}, False, id="Gt with two bounds"),
        pytest.param(needs(r("a", "Like", "4")), {"a": "4"}, False, id="an unknown operator"),
        pytest.param(needs(r("a", "Exists"), r("b", "Exists")), {"a": ""}, False, id="all hold"),
        pytest.param(needs(), {"a": ""}, False, id="an empty term matches nothing"),
        pytest.param(a_request(node_terms=()), {}, False, id="no terms match nothing"),
        pytest.param(
            a_request(node_terms=(NodeTerm((r("a", "Exists"),)), NodeTerm((r("b", "Exists"),)))),
            {"b": ""}, True, id="one term is enough",
        ),
        pytest.param(
            a_request(node_terms=(NodeTerm(fields=(r("metadata.name", "In", "n1"),)),)),
            {}, True, id="by name",
        ),
        pytest.param(
            a_request(node_terms=(NodeTerm(fields=(r("metadata.name", "NotIn", "n1"),)),)),
            {}, False, id="by other name",
        ),
        pytest.param(
            a_request(node_terms=(NodeTerm(fields=(r("metadata.uid", "In", "n1"),)),)),
            {}, False, id="by a field that cannot be asked for",
        ),
    ],
)  # fmt: skip
def test_node_affinity(request_: PodRequest, labels, expected: bool) -> None:
    assert allows(NodeAffinity(), request_, a_node(labels=labels)) is expected


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], False, id="untolerated"),
        pytest.param([Toleration("k", "Equal", "v", "NoSchedule")], True, id="equal"),
        pytest.param([Toleration("k", "", "v", "NoSchedule")], True, id="no operator means equal"),
        pytest.param([Toleration("k", "Equal", "w")], False, id="another value"),
        pytest.param([Toleration("k", "Exists")], True, id="exists"),
        pytest.param([Toleration("", "Exists")], True, id="everything"),
        pytest.param([Toleration("k", "Exists", "", "NoExecute")], False, id="another effect"),
        pytest.param([Toleration("k", "Lt", "9")], False, id="comparisons are switched off"),
    ],
)
def test_taints(tolerations, expected: bool) -> None:
    node = a_node(taints=(a_taint("k", "v"),))
    request = a_request(tolerations=tuple(tolerations))
    assert allows(TaintToleration(), request, node) is expected


def test_soft_taints_refuse_nobody() -> None:
    node = a_node(taints=(a_taint("k", "v", "PreferNoSchedule"),))
    assert allows(TaintToleration(), a_request(), node)


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ((), False),
        ((Toleration("node.kubernetes.io/unschedulable", "Exists"),), True),
        ((Toleration("", "Exists"),), True),
    ],
)
def test_cordoned_nodes_take_only_those_who_tolerate_it(tolerations, expected) -> None:
    request = a_request(tolerations=tolerations)
    assert allows(NodeUnschedulable(), request, a_node(unschedulable=True)) is expected


@pytest.mark.parametrize(
    ("wanted", "held", "expected"),
    [
        pytest.param(HostPort(80), HostPort(80), False, id="same port"),
        pytest.param(HostPort(80), HostPort(81), True, id="other port"),
        pytest.param(HostPort(80), HostPort(80, "UDP"), True, id="other protocol"),
        pytest.param(HostPort(80, ip="10.0.0.1"), HostPort(80), False, id="any address conflicts"),
        pytest.param(
            HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.2"), True, id="other address"
        ),
        pytest.param(HostPort(80, ip="::"), HostPort(80, ip="::1"), True, id=":: is no wildcard"),
    ],
)
def test_host_ports(wanted: HostPort, held: HostPort, expected: bool) -> None:
    holder = a_pod(node="n1", host_ports=(held,))
    assert allows(NodePorts(), a_request(host_ports=(wanted,)), a_node(), holder) is expected


@pytest.mark.parametrize(
    ("asked", "taken", "expected"),
    [
        pytest.param({GPU: 4}, {GPU: 4}, True, id="the last four GPUs"),
        pytest.param({GPU: 5}, {GPU: 4}, False, id="one too many"),
        pytest.param({"example.com/fpga": 1}, {}, False, id="a resource the node does not have"),
        pytest.param({}, {GPU: 8}, True, id="a pod that asks for nothing"),
        pytest.param({}, {GPU: 20}, True, id="even where others took more than there is"),
    ],
)
def test_resources(asked, taken, expected: bool) -> None:
    holder = a_pod(node="n1", resources=taken)
    assert allows(NodeResourcesFit(), a_request(resources=asked), a_node(), holder) is expected


def test_a_node_full_of_pods_takes_no_more() -> None:
    node = a_node(resources={"pods": 1})
    assert not allows(NodeResourcesFit(), a_request(), node, a_pod(node="n1"))


def test_every_short_resource_is_a_reason_and_only_evictable_ones_are_resolvable() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("full", gpus=8))
    cluster.confirm(a_pod(node="full", gpus=8))
    cluster.put_node(a_node("small", gpus=1, resources={"cpu": 1000}))
    request = a_request(gpus=2, cpu=2000)
    found = {
        reason.text: (reason.where.tolist(), reason.resolvable.tolist())
        for reason in reasons_of(NodeResourcesFit(), request, cluster.nodes)
    }
    assert found == {
        "Too many pods": ([False, False], [False, False]),
        "Insufficient cpu": ([False, True], [False, False]),
        "Insufficient nvidia.com/gpu": ([True, True], [True, False]),
    }


def test_parts_of_gpus_are_counted_where_a_node_offers_them() -> None:
    half, rule = a_request(resources={GPU_MILLI: 500}), NodeResourcesFit()
    offering = a_node(resources={GPU_MILLI: 1000})
    taken = a_pod("a", resources={GPU_MILLI: 700}, node="n1")
    assert allows(rule, half, a_node())
    assert allows(rule, half, offering)
    assert not allows(rule, half, offering, taken)
    assert allows(rule, half, a_node(), taken)

    cluster = Cluster()
    for name, node in (("n1", offering), ("n2", a_node("n2"))):
        cluster.put_node(node)
        assert node.name == name
    cluster.confirm(taken)
    counted = {each.text: each.where.tolist() for each in reasons_of(rule, half, cluster.nodes)}
    assert counted[f"Insufficient {GPU_MILLI}"] == [True, False]
