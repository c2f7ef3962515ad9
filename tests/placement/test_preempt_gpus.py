"""Making room on GPUs: who has to go, and whose GPUs are spoken for meanwhile."""

from dataclasses import replace
from typing import Any

import pytest

from builders import SCHEDULER, a_node, a_pod, an_engine, decide, see
from fairlead.apps.config.profiles import built_in
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.holdings import Holding
from fairlead.cluster.planned_places import PlannedPlace, planned_places
from fairlead.engine.events import EvictionEnded, PodGone
from fairlead.engine.instructions import Bind, Evict
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory, MigProfile
from fairlead.model.pods import Pod
from fairlead.placement.gpus import GpuPolicy, Occupied, choose
from fairlead.placement.place import Placement
from fairlead.placement.preempt import NOT_HELPFUL
from fairlead.placement.verdicts import Placed, Refused

MIG = (MigProfile("1g.10gb", 1, (0, 1, 2, 3)), MigProfile("3g.40gb", 4, (0,)))


def listed(count: int, **more: Any) -> Inventory:
    gpus = tuple(Gpu(f"GPU-{n}", n, "H100", 80_000, **more) for n in range(count))
    return Inventory(gpus, dialects=frozenset({"fairlead"}))


def on(gpu: int, milli: int = 1000, mib: int = 0) -> Grant:
    return Grant((GpuUse(f"GPU-{gpu}", milli == 1000, milli, mib),), "fairlead")


def share(milli: int, mib: int = 0, gpus: int = 1) -> GpuRequest:
    return GpuRequest(gpus, False, milli, mib, dialect="fairlead")


def held(name: str, grant: Grant, priority: int = 0, **more: Any) -> Pod:
    use = grant.uses[0]
    ask = GpuRequest(len(grant.uses)) if use.whole else share(use.milli, use.memory_mib)
    return a_pod(name, node="n1", grant=grant, priority=priority, gpu_request=ask, **more)


def cluster_of(gpus: Inventory, *pods: Pod) -> Cluster:
    cluster = Cluster()
    cluster.put_node(a_node("n1", gpus=len(gpus.gpus), inventory=gpus))
    for pod in pods:
        cluster.confirm(pod)
    return cluster


def place(cluster: Cluster, ask: GpuRequest, priority: int = 10, **more: Any) -> Placed | Refused:
    pod = a_pod("new", gpu_request=ask, priority=priority, **more)
    return Placement(built_in(SCHEDULER), cluster).place(pod)


def victims(cluster: Cluster, ask: GpuRequest, priority: int = 10) -> set[str]:
    refused = place(cluster, ask, priority)
    assert isinstance(refused, Refused)
    return {pod.name for pod in refused.eviction.victims} if refused.eviction else set()


CHOICES = {
    "for a share only those on one GPU, though all three are equal": (
        (held("a", on(0, 700)), held("b", on(1, 500)), held("c", on(1, 400))),
        share(600),
        ({"a"}, {"b"}),
    ),
    "for a share not the one whose going frees too little": (
        (held("small", on(0, 300)), held("boss", on(0, 600), 20), held("b", on(1, 900))),
        share(600),
        ({"b"},),
    ),
    "for memory who has the memory": (
        (held("much", on(0, 100, 70_000)), held("little", on(0, 500, 5000)),
         held("boss", on(1, 100, 70_000), 20)),
        share(100, 60_000),
        ({"much"},),
    ),
    "for a whole GPU everybody on it": (
        (held("a", on(0, 300)), held("b", on(0, 300)), held("boss", on(1), 20)),
        GpuRequest(1),
        ({"a", "b"},),
    ),
    "for two whole GPUs enough of them, and not who has a third": (
        (held("a", on(0), 1), held("b", on(1), 2), held("c", on(2), 3), held("boss", on(3), 20)),
        GpuRequest(2),
        ({"a", "b"},),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CHOICES)
def test_who_has_to_go(case: str) -> None:
    pods, ask, expected = CHOICES[case]
    gpus = 1 + max(int(use.uuid[4:]) for pod in pods if pod.grant for use in pod.grant.uses)
    assert victims(cluster_of(listed(gpus), *pods), ask) in expected


def test_slices_make_room_for_a_longer_one() -> None:
    def cut(name: str, start: int, priority: int) -> Pod:
        use = GpuUse("GPU-0", False, 0, 0, "1g.10gb", start, 1)
        return a_pod(name, node="n1", grant=Grant((use,)), priority=priority)

    cluster = cluster_of(listed(1, mig=MIG), cut("a", 0, 0), cut("b", 2, 0), cut("c", 6, 0))
    assert victims(cluster, GpuRequest(1, False, 0, profile="3g.40gb")) == {"a", "b"}


HOPELESS = {
    "more memory than a GPU has": (listed(2), share(100, 90_000)),
    "more GPUs than there are": (listed(2), GpuRequest(3)),
    "a slice that no GPU can be cut into": (
        listed(2, mig=MIG), GpuRequest(1, False, 0, profile="7g.80gb"),
    ),
    "more slices than there is room for": (
        listed(2, mig=MIG), GpuRequest(3, False, 0, profile="3g.40gb"),
    ),
    "GPUs that are out of order": (listed(2, healthy=False), GpuRequest(1)),
}  # fmt: skip


@pytest.mark.parametrize("case", HOPELESS)
def test_evicting_is_not_said_to_help_where_it_would_not(case: str) -> None:
    gpus, ask = HOPELESS[case]
    cluster = cluster_of(gpus, held("a", on(0, 500)), held("b", on(1, 500)))
    refused = place(cluster, ask)
    assert isinstance(refused, Refused)
    assert refused.eviction is None
    assert refused.no_eviction == f"0/1 nodes are available: 1 {NOT_HELPFUL}."


def nominated(cluster: Cluster, ask: GpuRequest, priority: int = 10) -> None:
    pod = a_pod("first", gpu_request=ask, priority=priority)
    cluster.nominations.put(pod, "n1")


def test_a_nominated_gpu_is_kept_from_equals_while_its_victim_leaves() -> None:
    """GPU 0 has a victim with a third of it. What is free beside it is part of the promise."""
    leaving = held("victim", on(0, 300), deleting=True)
    cluster = cluster_of(listed(1), leaving)
    nominated(cluster, GpuRequest(1))
    assert isinstance(place(cluster, share(500), priority=10), Refused)
    assert isinstance(place(cluster, share(500), priority=5), Refused)
    assert isinstance(place(cluster, share(500), priority=11), Placed)


def test_others_get_other_gpus_than_the_nominated_one() -> None:
    """Shares are packed: without the promise the fuller GPU 0 would be taken."""
    leaving = held("victim", on(0, 300), deleting=True)
    cluster = cluster_of(listed(2), leaving, held("boss", on(1, 100), 20))
    nominated(cluster, GpuRequest(1))
    found = place(cluster, share(500))
    assert isinstance(found, Placed)
    assert found.grant is not None
    assert [use.uuid for use in found.grant.uses] == ["GPU-1"]


def test_a_planned_gpu_is_not_used_if_it_is_the_nominated_one() -> None:
    cluster = cluster_of(listed(2), held("boss", on(1, 100), 20))
    planned = {"new": PlannedPlace("n1", on(0, 500))}
    with planned_places(cluster, planned):
        free = place(cluster, share(500), uid="new")
        nominated(cluster, GpuRequest(1))
        kept = place(cluster, share(500), uid="new")
    assert isinstance(free, Placed)
    assert isinstance(kept, Placed)
    assert (free.grant, kept.grant) == (on(0, 500), on(1, 500))


def test_a_nominated_share_counts_on_one_gpu() -> None:
    """As long as its victim is there as well, nobody of equal rank comes at all."""
    leaving = held("victim", on(0, 700), deleting=True)
    cluster = cluster_of(listed(1), leaving)
    nominated(cluster, share(800))
    assert isinstance(place(cluster, share(200)), Refused)
    cluster.remove(leaving.uid)
    assert isinstance(place(cluster, share(300)), Refused)
    assert isinstance(place(cluster, share(200)), Placed)


def test_two_nominations_are_two_gpus() -> None:
    cluster = cluster_of(listed(3))
    nominated(cluster, GpuRequest(2))
    assert isinstance(place(cluster, GpuRequest(2)), Refused)
    found = place(cluster, GpuRequest(1))
    assert isinstance(found, Placed)


def test_a_gpu_that_only_expected_pods_would_use_is_as_idle_as_it_is() -> None:
    """Somebody whose GPU nobody knows has the one idle GPU, whoever is expected there."""
    unknown = held("unknown", Grant((GpuUse(""),)))
    cluster = cluster_of(listed(1), unknown)
    devices, row = cluster.columns.devices, cluster.row_of["n1"]
    now = Occupied.of(devices, row)
    with cluster.draft(row) as draft:
        draft.add(Holding.of(held("expected", on(0, 300)), "n1", assumed=False))
        assert choose(share(300), devices, row, GpuPolicy.PACK) is not None
        assert choose(share(300), devices, row, GpuPolicy.PACK, now) is None


def test_a_nomination_leaves_no_trace_in_the_ledger() -> None:
    cluster = cluster_of(listed(2), held("victim", on(0, 300), deleting=True))
    nominated(cluster, GpuRequest(1))
    before = cluster.columns.devices.milli_free.copy()
    place(cluster, share(500))
    assert (cluster.columns.devices.milli_free == before).all()
    assert cluster.columns.devices.elsewhere.sum() == 0


def test_the_preemptor_gets_the_gpu_and_who_was_blocked_is_woken_when_it_goes() -> None:
    victim = held("victim", on(0), scheduler="other")
    engine = an_engine(a_node("n1", gpus=1, inventory=listed(1)))
    see(engine, victim)
    boss = a_pod("boss", gpu_request=GpuRequest(1), gpus=1, priority=10)
    evicts = [made for made in decide_on(engine, boss) if isinstance(made, Evict)]
    assert [pod.name for pod in evicts[0].victims] == ["victim"]
    see(engine, replace(victim, deleting=True))
    equal = a_pod("equal", gpu_request=share(100), priority=10)
    assert not [made for made in decide_on(engine, equal) if isinstance(made, Bind)]
    engine.handle(PodGone(victim), now=3.0)
    engine.handle(EvictionEnded(boss.uid), now=3.0)
    assert [made.pod.name for made in decide(engine, now=20.0) if isinstance(made, Bind)] == [
        "boss"
    ]


def test_a_nomination_taken_back_wakes_who_was_kept_out_by_it() -> None:
    engine = an_engine(a_node("n1", gpus=1, inventory=listed(1)))
    boss = a_pod("boss", gpu_request=GpuRequest(1), priority=10, nominated="n1", gates=("wait",))
    engine.cluster.nominations.put(boss, "n1")
    equal = a_pod("equal", gpu_request=share(100), priority=10)
    assert not [made for made in decide_on(engine, equal) if isinstance(made, Bind)]
    engine.handle(PodGone(boss), now=3.0)
    assert [made.pod.name for made in decide(engine, now=20.0) if isinstance(made, Bind)] == [
        "equal"
    ]


def test_a_nominated_pod_finds_no_gpu_that_is_free_with_others_and_without() -> None:
    """GPU 1 has room without the others, and GPU 0 only when they have come."""
    unknown, beside = held("unknown", Grant((GpuUse(""),))), held("beside", on(1, 100), 10)
    cluster = cluster_of(listed(2, sharers=2), unknown, beside)
    pods = [a_pod(name, gpu_request=share(10), priority=10) for name in ("one", "two", "three")]
    for pod in pods:
        cluster.nominations.put(pod, "n1")
    assert isinstance(Placement(built_in(SCHEDULER), cluster).place(pods[2]), Refused)


def decide_on(engine, pod: Pod) -> list[Any]:
    see(engine, pod, now=1.0)
    return decide(engine, now=2.0)
