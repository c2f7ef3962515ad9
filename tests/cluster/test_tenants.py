"""What tenants hold, kept step by step, beside the same counted from raw holdings."""

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from builders import a_node, a_pod
from examples import examples
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import Gpu, GpuUse, Grant, Inventory
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod

NODES = ("n1", "n2")
TEAM = "team"
T4 = "fairlead.dev/gpu-T4"
UIDS = st.sampled_from([f"u{number}" for number in range(6)])
TEAMS = st.sampled_from(["red", "blue", ""])
GRANTS = st.none() | st.builds(
    lambda milli, mib: Grant((GpuUse("GPU-0", whole=False, milli=milli, memory_mib=mib),)),
    st.integers(0, 400),
    st.integers(0, 4000),
)
STEPS = st.lists(st.tuples(st.booleans(), UIDS, TEAMS, st.sampled_from(NODES), GRANTS), max_size=6)

Counted = dict[str, tuple[int, dict[str, int]]]


def team_of(pod: Pod) -> str:
    return pod.labels.get(TEAM, pod.namespace)


def from_holdings(cluster: Cluster, bound_as: dict[str, str]) -> Counted:
    """By the team that each pod had when it came to its node."""
    found: Counted = {}
    for uid, held in cluster.holdings.items():
        pods, amounts = found.get(bound_as[uid], (0, {}))
        uses = held.grant.uses if held.grant else ()
        milli = sum(max(use.milli, use.memory_mib * 1000 // 16_000, 1) for use in uses)
        milli = milli if uses else 1000 * dict(held.amounts).get(GPU, 0)
        one = {"pods": 1, "cpu": dict(held.amounts).get("cpu", 0), GPU: milli, T4: milli}
        found[bound_as[uid]] = pods + 1, dict(Counter(amounts) + Counter(one))
    return found


def kept(cluster: Cluster) -> Counted:
    assert cluster.tenants is not None
    return {tenant: (use.pods, dict(+use.amounts)) for tenant, use in cluster.tenants}


def listed_node(name: str):
    gpus = tuple(Gpu(f"GPU-{number}", number, "T4", 16_000) for number in range(2))
    return a_node(name, inventory=Inventory(gpus))


class TenantsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        #: By uid; no edit changes it.
        self.bound_as: dict[str, str] = {}
        self.cluster.count_tenants(team_of)
        for name in NODES:
            self.cluster.put_node(listed_node(name))

    def bind(self, pod: Pod) -> None:
        if pod.uid not in self.cluster.holdings:
            self.bound_as[pod.uid] = team_of(pod)

    def pod(self, uid: str, team: str, **more: object) -> Pod:
        labels = {TEAM: team} if team else {}
        return a_pod(uid, uid=uid, labels=labels, **more)

    @rule(uid=UIDS, team=TEAMS, gpus=st.integers(0, 2), node=st.sampled_from(NODES), grant=GRANTS)
    def a_pod_is_seen_on_a_node(self, uid, team, gpus, node, grant) -> None:
        pod = self.pod(uid, team, gpus=gpus, cpu=100, node=node, grant=grant)
        self.bind(pod)
        self.cluster.confirm(pod)

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
            pod = self.pod(uid, team, cpu=300)
            self.bind(pod)
            self.cluster.assume(pod, node, grant)

    @rule(uid=UIDS)
    def a_pod_ends(self, uid) -> None:
        self.cluster.remove(uid)

    @rule(steps=STEPS, commits=st.booleans())
    def a_trial(self, steps, commits) -> None:
        before = dict(self.bound_as)
        with self.cluster.trial() as trial:
            for assumes, uid, team, node, grant in steps:
                if assumes and uid not in self.cluster.holdings:
                    pod = self.pod(uid, team, cpu=700)
                    self.bind(pod)
                    trial.assume(pod, node, grant)
                elif not assumes:
                    trial.evict(uid)
            self.tenants_have_what_their_pods_hold()
            if commits:
                trial.commit()
        if not commits:
            self.bound_as = before

    @rule(node=st.sampled_from(NODES))
    def a_node_goes_and_comes_back(self, node) -> None:
        self.cluster.remove_node(node)
        self.tenants_have_what_their_pods_hold()
        self.cluster.put_node(listed_node(node))

    @rule()
    def counting_begins_again(self) -> None:
        self.cluster.count_tenants(team_of)
        holdings = self.cluster.holdings.items()
        self.bound_as = {uid: team_of(held.pod) for uid, held in holdings}

    @invariant()
    def tenants_have_what_their_pods_hold(self) -> None:
        assert kept(self.cluster) == from_holdings(self.cluster, self.bound_as)


TestTenants = TenantsMachine.TestCase
TestTenants.settings = examples(60, steps=25)


def test_nothing_is_counted_until_it_is_asked_for() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("n1"))
    cluster.confirm(a_pod("early", gpus=2, node="n1"))
    assert cluster.tenants is None

    tenants = cluster.count_tenants(lambda pod: pod.namespace)
    assert tenants.use_of("default").amounts[GPU] == 2000
    assert tenants.use_of("other").pods == 0
