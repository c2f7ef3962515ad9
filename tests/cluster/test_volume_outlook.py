"""What all nodes are told at once is what each would be told alone, claim by claim, by hand."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from builders import a_node, a_request, selects
from examples import examples
from fairlead.cluster import free_volumes, reach
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.cluster.volume_outlook import VolumeOutlook, look
from fairlead.model.nodes import Node
from fairlead.model.pods import NodeTerm
from fairlead.model.selectors import LabelSelector, Requirement
from fairlead.model.storage import (
    CsiDriver,
    StorageCapacity,
    StorageClass,
    Volume,
    VolumeClaim,
    VolumePlan,
)
from fairlead.model.volumes import PodVolumes, VolumeClaimUse
from fairlead.plugins.volume_binding import VolumeBinding

WAITS, MADE = "waits", "made"
HOST, ZONE = "host", "zone"


def tied(key: str, *values: str, operator: str = "In") -> tuple[NodeTerm, ...]:
    return (NodeTerm((Requirement(key, operator, values),)),)


def both(*several: tuple[NodeTerm, ...]) -> tuple[NodeTerm, ...]:
    return (NodeTerm(tuple(line for terms in several for line in terms[0].labels)),)


# -- by hand, one node at a time -----------------------------------------------------------------


def meets(terms: Iterable[NodeTerm], node: Node) -> bool:
    return any(
        term.labels and all(line.holds(node.labels) for line in term.labels) for term in terms
    )


def near(volume: Volume, node: Node) -> bool:
    return volume.node_terms is None or meets(volume.node_terms, node)


def find(claim: VolumeClaim, volumes: list[Volume], node: Node, taken: set[str]) -> Volume | None:
    smallest: Volume | None = None
    for volume in sorted(volumes, key=lambda each: each.name):
        if volume.name in taken or volume.storage_class != claim.storage_class:
            continue
        if volume.claim and not volume.belongs_to(claim):
            continue
        if volume.capacity_bytes < (claim.size_bytes or 0) or volume.mode != claim.mode:
            continue
        if volume.belongs_to(claim):
            return volume if near(volume, node) else None
        fits = claim.selector is None or claim.selector.matches(volume.labels)
        if volume.phase != "Available" or not fits or not near(volume, node):
            continue
        if not set(claim.access_modes) <= set(volume.access_modes):
            continue
        if smallest is None or volume.capacity_bytes < smallest.capacity_bytes:
            smallest = volume
    return smallest


class World:
    """Everything that matters, as plain lists."""

    def __init__(self, nodes, claims, volumes, classes, tracked, capacities) -> None:
        self.nodes, self.claims, self.volumes = nodes, claims, volumes
        self.classes, self.tracked, self.capacities = classes, tracked, capacities
        self.uses = PodVolumes(tuple(VolumeClaimUse(claim.key) for claim in claims))

    def cluster(self) -> Cluster:
        cluster = Cluster()
        for node in self.nodes:
            cluster.put_node(node)
        drivers = [CsiDriver("csi", tracks_capacity=self.tracked)]
        for told in (*self.claims, *self.volumes, *self.classes, *drivers, *self.capacities):
            cluster.put_storage(told)
        return cluster

    def asked(self, node: Node) -> tuple[dict[str, bool], VolumePlan]:
        far, lost = self._check_bound(node)
        verdict = {"far": far, "lost": lost, "unbindable": False, "cramped": False}
        waiting = [claim for claim in self.claims if not claim.bound and self._waits(claim)]
        sent = [claim for claim in waiting if claim.selected_node is not None]
        if any(claim.selected_node != node.name for claim in sent):
            return {**verdict, "unbindable": True}, VolumePlan()
        bindings: list[tuple[VolumeClaim, Volume]] = []
        to_make = list(sent)
        unsent = (claim for claim in waiting if claim.selected_node is None)
        for claim in sorted(unsent, key=lambda each: each.size_bytes or 0):
            found = find(claim, self.volumes, node, {volume.name for _, volume in bindings})
            if found is None:
                to_make.append(claim)
            else:
                bindings.append((claim, found))
        for claim in to_make:
            problem = self._problem_with_making(claim, node)
            if problem:
                return {**verdict, problem: True}, VolumePlan()
        return verdict, VolumePlan(tuple(bindings), tuple(to_make))

    def _waits(self, claim: VolumeClaim) -> bool:
        return not claim.volume  # both classes do

    def _check_bound(self, node: Node) -> tuple[bool, bool]:
        known = {volume.name: volume for volume in self.volumes}
        for claim in self.claims:
            if claim.bound and claim.volume not in known:
                return False, True
            if claim.bound and not near(known[claim.volume], node):
                return True, False
        return False, False

    def _problem_with_making(self, claim: VolumeClaim, node: Node) -> str:
        (found,) = [each for each in self.classes if each.name == claim.storage_class]
        if found.provisioner != "csi":
            return "unbindable"
        if found.topologies and not meets(found.topologies, node):
            return "unbindable"
        room = any(
            capacity.topology is not None
            and capacity.topology.matches(node.labels)
            and capacity.holds(claim.size_bytes or 0)
            and capacity.storage_class == claim.storage_class
            for capacity in self.capacities
        )
        return "" if room or not self.tracked else "cramped"


# -- worlds --------------------------------------------------------------------------------------

hosts, zones = st.sampled_from(["n0", "n1", "n2", "n3"]), st.sampled_from(["x", "y"])
terms = st.one_of(
    st.none(),
    st.builds(lambda host: tied(HOST, host), hosts),
    st.builds(lambda one, two: tied(HOST, one, two), hosts, hosts),
    st.builds(lambda zone: tied(ZONE, zone), zones),
    st.builds(lambda zone: tied(ZONE, zone, operator="NotIn"), zones),
    st.just(tied(ZONE, operator="Exists")),
    st.builds(lambda host, zone: both(tied(HOST, host), tied(ZONE, zone)), hosts, zones),
    st.builds(lambda host, zone: tied(HOST, host) + tied(ZONE, zone), hosts, zones),
    st.just(()),
)
selectors = st.one_of(st.none(), st.builds(lambda zone: selects(zone=zone), zones))
ONCE, MANY = "ReadWriteOnce", "ReadOnlyMany"


def mostly(usual: Any, *seldom: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([usual] * 6 + list(seldom))


@st.composite
def worlds(draw: Any) -> World:
    nodes = [
        a_node(f"n{number}", labels={HOST: f"n{number}"} | ({ZONE: zone} if zone else {}))
        for number, zone in enumerate(draw(st.lists(st.sampled_from(["x", "y", ""]), max_size=4)))
    ]
    volumes = [
        Volume(
            f"v{number}",
            storage_class=WAITS,
            capacity_bytes=draw(st.integers(1, 4)),
            phase=draw(mostly("Available", "Released")),
            claim=draw(mostly("", "default/c0", "default/other")),
            node_terms=draw(terms),
            labels={ZONE: draw(zones)},
            access_modes=draw(mostly((ONCE, MANY), (ONCE,), ())),
            mode=draw(mostly("Filesystem", "Block")),
        )
        for number in range(draw(st.integers(0, 8)))
    ]
    # What two volumes are promised to the same claim is nobody's case: the first is as good.
    promised = [volume for volume in volumes if volume.claim == "default/c0"]
    volumes = [volume for volume in volumes if volume not in promised[1:]]
    claims = [draw(_claims(number)) for number in range(draw(st.integers(1, 4)))]
    topologies = st.one_of(st.just(()), st.builds(lambda zone: tied(ZONE, zone), zones))
    provisioners = st.sampled_from(["csi", "kubernetes.io/no-provisioner"])
    capacities = [
        StorageCapacity(
            "default",
            f"cap{number}",
            storage_class=draw(st.sampled_from([WAITS, MADE])),
            topology=draw(st.one_of(selectors, st.just(LabelSelector()))),
            capacity_bytes=draw(st.one_of(st.none(), st.integers(0, 4))),
            largest_bytes=draw(st.one_of(st.none(), st.integers(0, 4))),
        )
        for number in range(draw(st.integers(0, 3)))
    ]
    classes = [
        StorageClass(name, provisioner=draw(provisioners), waits=True, topologies=draw(topologies))
        for name in (WAITS, MADE)
    ]
    return World(nodes, claims, volumes, classes, draw(st.booleans()), capacities)


@st.composite
def _claims(draw: Any, number: int) -> VolumeClaim:
    volume = draw(mostly("", "v0", "gone"))
    return VolumeClaim(
        "default",
        f"c{number}",
        uid=f"uid-{number}",
        storage_class=draw(st.sampled_from([WAITS, WAITS, MADE])),
        volume=volume,
        bind_completed=bool(volume),
        selected_node=draw(mostly(None, "n0")),
        size_bytes=draw(st.integers(1, 4)),
        access_modes=draw(mostly((ONCE,), (MANY,), ())),
        selector=draw(mostly(None, selects(zone="x"))),
    )


@pytest.fixture(params=["together", "one by one"])
def _offered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few nodes are not enough to meet what is done for many."""
    if request.param == "one by one":
        monkeypatch.setattr(free_volumes, "_TOGETHER", 0)
        monkeypatch.setattr(reach, "_FEW", 0)


@pytest.mark.usefixtures("_offered")
@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(worlds())
def test_all_nodes_at_once_are_told_what_each_would_be(world: World) -> None:
    cluster = world.cluster()
    found = look(world.uses, cluster.nodes)
    for node in world.nodes:
        row = cluster.row_of[node.name]
        verdict, plan = world.asked(node)
        assert told(found, row) == verdict, node.name
        alone = look(world.uses, Nodes(cluster.columns, slice(row, row + 1)))
        assert told(alone, 0) == verdict, node.name
        if not any(verdict.values()):
            assert names(found.plan(row)) == names(plan), node.name
            assert names(alone.plan(0)) == names(plan), node.name


def told(found: VolumeOutlook, row: int) -> dict[str, bool]:
    masks = ("far", "lost", "unbindable", "cramped")
    return {mask: bool(getattr(found, mask)[row]) for mask in masks}


def names(plan: VolumePlan) -> tuple[dict[str, str], set[str]]:
    bindings = {claim.name: volume.name for claim, volume in plan.bindings}
    return bindings, {claim.name for claim in plan.provisions}


# -- a few by name -------------------------------------------------------------------------------


def a_world(*objects: Any, nodes: tuple[str, ...] = ("n0", "n1")) -> Cluster:
    cluster = Cluster()
    for name in nodes:
        cluster.put_node(a_node(name, labels={HOST: name}))
    for told_of in objects:
        cluster.put_storage(told_of)
    return cluster


def a_claim(name: str = "data", **more: Any) -> VolumeClaim:
    return VolumeClaim(
        "default", name, **{"uid": f"u-{name}", "storage_class": WAITS, "size_bytes": 1, **more}
    )


def a_volume(name: str = "v", **more: Any) -> Volume:
    given_ = {"storage_class": WAITS, "capacity_bytes": 1, "phase": "Available", **more}
    return Volume(name, **given_)


A_CLASS = StorageClass(WAITS, waits=True)
DATA = PodVolumes((VolumeClaimUse("default/data"),))


def test_a_volume_that_is_being_taken_is_nobody_elses() -> None:
    more = PodVolumes((VolumeClaimUse("default/more"),))
    cluster = a_world(A_CLASS, a_claim(), a_claim("more"), a_volume())
    plan = look(DATA, cluster.nodes).plan(0)
    cluster.assume_volumes(plan, "n0")

    assert look(more, cluster.nodes).unbindable.all()
    # A second pod with the same claim counts on the same volume.
    assert names(look(DATA, cluster.nodes).plan(1)) == ({"data": "v"}, set())

    cluster.settle_volumes(plan)
    assert not look(more, cluster.nodes).unbindable.any()


def test_a_claim_that_is_being_provisioned_pins_its_pods() -> None:
    provisions = StorageClass(WAITS, waits=True, provisioner="csi")
    cluster = a_world(provisions, a_claim())
    plan = look(DATA, cluster.nodes).plan(1)
    cluster.assume_volumes(plan, "n1")

    assert look(DATA, cluster.nodes).refused.tolist() == [True, False]

    cluster.put_storage(a_claim(version="2", selected_node="n0"))  # the server's word counts
    assert look(DATA, cluster.nodes).refused.tolist() == [False, True]
    cluster.settle_volumes(plan)
    assert look(DATA, cluster.nodes).refused.tolist() == [False, True]


def test_a_change_of_storage_or_labels_is_seen_at_once() -> None:
    cluster = a_world(A_CLASS, a_claim())
    assert look(DATA, cluster.nodes).unbindable.all()

    cluster.put_storage(a_volume(node_terms=tied(HOST, "n0", "n9")))
    assert look(DATA, cluster.nodes).unbindable.tolist() == [False, True]

    cluster.put_node(a_node("n1", labels={HOST: "n9"}))
    assert not look(DATA, cluster.nodes).unbindable.any()

    cluster.remove_storage(a_volume())
    assert look(DATA, cluster.nodes).unbindable.all()


def test_volumes_that_were_not_evaluated_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [a_volume(f"a{n}", node_terms=tied(f"l{n}", "x")) for n in range(20)]
    last = a_volume("z", node_terms=tied(HOST, "n0"))
    cluster = a_world(A_CLASS, a_claim(), *others, last)
    rule, request = VolumeBinding(), a_request(volumes=DATA)
    assert rule.allows(request, cluster.nodes).tolist() == [True, False]

    monkeypatch.setattr(free_volumes, "MOST_SPENT", 500)
    cluster.put_storage(a_claim(version="2", size_bytes=0))
    assert not rule.allows(request, cluster.nodes).any()
    told_of = [each.text for each in rule.reasons(request, cluster.nodes) if each.where.any()]
    assert len(told_of) == 1
    assert told_of[0].endswith("evaluated: too many have a node affinity of their own")


def test_a_volume_that_another_took_first_is_not_taken_back() -> None:
    cluster = a_world(A_CLASS, a_claim(), a_volume())
    plan = look(DATA, cluster.nodes).plan(0)
    cluster.assume_volumes(plan, "n0")
    cluster.put_storage(a_volume(version="2", claim="default/other", claim_uid="x"))

    assert look(DATA, cluster.nodes).unbindable.all()
    cluster.settle_volumes(plan)
    assert look(DATA, cluster.nodes).unbindable.all()


@pytest.mark.parametrize("terms", [(), (NodeTerm(),), tied(HOST, "n0", operator="Sideways")])
def test_an_affinity_without_sense_reaches_no_node(terms: tuple[NodeTerm, ...]) -> None:
    cluster = a_world(a_claim(volume="v", bind_completed=True), a_volume(node_terms=terms))

    assert look(DATA, cluster.nodes).far.all()


def test_a_moved_in_tree_volume_is_reached_by_its_drivers_label() -> None:
    from fairlead.model.storage import CsiNode
    from fairlead.model.volumes import CsiVolume

    csi = CsiVolume("ebs.csi.aws.com", "vol-1", "kubernetes.io/aws-ebs")
    volume = a_volume(
        node_terms=tied(ZONE, "x"),
        migrated_terms=tied("csi-zone", "x"),
        csi=csi,
        claim="default/data",
    )
    cluster = a_world(a_claim(volume="v", bind_completed=True), volume, nodes=())
    cluster.put_node(a_node("old", labels={ZONE: "x"}))
    cluster.put_node(a_node("new", labels={"csi-zone": "x"}))
    cluster.put_node(a_node("wrong", labels={ZONE: "x"}))
    for name in ("new", "wrong"):
        cluster.put_storage(CsiNode(name, migrated=frozenset({"kubernetes.io/aws-ebs"})))

    assert look(DATA, cluster.nodes).far.tolist() == [False, False, True]
