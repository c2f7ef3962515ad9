"""Whatever makes a refused pod fit is in the channel from the cluster to the requeuer."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import SCHEDULER, a_node, a_pod, a_taint, pod_term, selects
from examples import examples
from fairlead.apps.config.profiles import KUBE, built_in
from fairlead.cluster.aspects import NOTHING, Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, GrantSource, Inventory
from fairlead.model.pods import HostPort, NodeTerm, Pod, Toleration
from fairlead.model.selectors import PodTerm, Requirement
from fairlead.model.storage import StorageClass, VolumeClaim
from fairlead.model.volumes import PodVolumes, VolumeClaimUse
from fairlead.placement.place import Placement
from fairlead.placement.verdicts import Placed

NODES = ["n0", "n1", "n2"]
UIDS = [f"u{number}" for number in range(5)]
CLAIM = VolumeClaim("default", "data", storage_class="late")
CLASS = StorageClass("late", provisioner="example.com", waits=True)
PORT = HostPort("TCP", "0.0.0.0", 80)
OTHER_NAMESPACES = PodTerm("zone", selects(app="x"), (), selects(team="a"))

WAITING = [
    a_pod("plain", gpus=2, cpu=30_000),
    a_pod("tolerates", gpus=2, tolerations=(Toleration("x", "Exists"),)),
    a_pod("by-label", node_terms=(NodeTerm((Requirement("zone", "In", ("b",)),)),)),
    a_pod("apart", labels={"app": "x"}, anti_affinity=(pod_term("zone", app="x"),)),
    a_pod("near", required_affinity=(pod_term("zone", app="x"),)),
    a_pod("near-namespace", required_affinity=(OTHER_NAMESPACES,)),
    a_pod("port", host_ports=(PORT,)),
    a_pod("gpu", gpu_request=GpuRequest(2)),
    a_pod("share", gpu_request=GpuRequest(1, whole=False, milli=600)),
    a_pod("volume", volumes=PodVolumes((VolumeClaimUse("default/data"),))),
    a_pod("important", gpus=2, priority=5),
]


class Channel:
    """A cluster, and pods that wait as in the queue: looked at only when the channel says so."""

    def __init__(self, profile: str) -> None:
        self.cluster = Cluster()
        self.placement = Placement(built_in(profile), self.cluster)
        self.woken_by: dict[str, Aspect | None] = {}
        self.look()

    def look(self) -> None:
        drained = self.cluster.improved.drain()
        for pod in WAITING:
            before = self.woken_by.get(pod.uid)
            if self.placement.fits(pod):
                assert before is None or before & drained, f"{pod.name} fits after {drained!r}"
                self.woken_by[pod.uid] = None
            elif before is None:
                verdict = self.placement.place(pod)
                assert not isinstance(verdict, Placed)
                self.woken_by[pod.uid] = verdict.woken_by
            elif before & drained:
                self.woken_by[pod.uid] = before | self.placement.refused_by(pod)


@st.composite
def put_node(draw: st.DrawFn, cluster: Cluster) -> None:
    name = draw(st.sampled_from(NODES))
    gpus = tuple(Gpu(f"{name}-{n}", n, "H200", 1000) for n in range(draw(st.integers(0, 3))))
    listed = Inventory(gpus, dialects=frozenset({"fairlead"}), confirms=True) if gpus else None
    cluster.put_node(
        a_node(
            name, gpus=draw(st.integers(0, 3)), inventory=listed,
            labels={"zone": draw(st.sampled_from("ab"))},
            taints=(a_taint("x"),) if draw(st.booleans()) else (),
            unschedulable=draw(st.integers(0, 4)) == 0,
        )
    )  # fmt: skip


@st.composite
def put_pod(draw: st.DrawFn, cluster: Cluster) -> None:
    node, uid = draw(st.sampled_from(NODES)), draw(st.sampled_from(UIDS))
    use = GpuUse(f"{node}-0", *draw(st.sampled_from([(True, 0, 0), (False, 500, 100)])))
    grant = Grant((use,), "fairlead", source=GrantSource.BOUND)
    apart = (pod_term("zone", app="x"),) if draw(st.integers(0, 3)) == 0 else ()
    pod = a_pod(
        uid, uid=uid, node=node, gpus=draw(st.integers(0, 2)), cpu=draw(st.integers(0, 40_000)),
        labels={"app": draw(st.sampled_from("xy"))}, anti_affinity=apart,
        host_ports=(PORT,) if draw(st.integers(0, 3)) == 0 else (),
        grant=grant if draw(st.booleans()) else None, started="2026-01-01T00:00:00Z",
    )  # fmt: skip
    if uid not in cluster.holdings and draw(st.booleans()):
        cluster.assume(replace(pod, node="", grant=None), node, pod.grant)
    else:
        cluster.confirm(pod)


@st.composite
def take_pod(draw: st.DrawFn, cluster: Cluster) -> None:
    uid = draw(st.sampled_from(UIDS))
    held = cluster.holdings.get(uid)
    cluster.remove(uid)
    if held is not None and draw(st.booleans()):
        cluster.hold_back(held, 1.0)


@st.composite
def nominate(draw: st.DrawFn, cluster: Cluster) -> None:
    pod: Pod = draw(st.sampled_from(WAITING))
    node = draw(st.sampled_from(NODES))
    change = draw(st.sampled_from([cluster.nominations.put, None]))
    if change is not None:
        change(pod, node)
    elif draw(st.booleans()):
        cluster.nominations.drop(pod.uid)
    else:
        cluster.nominations.settle(pod.uid, node)


@st.composite
def change_other(draw: st.DrawFn, cluster: Cluster) -> None:
    node, uid = draw(st.sampled_from(NODES)), draw(st.sampled_from(UIDS))
    changes = [
        lambda: cluster.remove_node(node),
        lambda: cluster.distrust(node, "cause"),
        lambda: cluster.trust("cause"),
        lambda: cluster.release(uid),
        lambda: cluster.put_namespace("default", {"team": draw(st.sampled_from("ab"))}),
        lambda: cluster.put_storage(CLAIM),
        lambda: cluster.remove_storage(CLAIM),
        lambda: cluster.put_storage(CLASS),
        lambda: cluster.remove_storage(CLASS),
    ]
    draw(st.sampled_from(changes))()


@pytest.mark.parametrize("profile", [SCHEDULER, KUBE])
@examples(60)
@given(data=st.data())
def test_whatever_made_a_refused_pod_fit_was_in_the_channel(
    profile: str, data: st.DataObject
) -> None:
    channel = Channel(profile)
    for change in data.draw(
        st.lists(
            st.sampled_from([put_node, put_pod, take_pod, nominate, change_other]), max_size=25
        )
    ):
        data.draw(change(channel.cluster))
        channel.look()


def test_a_cause_that_moves_to_another_node_restores_the_trust_in_the_first() -> None:
    cluster = Cluster()
    for name in NODES:
        cluster.put_node(a_node(name))
    cluster.distrust("n0", "default/pod")
    assert cluster.improved.drain()
    cluster.distrust("n0", "default/pod")
    assert cluster.improved.drain() == NOTHING
    cluster.distrust("n1", "default/pod")
    assert cluster.improved.drain() == Aspect.TRUST


def test_a_nomination_that_ends_frees_the_room_only_where_nothing_takes_it() -> None:
    cluster = Cluster()
    pod = WAITING[0]
    cluster.nominations.put(pod, "n0")
    cluster.nominations.settle(pod.uid, "n0")
    assert cluster.improved.drain() == NOTHING
    cluster.nominations.put(pod, "n0")
    cluster.nominations.put(pod, "n1")
    assert cluster.improved.drain() & Aspect.USAGE
    cluster.nominations.drop(pod.uid)
    assert cluster.improved.drain() & Aspect.USAGE


def test_a_node_that_goes_takes_its_pods_out_of_the_way_of_others() -> None:
    cluster = Cluster()
    for name in ("n0", "n1"):
        cluster.put_node(a_node(name, labels={"zone": "a"}))
    cluster.confirm(a_pod("there", node="n0", labels={"app": "x"}))
    placement = Placement(built_in(SCHEDULER), cluster)
    apart = next(pod for pod in WAITING if pod.name == "apart")
    refused = placement.place(apart)
    assert not isinstance(refused, Placed)
    cluster.improved.drain()
    cluster.remove_node("n0")
    assert cluster.improved.drain() & refused.woken_by
    assert placement.fits(apart)


def test_a_pod_that_only_a_nomination_keeps_away_waits_for_what_all_rules_read() -> None:
    cluster = Cluster()
    placement = Placement(built_in(SCHEDULER), cluster)
    listed = Inventory((Gpu("g0", 0, "H200", 1000),), dialects=frozenset({"fairlead"}))
    cluster.put_node(a_node("n0", gpus=0, inventory=listed))
    waits = a_pod("waits", gpu_request=GpuRequest(1, dialect="fairlead"))
    assert placement.fits(waits)
    first = a_pod("first", gpu_request=GpuRequest(1, dialect="fairlead"), priority=5)
    cluster.nominations.put(first, "n0")
    assert not placement.fits(waits)
    assert placement.refused_by(waits) & Aspect.DEVICES
    assert placement.refused_by(waits) & Aspect.USAGE


def test_where_no_rule_refuses_but_gpus_lack_beside_a_nominated_pod_the_allocator_is_named() -> (
    None
):
    cluster = Cluster()
    placement = Placement(built_in(SCHEDULER), cluster)
    cluster.put_node(a_node("n0", gpus=0))
    cluster.nominations.put(a_pod("plain", gpus=2, cpu=30_000), "n0")
    verdict = placement.place(a_pod("share", gpu_request=GpuRequest(1, whole=False, milli=600)))
    assert not isinstance(verdict, Placed)
    assert verdict.woken_by & Aspect.DEVICES
    assert verdict.reasons == (("node(s) had no fitting GPU", 1),)
