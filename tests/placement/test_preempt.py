"""Who has to go: every rule of the choice, told with GPUs."""

import random
from dataclasses import replace
from typing import Any

import pytest

from builders import a_node, a_pod, a_taint, drawn, pod_term, selects
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.cluster import Cluster
from fairlead.model.behaviour import KUBERNETES_1_36, KUBERNETES_1_37, Behaviour
from fairlead.model.budgets import Budget
from fairlead.model.nodes import GPU
from fairlead.model.pods import HostPort, NodeTerm
from fairlead.model.selectors import Requirement, SpreadRule
from fairlead.model.storage import VolumeClaim
from fairlead.model.volumes import PodVolumes, VolumeClaimUse
from fairlead.placement.place import Placement
from fairlead.placement.profile import Profile
from fairlead.placement.verdicts import Placed, Refused
from fairlead.plugins.volume_restrictions import VolumeRestrictions
from fairlead.testing.drawn import random_node, random_pod

PROFILE = built_in("gpu-scheduler")


def cluster_of(**nodes: list[dict[str, Any]]) -> Cluster:
    """Four-GPU nodes, and the pods on each: name, gpus, priority and so on."""
    cluster = Cluster()
    for name, pods in nodes.items():
        cluster.put_node(a_node(name, gpus=4, labels={"zone": name}))
        for pod in pods:
            cluster.confirm(a_pod(**{"gpus": 1, "node": name, **pod}))
    return cluster


def refused(cluster: Cluster, profile: Profile = PROFILE, **asks: Any) -> Refused:
    verdict = Placement(profile, cluster).place(a_pod(**{"gpus": 4, "priority": 10, **asks}))
    assert isinstance(verdict, Refused)
    return verdict


def evicted(cluster: Cluster, **asks: Any) -> tuple[str, set[str]]:
    """Where, and who."""
    eviction = refused(cluster, **asks).eviction
    assert eviction is not None
    return eviction.node, {pod.name for pod in eviction.victims}


def p(name: str, priority: int = 0, **more: Any) -> dict[str, Any]:
    return {"name": name, "priority": priority, **more}


CHOICES = {
    "only as many as needed, the least important ones": (
        {"a": [p("x", 1), p("y", 2), p("z", 3), p("w", 4)]},
        {"gpus": 2},
        ("a", {"x", "y"}),
    ),
    "the youngest among equals": (
        {"a": [p("old", started="2026-01-01T00:00:00Z", gpus=2),
               p("young", started="2026-01-02T00:00:00Z", gpus=2)]},
        {"gpus": 2},
        ("a", {"young"}),
    ),
    "who has not started yet is the youngest": (
        {"a": [p("running", started="2026-01-02T00:00:00Z", gpus=2), p("starting", gpus=2)]},
        {"gpus": 2},
        ("a", {"starting"}),
    ),
    "the node whose greatest victim is least": (
        {"a": [p("x", 5, gpus=4)], "b": [p(f"y{n}", 4) for n in range(4)]},
        {},
        ("b", {"y0", "y1", "y2", "y3"}),
    ),
    "then the node with the smaller sum of priorities": (
        {"a": [p("x", 5, gpus=2), p("y", 4, gpus=2)], "b": [p("z", 5, gpus=2), p("w", 3, gpus=2)]},
        {},
        ("b", {"z", "w"}),
    ),
    "few victims count as a small sum, even of negative priorities": (
        {"a": [p(f"x{n}", -5) for n in range(4)], "b": [p("y", -5, gpus=4)]},
        {},
        ("b", {"y"}),
    ),
    "then the node where the greatest victims started last": (
        {"a": [p("x", started="2026-01-01T00:00:00Z", gpus=4)],
         "b": [p("y", started="2026-01-03T00:00:00Z", gpus=4)],
         "c": [p("z", started="2026-01-02T00:00:00Z", gpus=4)]},
        {},
        ("b", {"y"}),
    ),
    "nobody of the same or a higher priority": (
        {"a": [p("x", 10, gpus=4)], "b": [p("y", 9, gpus=4)]},
        {},
        ("b", {"y"}),
    ),
    "a host port is a reason to evict": (
        {"a": [p("x", host_ports=(HostPort(80),)), p("y", host_ports=(HostPort(81),))]},
        {"gpus": 1, "host_ports": (HostPort(80),)},
        ("a", {"x"}),
    ),
    "a pod that must not be near is a reason to evict": (
        {"a": [p("x", labels={"app": "loud"}), p("y", labels={"app": "quiet"})]},
        {"gpus": 1, "namespace": "default", "anti_affinity": (pod_term("zone", app="loud"),)},
        ("a", {"x"}),
    ),
    "a pod that minds us is a reason to evict": (
        {"a": [p("x", anti_affinity=(pod_term("zone", app="me"),)), p("y")]},
        {"gpus": 1, "labels": {"app": "me"}},
        ("a", {"x"}),
    ),
    "a domain that is ahead is a reason to evict": (
        {"a": [p("x", labels={"app": "me"}), p("y")], "b": [p("high", 20, gpus=4)]},
        {"gpus": 1, "labels": {"app": "me"},
         "spread": (SpreadRule("zone", 1, selects(app="me")),)},
        ("a", {"x"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "asks", "expected"), CHOICES.values(), ids=CHOICES.keys())
def test_the_choice(nodes, asks, expected) -> None:
    assert evicted(cluster_of(**nodes), **asks) == expected


def test_nobody_goes_in_vain_for_a_leaving_pod_that_no_domain_counts() -> None:
    """kube-scheduler takes it off the count all the same, and finds room where there is none."""
    mine = {"labels": {"app": "me"}}
    cluster = cluster_of(
        a=[
            p("stays", 20, **mine),
            p("also", 20, **mine),
            p("leaves", deleting=True, **mine),
            p("x"),
        ],
        b=[p("high", 20, gpus=4)],
    )
    rule = SpreadRule("zone", 1, selects(app="me"))
    assert refused(cluster, gpus=1, spread=(rule,)).eviction is None


def budget(allowed: int, **labels: str) -> Budget:
    return Budget("default", "b", selector=selects(**labels), allowed=allowed)


def test_a_node_without_broken_budgets_is_better() -> None:
    cluster = cluster_of(
        a=[p("x", 1, gpus=4, labels={"app": "db"})], b=[p("y", 9, gpus=4, labels={"app": "web"})]
    )
    cluster.budgets["default/b"] = budget(0, app="db")
    assert evicted(cluster) == ("b", {"y"})
    cluster.budgets["default/b"] = budget(1, app="db")
    assert evicted(cluster) == ("a", {"x"})


def test_a_budget_that_is_used_up_protects_its_pods_before_more_important_ones() -> None:
    cluster = cluster_of(
        a=[p("db", 1, gpus=2, labels={"app": "db"}), p("web", 9, gpus=2, labels={"app": "web"})]
    )
    cluster.budgets["default/b"] = budget(0, app="db")
    assert evicted(cluster, gpus=2) == ("a", {"web"})


def test_budgets_are_wishes_and_not_guarantees() -> None:
    cluster = cluster_of(a=[p("x", gpus=4, labels={"app": "db"})])
    cluster.budgets["default/b"] = budget(0, app="db")
    found = refused(cluster).eviction
    assert found is not None
    assert found.violations == 1


@pytest.mark.parametrize(
    "nonsense",
    [
        Budget("default", "b", selector=None, allowed=0),
        Budget("default", "b", selector=selects(), allowed=0),
        Budget("elsewhere", "b", selector=selects(app="db"), allowed=-3),
        Budget("default", "b", selector=selects(app="db"), allowed=0, disrupted=frozenset({"x"})),
    ],
    ids=["no selector", "empty selector", "another namespace", "granted already"],
)
def test_budgets_that_protect_nobody_here(nonsense: Budget) -> None:
    cluster = cluster_of(a=[p("x", gpus=4, labels={"app": "db"})])
    cluster.budgets[nonsense.key] = nonsense
    found = refused(cluster).eviction
    assert found is not None
    assert found.violations == 0


@pytest.mark.parametrize(("behaviour", "violations"), [(KUBERNETES_1_36, 2), (KUBERNETES_1_37, 1)])
def test_what_a_victim_uses_of_its_second_budget(behaviour: Behaviour, violations: int) -> None:
    both, second = {"app": "db", "tier": "x"}, {"tier": "x"}
    cluster = cluster_of(a=[p("x", 2, gpus=2, labels=both), p("y", 1, gpus=2, labels=second)])
    cluster.behaviour = behaviour
    cluster.budgets["default/exhausted"] = budget(0, app="db")
    cluster.budgets["default/other"] = budget(1, tier="x")
    found = refused(cluster).eviction
    assert found is not None
    assert found.violations == violations


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (KUBERNETES_1_36, ""),
        (
            KUBERNETES_1_37,
            " preemption: found a potential placement for pod on node a, preempting 2 victims",
        ),
    ],
)
def test_the_words_when_somebody_is_evicted(behaviour: Behaviour, told: str) -> None:
    cluster = cluster_of(a=[p("x", gpus=2), p("y", gpus=2)])
    cluster.behaviour = behaviour
    message = refused(cluster).message
    assert message == f"0/1 nodes are available: 1 Insufficient nvidia.com/gpu.{told}"


def test_the_words_when_nobody_can_be_evicted() -> None:
    cluster = cluster_of(a=[p("same", 10, gpus=4)], b=[p("less", 9, gpus=1), p("more", 11, gpus=3)])
    cluster.put_node(a_node("c", gpus=4, unschedulable=True))
    cluster.put_node(a_node("small", gpus=2))
    assert refused(cluster).message == (
        "0/4 nodes are available: 1 node(s) were unschedulable, 3 Insufficient nvidia.com/gpu. "
        "no new claims to deallocate, preemption: 0/4 nodes are available: "
        "1 Insufficient nvidia.com/gpu, 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )


def test_a_pod_that_never_preempts_says_so() -> None:
    found = refused(cluster_of(a=[p("x", gpus=4)]), preempts=False)
    assert found.eviction is None
    assert found.nomination is None
    assert found.message.endswith("preemption: not eligible due to preemptionPolicy=Never.")


def test_a_profile_may_forbid_eviction() -> None:
    profile = Profile("gentle", PROFILE.filters, PROFILE.scores, preempts=False)
    found = refused(cluster_of(a=[p("x", gpus=4)]), profile)
    assert found.eviction is None
    assert found.message.endswith("Insufficient nvidia.com/gpu. no new claims to deallocate")
    silent = replace(found, behaviour=KUBERNETES_1_37)
    assert silent.message.endswith("Insufficient nvidia.com/gpu.")


def test_while_its_victims_leave_a_pod_waits() -> None:
    cluster = cluster_of(a=[p("x", gpus=4, deleting=True, evicted=True)], b=[p("y", gpus=4)])
    pod = a_pod(gpus=4, priority=10)
    cluster.nominations.put(pod, "a")
    found = Placement(PROFILE, cluster).place(pod)
    assert found.eviction is None
    assert found.message.endswith("not eligible due to a terminating pod on the nominated node.")


def test_a_nominated_node_is_kept_from_equals_and_lesser_pods() -> None:
    cluster = drawn("a ....", "b ..")
    cluster.nominations.put(a_pod("waiting", gpus=3, priority=5), "a")
    placement = Placement(PROFILE, cluster)
    assert placement.place(a_pod(gpus=4, priority=5)).message.startswith(
        "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims"
    )
    assert placement.place(a_pod(gpus=2, priority=0)) == Placed("b", 100.0)
    assert placement.place(a_pod(gpus=1, priority=5)).node == "b"
    assert placement.place(a_pod(gpus=4, priority=6)).node == "a"


def test_a_pod_goes_to_its_nominated_node_even_if_another_is_better() -> None:
    cluster = drawn("a ####....", "b ..")
    pod = a_pod(gpus=2, priority=5)
    placement = Placement(PROFILE, cluster)
    assert placement.place(pod).node == "b"
    cluster.nominations.put(pod, "a")
    assert placement.place(pod).node == "a"


def test_a_nomination_that_cannot_be_kept_is_forgotten_for_another_place() -> None:
    cluster = drawn("a ####", "b ..")
    pod = a_pod(gpus=2, priority=5)
    cluster.nominations.put(pod, "a")
    assert Placement(PROFILE, cluster).place(pod).node == "b"


def test_a_nominated_pod_counts_for_those_who_must_not_be_near_it() -> None:
    cluster = cluster_of(a=[], b=[p("x", 50, gpus=4)])
    nominated = a_pod("nominated", gpus=1, priority=5, labels={"app": "loud"})
    cluster.nominations.put(nominated, "a")
    asks = {
        "gpus": 1,
        "priority": 0,
        "namespace": "default",
        "anti_affinity": (pod_term("zone", app="loud"),),
    }
    found = refused(cluster, **asks)
    assert "1 node(s) didn't match pod anti-affinity rules" in found.message


def test_a_claim_for_one_pod_is_not_kept_for_a_nominated_pod() -> None:
    """As kube-scheduler has it: it looks for who has the claim only among pods on nodes."""
    cluster = cluster_of(a=[])
    cluster.put_storage(VolumeClaim("default", "data", access_modes=("ReadWriteOncePod",)))
    alone = {"gpus": 1, "volumes": PodVolumes((VolumeClaimUse("default/data"),))}
    cluster.nominations.put(a_pod("nominated", priority=5, **alone), "a")
    rules = Profile("one rule", filters=(VolumeRestrictions(),))
    assert Placement(rules, cluster).place(a_pod(**alone)).node == "a"
    cluster.confirm(a_pod("has-it", priority=50, node="a", **alone))
    assert "ReadWriteOncePod" in refused(cluster, rules, **alone).message


def test_whom_a_nominated_pod_minds_has_to_stay_away_if_anybody_there_minds_it() -> None:
    """As kube-scheduler has it: else nobody asks about affinity at all."""
    cluster = cluster_of(a=[], b=[p("full", 50, gpus=4)])
    loud = {"gpus": 1, "namespace": "default", "labels": {"app": "loud", "tier": "back"}}
    minds = a_pod(
        "minds", priority=5, namespace="default", anti_affinity=(pod_term("zone", app="loud"),)
    )
    cluster.nominations.put(minds, "a")
    placement = Placement(PROFILE, cluster)
    assert placement.place(a_pod(**loud)).node == "a"
    cluster.confirm(
        a_pod(node="b", namespace="default", anti_affinity=(pod_term("zone", tier="back"),))
    )
    found = placement.place(a_pod(**loud)).message
    assert "1 node(s) didn't satisfy existing pods anti-affinity rules" in found
    cluster.nominations.drop(minds.uid)
    assert placement.place(a_pod(**loud)).node == "a"


def test_a_nominated_node_is_asked_even_if_the_pod_names_others() -> None:
    """And who refuses it is named for the others, too: kube-scheduler's words."""
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.put_node(a_node(name, taints=(a_taint("maintenance"),)))
    elsewhere = NodeTerm(fields=(Requirement("metadata.name", "In", ("c",)),))
    pod = a_pod(node_terms=(elsewhere,))
    cluster.nominations.put(pod, "a")
    found = Placement(built_in("default-scheduler"), cluster).place(pod)
    assert dict(found.reasons) == {
        "node(s) didn't satisfy plugin(s) [NodeAffinity TaintToleration]": 1,
        "node(s) had untolerated taint(s)": 1,
    }


def test_what_a_nomination_leaves_short_is_told_even_if_others_left() -> None:
    cluster = cluster_of(a=[p("x", host_ports=(HostPort(80),))])
    nominated = a_pod("nominated", gpus=0, priority=50, host_ports=(HostPort(80),))
    cluster.nominations.put(nominated, "a")
    found = refused(cluster, gpus=1, host_ports=(HostPort(80),))
    assert found.message.endswith(
        "preemption: 0/1 nodes are available: 1 node(s) didn't have free ports for the requested "
        "pod ports."
    )


def test_a_nominated_pod_is_nobody_to_be_near_to() -> None:
    """It may never come: a pod that must be near it has to wait for it."""
    cluster = cluster_of(a=[])
    cluster.nominations.put(a_pod("nominated", gpus=1, priority=5, labels={"app": "web"}), "a")
    asks = {
        "gpus": 1,
        "priority": 0,
        "namespace": "default",
        "required_affinity": (pod_term("zone", app="web"),),
    }
    assert "1 node(s) didn't match pod affinity rules" in refused(cluster, **asks).message


@pytest.mark.parametrize("seed", range(60))
def test_the_choice_is_that_of_a_slow_copy_of_the_rules(seed: int) -> None:
    dice = random.Random(seed)
    cluster = Cluster()
    for number in range(dice.randint(1, 8)):
        cluster.put_node(random_node(dice, f"n{number}"))
    for number in range(dice.randint(5, 60)):
        cluster.confirm(random_pod(dice, number))
    for number in range(dice.choice([0, 0, 2])):
        pod = a_pod(f"nominated-{number}", gpus=2, priority=dice.randint(0, 3))
        cluster.nominations.put(pod, f"n{dice.randint(0, 7)}")
    if dice.random() < 0.5:
        cluster.budgets["default/b"] = budget(dice.randint(0, 3), app=dice.choice("abc"))
    pod = a_pod("asks", gpus=dice.randint(4, 8), priority=dice.randint(0, 3), labels={"app": "b"})
    verdict = Placement(PROFILE, cluster).place(pod)
    found = verdict.eviction if isinstance(verdict, Refused) else None
    expected = slow_evictions(cluster, pod) if isinstance(verdict, Refused) else {}
    if found is None:
        assert not expected
    else:
        best = min(expected.values())
        names = sorted(victim.uid for victim in found.victims)
        assert expected[found.node] == best
        assert names == best_victims(cluster, pod, found.node)


# -- the rules again, slowly, by really taking pods away -------------------------------------------


def fits_on(cluster: Cluster, pod, node: str, without: set[str]) -> bool:
    """Asks a fresh cluster in which the nominated pods are there, and one in which they are not."""
    nominated = [
        other for other in cluster.nominations.on(node)
        if other.priority >= pod.priority and other.uid != pod.uid
    ]  # fmt: skip
    return all(_fits(cluster, pod, node, without, there) for there in (nominated, []))


def _fits(cluster: Cluster, pod, node: str, without: set[str], there) -> bool:
    copy = Cluster()
    for row in cluster.row_of.values():
        copy.put_node(cluster.node_at(row))
    for uid, held in cluster.holdings.items():
        if uid not in without:
            copy.confirm(held.pod)
    for other in there:
        copy.assume(other, node)
    view = Placement(PROFILE, copy).view(pod)
    return bool(view.left[copy.row_of[node]])


def best_victims(cluster: Cluster, pod, node: str) -> list[str]:
    lesser = [other for other in cluster.pods_on(node) if other.priority < pod.priority]
    lesser.sort(key=lambda other: (-other.priority, other.started or "~", other.key))
    gone = {other.uid for other in lesser}
    if not lesser or not fits_on(cluster, pod, node, gone):
        return []
    violating = violating_pods(cluster, lesser)
    for other in sorted(lesser, key=lambda other: other.uid not in violating):
        if fits_on(cluster, pod, node, gone - {other.uid}):
            gone.discard(other.uid)
    return sorted(gone)


def violating_pods(cluster: Cluster, lesser) -> set[str]:
    left = {key: b.allowed for key, b in cluster.budgets.items()}
    found = set()
    for other in lesser:
        for key, b in cluster.budgets.items():
            if b.protects(other):
                left[key] -= 1
                if left[key] < 0:
                    found.add(other.uid)
    return found


def slow_evictions(cluster: Cluster, pod) -> dict[str, tuple]:
    found = {}
    for node in cluster.row_of:
        victims = [cluster.holdings[uid].pod for uid in best_victims(cluster, pod, node)]
        if victims and _resolvable(cluster, pod, node):
            violating = violating_pods(
                cluster,
                sorted(
                    (o for o in cluster.pods_on(node) if o.priority < pod.priority),
                    key=lambda other: (-other.priority, other.started or "~", other.key),
                ),
            )
            found[node] = (
                len([v for v in victims if v.uid in violating]),
                max(v.priority for v in victims),
                sum(v.priority + 2**31 for v in victims),
                len(victims),
            )
    return found


def _resolvable(cluster: Cluster, pod, node: str) -> bool:
    """Nodes that are too small, cordoned or tainted are not looked into."""
    found = cluster.node_at(cluster.row_of[node])
    if found.unschedulable or any(taint.effect != "PreferNoSchedule" for taint in found.taints):
        return False
    return dict(found.allocatable).get(GPU, 0) >= pod.request.amount(GPU)
