"""GPUs of claims, shown for the pods that use them."""

from dataclasses import replace

from builders import a_node
from claim_objects import (
    GPU_CLASS,
    a_claim,
    a_claim_user,
    a_claiming_pod,
    a_device,
    a_slice,
    an_allocation,
)
from fairlead.cluster import claiming
from fairlead.cluster.capacity import all_gpu_models
from fairlead.cluster.claimed_grants import claimed_grants, with_claimed
from fairlead.cluster.cluster import Cluster
from fairlead.model.devices import CounterSet
from fairlead.telemetry.latest import ReadingStore
from fairlead.telemetry.reporting import gpu_rows, pod_rows
from fairlead.telemetry.sampling import holds_gpus, sample
from fairlead.telemetry.usage import UsageBook

SLICE = "gpu-1-mig-1g10gb-19-2"


def a_cluster() -> Cluster:
    """Two pods share the claim of gpu-0; a third one has a slice of gpu-1."""
    cluster = Cluster()
    cluster.put_node(a_node("n1", gpus=0))
    uses = CounterSet("s", (("memory-slice-2", 1),))
    part = a_device(SLICE, type="mig", parentUUID="GPU-n1-1")
    part = replace(part, form=replace(part.form, consumes=(uses,)))
    counters = a_slice("n1", counter_sets=(uses,), name="0", slice_count=2)
    devices = a_slice("n1", "gpu-0", part, name="1", slice_count=2)
    first, second, third = (a_claiming_pod(name, "ab"[name == "c"]) for name in "xyc")
    for each in (
        GPU_CLASS, counters, devices,
        a_claim("a", allocation=an_allocation("n1", "gpu-0"),
                reserved_for=(a_claim_user(first), a_claim_user(second))),
        a_claim("b", allocation=an_allocation("n1", SLICE), reserved_for=(a_claim_user(third),)),
    ):  # fmt: skip
        claiming.put(cluster, each)
    for pod in (first, second, third):
        cluster.confirm(replace(pod, node="n1"))
    return cluster


def test_a_claim_is_shown_for_the_first_pod_that_it_is_reserved_for() -> None:
    cluster = a_cluster()
    grants = claimed_grants(cluster)
    held = {each.pod.name: with_claimed(each, grants) for each in cluster.holdings.values()}

    assert [name for name, each in held.items() if holds_gpus(each)] == ["x", "c"]
    assert held["x"].grant is not None
    assert held["x"].grant.uses[0].uuid == "GPU-n1-0"
    assert held["c"].grant is not None
    (use,) = held["c"].grant.uses
    assert (use.uuid, use.profile, use.mask) == ("GPU-n1-1", "1g.10gb", 0b100)


def test_top_shows_pods_and_gpus_of_claims() -> None:
    cluster, book, latest = a_cluster(), UsageBook(), ReadingStore()
    grants = claimed_grants(cluster)
    for each in cluster.holdings.values():
        held = with_claimed(each, grants)
        if holds_gpus(held):
            book.add(held.pod.uid, sample(held, cluster, latest.on("n1", 1.0)), 1.0)

    pods = {row.name: row for row in pod_rows(cluster, book, 2.0, 60.0, lambda _: True)}
    gpus = {row.uuid: row for row in gpu_rows(cluster, latest, 2.0, lambda _: True)}

    assert (pods.keys(), pods["x"].held, pods["x"].asked) == ({"x", "c"}, 1.0, "1")
    assert (pods["c"].asked, pods["c"].isolation) == ("1g.10gb", "mig")
    assert [holder.pod for holder in gpus["GPU-n1-0"].holders] == ["default/x"]


def test_a_cluster_without_claims_has_nothing_to_look_for() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("n1", gpus=2))

    assert claimed_grants(cluster) == {}


def test_gpus_that_only_a_driver_publishes_are_counted() -> None:
    cluster = a_cluster()
    cluster.put_node(a_node("n2", gpus=4))

    assert sum(all_gpu_models(cluster).values()) == 2 + 4
