from builders import a_node, a_pod, a_taint, drawing, drawn
from fairlead.cluster.aspects import EVERYTHING, NOTHING, Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.columns import ALWAYS, MOST_RESOURCES
from fairlead.cluster.holdings import Holding
from fairlead.model.gpus import Gpu, GpuRequest, Inventory, MigProfile
from fairlead.model.nodes import GPU
from fairlead.model.pods import HostPort
from fairlead.model.storage import CsiNode


def test_an_assumed_pod_takes_what_it_needs_at_once() -> None:
    cluster = drawn("n1 ....")
    cluster.assume(a_pod(gpus=3), "n1")
    assert drawing(cluster) == ["n1 ###."]


def test_confirming_an_assumed_pod_changes_nothing() -> None:
    cluster = drawn("n1 ....")
    pod = a_pod(gpus=3, uid="u")
    cluster.assume(pod, "n1")
    mark = cluster.changes.mark
    cluster.improved.drain()
    cluster.confirm(a_pod(gpus=3, uid="u", node="n1"))
    assert cluster.improved.drain() == NOTHING
    assert cluster.changes.mark == mark
    assert not cluster.holdings["u"].assumed


def test_a_pod_that_landed_elsewhere_moves_its_holding() -> None:
    cluster = drawn("n1 ..", "n2 ..")
    cluster.assume(a_pod(gpus=2, uid="u"), "n1")
    cluster.confirm(a_pod(gpus=2, uid="u", node="n2"))
    assert drawing(cluster) == ["n1 ..", "n2 ##"]


def test_removing_twice_frees_once() -> None:
    cluster = drawn("n1 ....")
    cluster.confirm(a_pod(gpus=2, uid="u", node="n1"))
    cluster.improved.drain()
    cluster.remove("u")
    assert cluster.improved.drain() == Aspect.USAGE | Aspect.PODS
    cluster.remove("u")
    assert cluster.improved.drain() == NOTHING
    assert drawing(cluster) == ["n1 ...."]


def test_pods_may_be_seen_before_their_node() -> None:
    cluster = Cluster()
    cluster.confirm(a_pod(gpus=2, node="late"))
    cluster.put_node(a_node("late", gpus=4))
    assert drawing(cluster) == ["late ##.."]


def test_a_node_that_comes_back_finds_its_pods_still_there() -> None:
    cluster = drawn("n1 ####", "n2 ..")
    cluster.remove_node("n1")
    assert drawing(cluster) == ["n2 .."]
    cluster.put_node(a_node("n1", gpus=4))
    assert drawing(cluster) == ["n1 ####", "n2 .."]


def test_the_row_of_a_removed_node_starts_clean_for_the_next() -> None:
    cluster = drawn("old ####")
    port = HostPort(80)
    cluster.confirm(a_pod(node="old", host_ports=(port,)))
    cluster.remove_node("old")
    cluster.put_node(a_node("new", gpus=2))
    assert cluster.row_of == {"new": 0}
    assert drawing(cluster) == ["new .."]
    assert not cluster.nodes.port_taken(port).any()


def test_a_resized_pod_takes_what_it_was_given() -> None:
    cluster = drawn("n1 ....")
    cluster.confirm(a_pod(gpus=1, uid="u", node="n1"))
    cluster.confirm(a_pod(gpus=1, uid="u", node="n1", usage=((GPU, 3),)))
    assert drawing(cluster) == ["n1 ###."]


def test_more_nodes_and_resources_than_there_was_room_for() -> None:
    cluster = Cluster()
    for number in range(300):
        cluster.put_node(a_node(f"n{number:03d}", resources={f"example.com/r{number}": 1}))
    cluster.confirm(a_pod(node="n299", resources={"example.com/r299": 1}))
    assert int(cluster.nodes.free("example.com/r299").sum()) == 0
    assert int(cluster.nodes.free("example.com/r298").sum()) == 1
    assert int(cluster.nodes.free("unheard.of/thing").sum()) == 0


def test_changes_name_what_changed() -> None:
    cluster = Cluster()
    several = Aspect.LABELS | Aspect.ALLOCATABLE | Aspect.TAINTS
    for node, changed in (
        (a_node("n", version="1"), EVERYTHING),
        (a_node("n", version="2"), NOTHING),
        (a_node("n", version="3", labels={"a": "b"}), Aspect.LABELS),
        (a_node("n", gpus=4, unschedulable=True), several),
    ):
        cluster.put_node(node)
        assert cluster.improved.drain() == changed


def test_what_could_be_evicted_follows_the_pods() -> None:
    cluster = drawn("n1 ........")
    gpus = cluster.columns.resource_index[GPU]
    for priority in (5, -3, 9):
        pod = a_pod(uid=f"u{priority}", gpus=1, node="n1", priority=priority)
        cluster.confirm(pod)
    preemptors = [a_pod(priority=priority) for priority in (-3, 5, 6, 10)]
    assert [int(cluster.evictable(pod)[gpus, 0]) for pod in preemptors] == [0, 1, 2, 3]
    cluster.remove("u-3")
    assert [int(cluster.evictable(pod)[gpus, 0]) for pod in preemptors] == [0, 0, 1, 2]


def test_a_draft_leaves_no_trace() -> None:
    cluster = drawn("n1 ##......")
    mark, before = cluster.changes.mark, drawing(cluster)
    here, there = Holding.of(a_pod(gpus=3), "n1", assumed=True), cluster.held_on("n1")[0]
    with cluster.draft(0) as draft:
        draft.add(here)
        draft.take(there)
        assert drawing(cluster) == ["n1 ####...."]
        draft.take(here)
        draft.add(there)
        draft.add(here)
    assert drawing(cluster) == before
    assert cluster.changes.mark == mark
    assert set(cluster.columns.pods.pods) == set(cluster.holdings)


def test_trust_returns_only_when_every_cause_is_gone() -> None:
    cluster = drawn("n1 .")
    cluster.distrust("n1", "default/a")
    cluster.distrust("n1", "default/b")
    cluster.trust("default/a")
    assert cluster.nodes.distrusted()[0]
    cluster.trust("default/b")
    assert not cluster.nodes.distrusted()[0]


def test_a_resource_that_no_node_offers_has_no_column() -> None:
    cluster = drawn("n1 ....")
    width = len(cluster.columns.requested)
    made_up = tuple((f"example.com/{n}", 1) for n in range(5000))
    cluster.confirm(a_pod(node="n1", uid="u", usage=made_up))
    assert len(cluster.columns.requested) == width
    assert not cluster.nodes.requested("example.com/7").any()


def test_what_was_held_before_a_node_offered_it_is_counted_from_then_on() -> None:
    cluster = drawn("n1 ....")
    cluster.confirm(a_pod(node="n1", uid="u", usage=(("example.com/x", 3),)))
    assert cluster.evictable(a_pod(priority=10)).sum() == 1  # that it is a pod, and nothing else
    cluster.put_node(a_node("n1", gpus=4, resources={"example.com/x": 5}))
    assert cluster.nodes.free("example.com/x").tolist() == [2]
    cluster.ask_for(["example.com/x"])
    assert cluster.nodes.free("example.com/x").tolist() == [2]
    index = cluster.columns.resource_index["example.com/x"]
    assert cluster.evictable(a_pod(priority=10))[index, 0] == 3
    cluster.remove("u")
    assert cluster.nodes.free("example.com/x").tolist() == [5]


def test_columns_of_labels_do_not_pile_up() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("n1", labels={"zone": "a"}))
    for n in range(5000):
        assert not cluster.nodes.has_label(f"key-{n}").any()
    assert len(cluster.columns._labels) <= 1024
    assert cluster.nodes.label_in("zone", ("a",)).tolist() == [True]


def test_thousands_of_resources_on_one_node_cost_the_other_nodes_nothing() -> None:
    cluster = Cluster()
    for number in range(200):
        cluster.put_node(a_node(f"n{number}"))
    before = cluster.columns.allocatable.nbytes
    names = [f"example.com/r{number}" for number in range(8000)]
    cluster.put_node(a_node("hostile", resources=dict.fromkeys(names, 1)))
    assert cluster.columns.allocatable.nbytes == before
    for name in names[:1000]:
        cluster.ask_for([name])
        assert int(cluster.nodes.free(name).sum()) == 1
    assert len(cluster.columns.resource_index) <= MOST_RESOURCES
    assert cluster.columns.allocatable.shape[0] <= MOST_RESOURCES
    cluster.remove_node("hostile")
    assert tuple(cluster.columns.resource_index) == ALWAYS
    assert not cluster.columns.missed


def test_numbers_of_what_is_gone_are_given_to_others() -> None:
    cluster = Cluster()
    columns, devices = cluster.columns, cluster.columns.devices
    cluster.nodes.has_label("zone")
    for number in range(500):
        gpus = (
            Gpu(f"GPU-{number}", 0, f"Model {number}", mig=(MigProfile(f"{number}g", 1, (0,)),)),
        )
        inventory = Inventory(gpus, ((number,),))
        taints, labels = (a_taint(f"key-{number}"),), {"zone": f"zone-{number}"}
        cluster.put_node(a_node("n", inventory=inventory, taints=taints, labels=labels))
        if number % 3 == 0:
            cluster.remove_node("n")
            cluster.put_node(a_node("n"))
    assert list(devices.codes) == ["Model 499"]
    widths = (devices.models.width, devices.cuts.width, columns._taint_sets.width)
    assert max(*widths, *cluster.nodes.domains("zone")) <= 3
    assert columns.label("zone").code_of.keys() == {"zone-499"}


def test_nodes_that_are_gone_are_not_remembered_for_their_volumes() -> None:
    cluster = Cluster()
    attached = cluster.storage.attached
    for number in range(300):
        drivers = tuple(f"driver-{number}-{n}.example.com" for n in range(20))
        limits = tuple((driver, 5) for driver in drivers)
        told = CsiNode(f"n{number}", drivers=drivers, limits=limits)
        cluster.put_storage(told)
        cluster.put_node(a_node(told.name))
        assert cluster.nodes.has_driver(drivers[3]).tolist() == [True]
        cluster.remove_node(told.name)
        cluster.remove_storage(told)
        attached._count_stale()
    assert not attached._stale
    assert not attached._counted
    for columns in (attached._held, attached._limits, attached._installed):
        assert not columns._values
        assert len(columns._arrays) <= 64


def test_labels_that_are_made_together_are_as_those_made_one_by_one() -> None:
    together, alone = Cluster(), Cluster()
    for cluster in (together, alone):
        for number in range(4):
            labels = {f"k{at}": str(number % 2) for at in range(5) if at != number}
            labels |= {f"o{at}": "" for at in range(10 * (number // 2))}  # nodes may have many
            cluster.put_node(a_node(f"n{number}", labels=labels))
        cluster.remove_node("n1")
    keys = [f"k{at}" for at in range(5)] + ["nobody-has-it"]
    together.nodes.prepare_labels(keys)
    together.put_node(a_node("n2", labels={"nobody-has-it": "1", "k0": "0"}))
    alone.put_node(a_node("n2", labels={"nobody-has-it": "1", "k0": "0"}))
    for key in keys:
        for values in (("0",), ("1",), tuple("0123456789")):
            found = together.nodes.label_in(key, values), alone.nodes.label_in(key, values)
            assert found[0].tolist() == found[1].tolist()
        compared = [c.nodes.label_compares(key, "Gt", 0).tolist() for c in (together, alone)]
        assert compared[0] == compared[1]


def test_a_bound_pod_keeps_its_gpus_whatever_it_asks_for_later() -> None:
    asking, silent = (a_pod(uid="u", node="n1", gpu_request=ask) for ask in (GpuRequest(1), None))
    for first, then, held in ((silent, asking, 0), (asking, silent, 1)):
        cluster = drawn("n1 ..")
        cluster.confirm(first)
        cluster.confirm(then)
        assert cluster.columns.devices.elsewhere[0] == held
