"""What resource claims count for in queues: GPUs, once for each claim."""

from dataclasses import replace

import pytest

from builders import a_node, a_pod
from claim_objects import GPU_CLASS, a_claim, a_claim_user, a_claiming_pod, a_slice, an_allocation
from fairlead.cluster import claiming
from fairlead.cluster.cluster import Cluster
from fairlead.model.claim_uses import ClaimUse
from fairlead.model.claims import ClaimObject, ClaimUser, DeviceNeed, DeviceRequest
from fairlead.model.devices import DeviceClass
from fairlead.model.nodes import GPU
from fairlead.model.pods import Pod
from fairlead.model.queues import GPUS
from fairlead.queue.quotas.asks import asked_together

GROUP = ClaimUser("u-g", "g", "podgroups", "scheduling.k8s.io")


def a_cluster(*objects: ClaimObject) -> Cluster:
    cluster = Cluster()
    cluster.put_node(a_node("n1", gpus=0))
    for each in (GPU_CLASS, a_slice("n1", "gpu-0", "gpu-1"), *objects):
        claiming.put(cluster, each)
    return cluster


def asked(cluster: Cluster, pod: Pod) -> int:
    return dict(cluster.charges.of_request(pod.request)).get(GPUS, 0)


def used(cluster: Cluster, tenant: str = "team") -> int:
    assert cluster.tenants is not None
    return cluster.tenants.use_of(tenant).amounts[GPUS]


def test_a_pending_pod_counts_for_what_its_claims_ask_for() -> None:
    other = DeviceRequest("r", DeviceNeed("nic"))
    cluster = a_cluster(a_claim("a", count=2), a_claim("b", requests=(other,)))
    claiming.put(cluster, DeviceClass("nic", ("device.driver == 'nic.example'",)))

    assert asked(cluster, a_claiming_pod("p", "a")) == 2000
    assert asked(cluster, a_claiming_pod("p", "a", "a")) == 2000, "one claim, named twice"
    assert asked(cluster, a_claiming_pod("p", "b")) == 0, "no GPU"


def test_a_claim_that_pods_share_counts_once() -> None:
    cluster = a_cluster(a_claim("a"))
    cluster.count_tenants(lambda _pod: "team")
    first, second = a_claiming_pod("first", "a"), a_claiming_pod("second", "a")
    cluster.assume(first, "n1")
    assert used(cluster) == 1000

    users = a_claim_user(first), a_claim_user(second)
    held = a_claim("a", allocation=an_allocation("n1", "gpu-0"), reserved_for=users[:1])
    claiming.put(cluster, held)
    assert asked(cluster, second) == 0
    cluster.confirm(replace(second, node="n1"))
    claiming.put(cluster, replace(held, reserved_for=users))
    assert used(cluster) == 1000

    cluster.remove(first.uid)
    claiming.put(cluster, replace(held, reserved_for=users[1:]))
    assert used(cluster) == 1000, "the other pod counts for it now"


def test_a_claim_of_a_group_counts_once_for_a_pod_with_a_node() -> None:
    cluster = a_cluster(a_claim("a"))
    cluster.count_tenants(lambda _pod: "team")
    use = ClaimUse("a", "default/a", group="default/g")
    pods = [a_pod(name, claims=(use,)) for name in ("first", "second", "third")]
    claiming.put(
        cluster, a_claim("a", allocation=an_allocation("n1", "gpu-0"), reserved_for=(GROUP,))
    )
    assert asked(cluster, pods[0]) == 1000, "no pod counts for it yet"
    for pod in pods:
        cluster.confirm(replace(pod, node="n1"))
        assert used(cluster) == 1000
        assert asked(cluster, pods[-1]) == 0

    for pod in pods[:2]:
        cluster.remove(pod.uid)
        assert used(cluster) == 1000, "another pod counts for it now"
    cluster.remove(pods[2].uid)
    assert used(cluster) == 0


def test_a_claim_of_a_group_counts_once_for_pods_that_had_nodes_before_it_was_reserved() -> None:
    cluster = a_cluster(a_claim("a"))
    cluster.count_tenants(lambda _pod: "team")
    use = ClaimUse("a", "default/a", group="default/g")
    pods = [a_pod(name, claims=(use,)) for name in ("first", "second", "third")]
    for pod in pods:
        cluster.assume(pod, "n1")
        assert used(cluster) == 1000
    held = a_claim("a", allocation=an_allocation("n1", "gpu-0"), reserved_for=(GROUP,))
    claiming.put(cluster, held)
    assert used(cluster) == 1000

    cluster.remove(pods[0].uid)
    assert used(cluster) == 1000, "another pod counts for it now"
    for pod in pods[1:]:
        cluster.remove(pod.uid)
    assert used(cluster) == 0


def test_a_claim_of_a_group_counts_after_a_pod_outside_the_group_used_it() -> None:
    cluster = a_cluster(a_claim("a"))
    cluster.count_tenants(lambda _pod: "team")
    use = ClaimUse("a", "default/a", group="default/g")
    first, later = (a_pod(name, claims=(use,)) for name in ("first", "later"))
    other = a_claiming_pod("other", "a")
    held = a_claim("a", allocation=an_allocation("n1", "gpu-0"), reserved_for=(GROUP,))
    claiming.put(cluster, held)
    for pod in (first, other):
        cluster.confirm(replace(pod, node="n1"))
    for pod in (first, other):
        cluster.remove(pod.uid)
    cluster.confirm(replace(later, node="n1"))

    assert used(cluster) == 1000


def test_a_bound_pod_counts_for_a_claim_of_its_group_that_is_seen_later() -> None:
    cluster = a_cluster()
    cluster.count_tenants(lambda _pod: "team")
    pod = a_pod("p", claims=(ClaimUse("a", "default/a", group="default/g"),))
    cluster.confirm(replace(pod, node="n1"))
    held = a_claim("a", allocation=an_allocation("n1", "gpu-0"), reserved_for=(GROUP,))
    claiming.put(cluster, held)

    assert used(cluster) == 1000


@pytest.mark.parametrize("needed", [1, 3, 4])
def test_a_claim_that_pods_of_a_gang_share_is_asked_for_once(needed: int) -> None:
    cluster = a_cluster(a_claim("s", count=2), *map(a_claim, "abcd"))
    pods = [a_claiming_pod(f"p-{own}", "s", own) for own in "abcd"]
    asked = asked_together((pod.request for pod in pods), needed, cluster.charges.of_request)
    assert dict(asked)[GPUS] == 2000 + 1000 * needed, "the shared one, and one for each pod"

    alike = [a_claiming_pod(f"q-{number}", "s").request for number in range(4)]
    both = dict(asked_together(alike, needed, cluster.charges.of_request))
    assert (both[GPUS], both["pods"]) == (2000, needed)


def test_a_slice_counts_for_its_part() -> None:
    cluster = a_cluster(a_claim("a"))
    cluster.count_tenants(lambda _pod: "team")
    pod = a_claiming_pod("p", "a")
    held = an_allocation("n1", "gpu-0-mig-1g10gb-19-3")
    claiming.put(cluster, a_claim("a", allocation=held, reserved_for=(a_claim_user(pod),)))
    cluster.confirm(replace(pod, node="n1"))

    assert used(cluster) == 125


def test_a_node_that_offers_gpus_later_has_none_of_those_that_claims_hold() -> None:
    cluster = a_cluster(a_claim("a", allocation=an_allocation("n1", "gpu-0")))
    assert cluster.nodes.free(GPU).tolist() == [0], "no device plugin offers it"

    cluster.put_node(a_node("n1", gpus=2))
    assert cluster.nodes.free(GPU).tolist() == [1]
    cluster.put_node(a_node("n1", gpus=0))
    assert cluster.nodes.free(GPU).tolist() == [0]
