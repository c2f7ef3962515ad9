"""Gangs whose rules mean objects that describe the topology: these come, change and go."""

from builders import a_node, a_pod, an_engine, decide, see
from fairlead.engine.engine import Engine
from fairlead.engine.events import GangSeen, HyperNodeSeen, TopologySeen
from fairlead.engine.instructions import AnnounceFailure, Bind, Instruction
from fairlead.engine.reasons import UNSCHEDULABLE, WAITING_FOR_GANG
from fairlead.model.gangs import GangSpec, Membership, TopologyRule
from fairlead.model.hyper_nodes import HyperNode
from fairlead.model.topology import TIER, Topology, TopologyLevel

RACK = "example.com/rack"
RACKS = Topology((TopologyLevel(RACK),))


def four_nodes() -> Engine:
    """Two in each rack, with two GPUs each."""
    return an_engine(*(a_node(f"n{n}", gpus=2, labels={RACK: str(n // 2)}) for n in range(4)))


def gang(engine: Engine, key: str, count: int, rule: TopologyRule) -> None:
    engine.handle(GangSeen(GangSpec(key, count, topology=(rule,))), now=0.0)
    see(
        engine,
        *(a_pod(f"p{n}", uid=f"p{n}", gpus=1, gang=Membership(key, rank=n)) for n in range(count)),
    )


def nodes(made: list[Instruction]) -> set[str]:
    return {each.node for each in made if isinstance(each, Bind)}


def reasons(made: list[Instruction]) -> set[tuple[str, str]]:
    return {(each.reason, each.message) for each in made if isinstance(each, AnnounceFailure)}


def test_a_gang_waits_for_the_topology_that_it_names() -> None:
    """It is no lack of nodes, so no autoscaler may be asked for some."""
    engine = four_nodes()
    gang(engine, "kai/default/job", 3, TopologyRule(RACK, topology="kai/cluster"))
    assert decide(engine, now=1.0) == []
    waiting = reasons(engine.tend(now=10.0))
    assert waiting == {
        (WAITING_FOR_GANG, "the Topology cluster of kai, which it names, does not exist; create it")
    }
    engine.handle(TopologySeen("kai/cluster", RACKS), now=11.0)
    assert len(nodes(decide(engine, now=12.0))) == 2


def test_a_level_that_the_topology_does_not_have_is_named() -> None:
    engine = four_nodes()
    engine.handle(TopologySeen("kai/cluster", RACKS), now=0.0)
    gang(engine, "kai/default/job", 3, TopologyRule("block", topology="kai/cluster"))
    assert decide(engine, now=1.0) == []
    assert "has no level block" in reasons(engine.tend(now=10.0)).pop()[1]
    more = Topology((TopologyLevel("block"), TopologyLevel(RACK)))
    engine.handle(TopologySeen("kai/cluster", more), now=11.0)
    assert reasons(decide(engine, now=12.0)).pop()[0] == UNSCHEDULABLE  # no node has the label


def test_a_topology_that_goes_holds_back_what_is_not_placed_yet() -> None:
    engine = four_nodes()
    engine.handle(TopologySeen("kai/cluster", RACKS), now=0.0)
    gang(engine, "kai/default/job", 3, TopologyRule(RACK, topology="kai/cluster"))
    engine.handle(TopologySeen("kai/cluster", None), now=0.5)
    assert decide(engine, now=1.0) == []


def test_a_gang_is_placed_in_a_hyper_node_and_woken_by_it() -> None:
    engine = four_nodes()
    gang(engine, "volcano/default/job", 4, TopologyRule(f"{TIER}1"))
    reason, message = reasons(decide(engine, now=1.0)).pop()
    assert reason == UNSCHEDULABLE
    assert "no node has the label topology.volcano.sh/tier-1" in message
    for name, members in (("s0", {"n0", "n3"}), ("s1", {"n1"})):
        found = HyperNode(name, 1, nodes=frozenset(members))
        engine.handle(HyperNodeSeen(name, found), now=2.0)
    assert nodes(decide(engine, now=30.0)) == {"n0", "n3"}


def test_hyper_nodes_that_contradict_each_other_are_said_to_who_waits() -> None:
    engine = four_nodes()
    for name in ("s0", "s1"):
        found = HyperNode(name, 1, nodes=frozenset({"n0", "n1"}))
        engine.handle(HyperNodeSeen(name, found), now=0.0)
    gang(engine, "volcano/default/job", 4, TopologyRule(f"{TIER}1"))
    assert (
        "the HyperNodes s0 and s1 of tier 1 contain the same nodes"
        in (reasons(decide(engine, now=1.0)).pop()[1])
    )
