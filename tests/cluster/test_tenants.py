"""What tenants hold, kept step by step, beside the same counted from raw holdings."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from builders import a_node, a_pod
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import Gpu, GpuUse, Grant, Inventory
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod

NODES = ("n1", "n2")
TEAM = "team"
UIDS = st.sampled_from([f"u{number}" for number in range(6)])
TEAMS = st.sampled_from(["red", "blue", ""])
GRANTS = st.none() | st.builds(
    lambda milli, mib: Grant((GpuUse("GPU-0", whole=False, milli=milli, memory_mib=mib),)),
    st.integers(0, 400),
    st.integers(0, 4000),
)
STEPS = st.lists(st.tuples(st.booleans(), UIDS, TEAMS, st.sampled_from(NODES), GRANTS), max_size=6)

Counted = dict[str, tuple[int, dict[str, int], int, int]]


def team_of(pod: Pod) -> str:
    return pod.labels.get(TEAM, pod.namespace)


def from_holdings(cluster: Cluster) -> Counted:
    found: Counted = {}
    for held in cluster.holdings.values():
        pods, amounts, milli, mib = found.get(team_of(held.pod), (0, {}, 0, 0))
        uses = held.grant.uses if held.grant else ()
        found[team_of(held.pod)] = (
            pods + 1,
            dict(Counter(amounts) + Counter(dict(held.amounts))),
            milli + sum(use.milli for use in uses),
            mib + sum(use.memory_mib for use in uses),
        )
    return found


def kept(cluster: Cluster) -> Counted:
    assert cluster.tenants is not None
    return {
        tenant: (use.pods, dict(+use.amounts), use.gpu_milli, use.gpu_mib)
        for tenant, use in cluster.tenants
    }


def listed_node(name: str):
    gpus = tuple(Gpu(f"GPU-{number}", number, "T4", 16_000) for number in range(2))
    return a_node(name, inventory=Inventory(gpus))


class TenantsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.cluster.count_tenants(team_of)
        for name in NODES:
            self.cluster.put_node(listed_node(name))

    def pod(self, uid: str, team: str, **more: object) -> Pod:
        labels = {TEAM: team} if team else {}
        return a_pod(uid, uid=uid, labels=labels, **more)

    @rule(uid=UIDS, team=TEAMS, gpus=st.integers(0, 2), node=st.sampled_from(NODES), grant=GRANTS)
    def a_pod_is_seen_on_a_node(self, uid, team, gpus, node, grant) -> None:
        self.cluster.confirm(self.pod(uid, team, gpus=gpus, cpu=100, node=node, grant=grant))

    @rule(uid=UIDS, team=TEAMS)
    def a_pod_changes_its_team(self, uid, team) -> None:
        held = self.cluster.holdings.get(uid)
        if held is not None:
            amounts = dict(held.amounts)
            pod = self.pod(uid, team, gpus=amounts.get(GPU, 0), cpu=100, node=held.node,
                           grant=held.grant)  # fmt: skip
            self.cluster.confirm(pod)

    @rule(uid=UIDS, team=TEAMS, node=st.sampled_from(NODES), grant=GRANTS)
    def a_pod_is_assumed(self, uid, team, node, grant) -> None:
        if uid not in self.cluster.holdings:
            self.cluster.assume(self.pod(uid, team, cpu=300), node, grant)

    @rule(uid=UIDS)
    def a_pod_ends(self, uid) -> None:
        self.cluster.remove(uid)

    @rule(steps=STEPS, commits=st.booleans())
    def a_trial(self, steps, commits) -> None:
        with self.cluster.trial() as trial:
            for assumes, uid, team, node, grant in steps:
                if assumes and uid not in self.cluster.holdings:
                    trial.assume(self.pod(uid, team, cpu=700), node, grant)
                elif not assumes:
                    trial.evict(uid)
            self.tenants_have_what_their_pods_hold()
            if commits:
                trial.commit()

    @rule(node=st.sampled_from(NODES))
    def a_node_goes_and_comes_back(self, node) -> None:
        self.cluster.remove_node(node)
        self.tenants_have_what_their_pods_hold()
        self.cluster.put_node(listed_node(node))

    @rule()
    def counting_begins_again(self) -> None:
        self.cluster.count_tenants(team_of)

    @invariant()
    def tenants_have_what_their_pods_hold(self) -> None:
        assert kept(self.cluster) == from_holdings(self.cluster)


TestTenants = TenantsMachine.TestCase
TestTenants.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_nothing_is_counted_until_it_is_asked_for() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("n1"))
    cluster.confirm(a_pod("early", gpus=2, node="n1"))
    assert cluster.tenants is None

    tenants = cluster.count_tenants(lambda pod: pod.namespace)
    assert tenants.use_of("default").amounts[GPU] == 2
    assert tenants.use_of("other").pods == 0
