"""Gangs with channels of a ComputeDomain are placed in one clique of NVLink."""

from dataclasses import replace

import pytest
from test_gang_claims import prepares, show

from builders import a_node, an_engine, decide, see
from claim_objects import a_claim, a_claim_user, a_claiming_pod, a_slice
from fairlead.engine.engine import Engine
from fairlead.engine.events import NodeSeen
from fairlead.engine.instructions import AnnounceFailure
from fairlead.model.claims import (
    AllocatedDevice,
    Allocation,
    DeviceNeed,
    DeviceRequest,
    ResourceClaim,
)
from fairlead.model.devices import DeviceClass, OpaqueConfig
from fairlead.model.gangs import GangSpec, Membership, TopologyRule
from fairlead.model.pods import Pod

CLIQUE, DRIVER = "nvidia.com/gpu.clique", "compute-domain.nvidia.com"
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
    parameters = f'{{"apiVersion":"resource.nvidia.com/v1beta1","kind":"{kind}","domainID":"d"}}'
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
