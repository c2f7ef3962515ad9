"""Whatever happens in whatever order, the columns equal the sum of the holdings."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from builders import a_node, a_pod
from examples import examples
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.model.nodes import GPU
from fairlead.model.pods import HostPort

NODES = st.sampled_from(["n1", "n2", "n3"])
UIDS = st.sampled_from([f"u{number}" for number in range(6)])
GPUS = st.integers(0, 4)


class Occupancy(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()

    @rule(node=NODES, gpus=GPUS)
    def node_seen(self, node: str, gpus: int) -> None:
        self.cluster.put_node(a_node(node, gpus=gpus))

    @rule(node=NODES)
    def node_gone(self, node: str) -> None:
        self.cluster.remove_node(node)

    @rule(uid=UIDS, node=NODES, gpus=GPUS, port=st.booleans(), priority=st.integers(-2, 2))
    def assumed(self, uid: str, node: str, gpus: int, port: bool, priority: int) -> None:
        if uid not in self.cluster.holdings:
            ports = (HostPort(80),) if port else ()
            pod = a_pod(uid=uid, gpus=gpus, host_ports=ports, priority=priority)
            self.cluster.assume(pod, node)

    @rule(uid=UIDS, node=NODES, gpus=GPUS)
    def confirmed(self, uid: str, node: str, gpus: int) -> None:
        self.cluster.confirm(a_pod(uid=uid, gpus=gpus, node=node))

    @rule(uid=UIDS, node=NODES, priority=st.integers(-2, 2), gpus=GPUS)
    def nominated(self, uid: str, node: str, priority: int, gpus: int) -> None:
        self.cluster.nominations.put(a_pod(uid=uid, gpus=gpus, priority=priority), node)

    @rule(uid=UIDS)
    def unnominated(self, uid: str) -> None:
        self.cluster.nominations.drop(uid)

    @rule(uid=UIDS)
    def removed(self, uid: str) -> None:
        self.cluster.remove(uid)

    @invariant()
    def columns_equal_holdings(self) -> None:
        nodes = self.cluster.nodes
        for name, row in self.cluster.row_of.items():
            held = [h for h in self.cluster.holdings.values() if h.node == name]
            assert nodes.requested(GPU)[row] == self.gpus(held)
            assert nodes.requested("pods")[row] == len(held)
            assert nodes.port_taken(HostPort(80))[row] == any(h.ports for h in held)
            for priority in (-1, 0, 2):
                lesser = [h for h in held if h.pod.priority < priority]
                index = self.cluster.columns.resource_index
                evictable = self.cluster.evictable(a_pod(priority=priority))[:, row]
                assert evictable[index["pods"]] == len(lesser)
                assert evictable[index[GPU]] == self.gpus(lesser)

    def gpus(self, held: list[Holding]) -> int:
        return sum(dict(h.amounts).get(GPU, 0) for h in held)

    @invariant()
    def nominated_amounts_add_up(self) -> None:
        nominations = self.cluster.nominations
        pods = self.cluster.columns.resource_index["pods"]
        for name, row in self.cluster.row_of.items():
            strangers = [a_pod(priority=priority) for priority in (-1, 0, 2)]
            for asking in (*strangers, *nominations.on(name)):
                rows, amounts = nominations.amounts_against(asking) or ((), ())
                counts = dict(zip(rows, amounts[pods], strict=True)) if len(rows) else {}
                assert counts.get(row, 0) == len(nominations.against(asking, name))

    @invariant()
    def every_row_has_its_node(self) -> None:
        for name, row in self.cluster.row_of.items():
            assert self.cluster.node_at(row).name == name
        assert int(self.cluster.nodes.present().sum()) == len(self.cluster)


Occupancy.TestCase.settings = examples(60, steps=30)
TestOccupancy = Occupancy.TestCase
