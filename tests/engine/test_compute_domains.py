"""Gangs with channels of a ComputeDomain are placed in one clique of NVLink."""

from dataclasses import replace

import pytest
from test_gang_claims import prepares, show

from builders import a_node, an_engine, decide, see
from claim_objects import a_claim, a_claim_user, a_claiming_pod, a_slice
from fairlead.apps.explain.compute_domains import domain_lines, domains_answer
from fairlead.engine.engine import Engine
from fairlead.engine.events import ClaimObjectGone, NodeSeen
from fairlead.engine.instructions import AnnounceFailure
from fairlead.model.claims import (
    AllocatedDevice,
    Allocation,
    DeviceNeed,
    DeviceRequest,
    ResourceClaim,
)
from fairlead.model.compute_domains import CHANNEL_DRIVER as DRIVER
from fairlead.model.compute_domains import CLIQUE, ComputeDomain, DomainNode
from fairlead.model.devices import DeviceClass, OpaqueConfig
from fairlead.model.gangs import GangSpec, Membership, TopologyRule
from fairlead.model.pods import Pod

CHANNEL = DeviceClass("channel", (f"device.driver == '{DRIVER}'",))
KEY = "fairlead/default/g"


def an_engine_with(*cliques: str) -> Engine:
    """Nodes of these cliques, each with one channel; "": a node without NVLink."""
    nodes = [a_node(f"n{at}", gpus=0, labels={CLIQUE: name} if name else {})
             for at, name in enumerate(cliques)]  # fmt: skip
    engine = an_engine(*nodes)
    show(engine, CHANNEL)
    for node in nodes:
        show(engine, a_slice(node.name, "channel-0", driver=DRIVER))
    return engine


def a_channel(name: str, kind: str = "ComputeDomainChannelConfig") -> ResourceClaim:
    parameters = f'{{"apiVersion":"resource.nvidia.com/v1beta1","kind":"{kind}","domainID":"u-d"}}'
    need = DeviceRequest("r", DeviceNeed("channel"))
    return a_claim(name, requests=(need,), configs=(OpaqueConfig(DRIVER, parameters),))


def a_gang(engine: Engine, count: int, kind: str = "ComputeDomainChannelConfig",
           *rules: TopologyRule) -> list[Pod]:  # fmt: skip
    """So many pods with a channel each."""
    spec = GangSpec(KEY, count, topology=rules)
    for number in range(count):
        show(engine, a_channel(f"c{number}", kind))
    return [a_claiming_pod(f"p{number}", f"c{number}", gang=Membership(KEY, spec=spec))
            for number in range(count)]  # fmt: skip


def nodes_of(engine: Engine, pods: list[Pod]) -> list[str]:
    see(engine, *pods)
    return sorted(asked.node for asked in prepares(engine))


def test_a_gang_with_channels_is_placed_in_one_clique() -> None:
    engine = an_engine_with("a", "b", "b", "a", "b")
    assert nodes_of(engine, a_gang(engine, 3)) == ["n1", "n2", "n4"]


def test_a_gang_that_no_clique_has_room_for_waits() -> None:
    engine = an_engine_with("a", "b", "b", "a")
    see(engine, *a_gang(engine, 3))
    said = {each.message for each in decide(engine) if isinstance(each, AnnounceFailure)}
    assert len(said) == 1
    assert "2 of 3 pods fit" in said.pop()


@pytest.mark.parametrize(
    ("cliques", "kind", "rules"),
    [
        (("", "", ""), "ComputeDomainChannelConfig", ()),
        (("a", "b", "b"), "ComputeDomainDaemonConfig", ()),
        (("a", "b", "b"), "ComputeDomainChannelConfig", (TopologyRule(CLIQUE, required=False),)),
    ],
    ids=["no cliques", "no channel", "a rule of its own"],
)
def test_others_are_placed_anywhere(
    cliques: tuple[str, ...], kind: str, rules: tuple[TopologyRule, ...]
) -> None:
    engine = an_engine_with(*cliques)
    assert nodes_of(engine, a_gang(engine, 3, kind, *rules)) == ["n0", "n1", "n2"]


def test_a_later_pod_joins_the_others() -> None:
    engine = an_engine_with("a", "b", "a", "b")
    first, second = a_gang(engine, 2)
    held = a_channel("c0")
    device = AllocatedDevice("r", DRIVER, "n1", "channel-0")
    show(engine, replace(held, allocation=Allocation((device,)),
                         reserved_for=(a_claim_user(first),)))  # fmt: skip
    see(engine, replace(first, node="n1"))
    assert nodes_of(engine, [second]) == ["n3"]


def test_a_later_pod_joins_the_others_in_the_clique_of_now() -> None:
    """Names of cliques change when their fabric is restarted."""
    engine = an_engine_with("a", "b", "a", "b")
    first, second = a_gang(engine, 2)
    device = AllocatedDevice("r", DRIVER, "n1", "channel-0")
    show(engine, replace(a_channel("c0"), allocation=Allocation((device,)),
                         reserved_for=(a_claim_user(first),)))  # fmt: skip
    see(engine, replace(first, node="n1"))
    for at, clique in enumerate(("x", "y", "y", "x")):
        node = a_node(f"n{at}", gpus=0, labels={CLIQUE: clique})
        engine.handle(NodeSeen(node), now=1.0)
    assert nodes_of(engine, [second]) == ["n2"]


DOMAIN = ComputeDomain("default", "dom", "u-d", num_nodes=3, template="channels")


def told(engine: Engine, pod: Pod) -> str:
    return "\n".join(domain_lines(domains_answer(engine, pod, nodes=True)["computeDomains"]))


def test_the_rule_goes_with_the_labels_of_the_nodes() -> None:
    """NVIDIA's driver was removed, and its labels with it: the gang is placed as any other."""
    engine = an_engine_with("a", "b", "c")
    pods = a_gang(engine, 3)
    see(engine, *pods)
    assert not prepares(engine)
    for number in range(3):
        engine.handle(NodeSeen(a_node(f"n{number}", gpus=0)), now=1.0)
    assert sorted(each.node for each in prepares(engine, now=60.0)) == ["n0", "n1", "n2"]


def test_a_rule_of_the_gang_itself_stays_when_the_labels_are_gone() -> None:
    engine = an_engine_with("a", "b", "c")
    see(engine, *a_gang(engine, 3, "ComputeDomainChannelConfig", TopologyRule(CLIQUE)))
    assert not prepares(engine)
    for number in range(3):
        engine.handle(NodeSeen(a_node(f"n{number}", gpus=0)), now=1.0)
    assert not prepares(engine, now=60.0)


def test_claims_of_the_template_of_a_domain_are_for_its_channels() -> None:
    """Whatever their parameters are: another version of the driver may write others."""
    engine = an_engine_with("a", "b", "b", "a", "b")
    show(engine, DOMAIN)
    pods = a_gang(engine, 3, "OtherConfig")
    assert nodes_of(engine, [_of_template(pod) for pod in pods]) == ["n1", "n2", "n4"]


def _of_template(pod: Pod, **more: str) -> Pod:
    uses = tuple(replace(use, template="channels", **more) for use in pod.request.claims)
    return replace(pod, request=replace(pod.request, claims=uses))


def test_explain_names_the_domain_its_status_and_what_is_missing() -> None:
    engine = an_engine_with("a", "b", "b", "a")
    joined = (DomainNode("n1", "b", is_ready=True), DomainNode("n2", "b"))
    show(engine, replace(DOMAIN, num_nodes=4, nodes=joined))
    pods = a_gang(engine, 3)
    see(engine, *pods)
    decide(engine)
    head, *lines = told(engine, pods[0]).splitlines()
    assert head == "ComputeDomain default/dom: NotReady, 1 of 4 node(s) ready, 2 joined"
    assert lines[:2] == ["  node n1: ready, clique b", "  node n2: not ready, clique b"]
    few, cliques = lines[2:]
    assert "4 nodes are to join (numNodes), and 3 pod(s) use its channels" in few
    assert cliques == "  missing: at most 2 node(s) of one clique (a) fit, and 3 are needed"


@pytest.mark.parametrize(
    ("cliques", "in_gang", "rules", "says"),
    [
        (("",), True, (), "no node has the label nvidia.com/gpu.clique"),
        (("a",), False, (), "the pod is in no gang"),
        (("a",), True, (TopologyRule(CLIQUE, required=False),), "topology rules of its own"),
    ],
    ids=["no cliques", "no gang", "own rules"],
)
def test_explain_says_why_cliques_are_not_considered(
    cliques: tuple[str, ...], in_gang: bool, rules: tuple[TopologyRule, ...], says: str
) -> None:
    engine = an_engine_with(*cliques)
    show(engine, replace(DOMAIN, num_nodes=0, is_ready=True))
    (pod,) = a_gang(engine, 1, "ComputeDomainChannelConfig", *rules)
    see(engine, pod := pod if in_gang else replace(pod, gang=None))
    assert says in told(engine, pod)
    assert "default/dom: Ready, 0 node(s) ready" in told(engine, pod)


def test_a_domain_that_is_gone_is_said_to_be_missing() -> None:
    engine = an_engine_with("a")
    show(engine, DOMAIN)
    (pod,) = a_gang(engine, 1)
    see(engine, pod)
    engine.handle(ClaimObjectGone(DOMAIN), now=1.0)
    assert "its ComputeDomain does not exist" in told(engine, pod)


def test_a_pod_whose_claim_is_not_made_yet_is_told_which_template_it_waits_for() -> None:
    engine = an_engine_with("a")
    show(engine, DOMAIN)
    pod = _of_template(a_claiming_pod("p", "c"), key="")
    assert "NVIDIA's driver makes the template channels" in told(engine, pod)


def test_the_status_of_a_domain_changes_no_view() -> None:
    """It changes with every node that joins: nothing is looked at again for that."""
    engine = an_engine_with("a", "b")
    show(engine, DOMAIN)
    before = engine.cluster.changes.mark, engine.cluster.improved.count
    show(engine, replace(DOMAIN, nodes=(DomainNode("n0", "a"),)))
    assert (engine.cluster.changes.mark, engine.cluster.improved.count) == before
