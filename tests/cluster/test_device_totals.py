"""Devices of a class that nodes have, as scores count them for its extended resource."""

from dataclasses import replace

import numpy as np

from builders import a_node
from claim_objects import DRIVER, a_claim, a_device, a_slice, an_allocation
from fairlead.cluster import claiming
from fairlead.cluster.cluster import Cluster
from fairlead.model.devices import Device, DeviceClass, DeviceForm, DeviceNodes
from fairlead.model.pods import NodeTerm
from fairlead.model.selectors import Requirement

WIDGET = "example.com/widget"
WIDE = DeviceClass(
    "wide", (f"device.attributes['{DRIVER}'].kind == 'wide'",), extended_resource=WIDGET
)
EVERYWHERE = DeviceNodes(all_nodes=True)
IN_ZONE = DeviceNodes(terms=(NodeTerm(labels=(Requirement("zone", "In", ("z1",)),)),))


def a_cluster(*nodes: str) -> Cluster:
    cluster = Cluster()
    for number, name in enumerate(nodes):
        cluster.put_node(a_node(name, labels={"zone": f"z{number}"}))
    claiming.put(cluster, WIDE)
    return cluster


def wide(name: str, **form: DeviceNodes) -> Device:
    return Device(DeviceForm(name, **form), (("kind", "wide"),))


def totals(cluster: Cluster) -> list[tuple[int, int]]:
    """Devices, and those that are held, by node."""
    capacity, used = cluster.claims.totals.of(WIDGET, cluster.nodes)
    return list(zip(capacity.tolist(), used.tolist(), strict=True))


def test_devices_of_the_class_count_and_those_of_claims_are_used() -> None:
    cluster = a_cluster("n1", "n2")
    claiming.put(cluster, a_slice("n1", wide("a"), a_device("b", kind="thin"), wide("c")))
    claiming.put(cluster, a_claim(allocation=an_allocation("n1", "c")))
    assert totals(cluster) == [(2, 1), (0, 0)]

    claiming.remove(cluster, a_claim())
    assert totals(cluster) == [(2, 0), (0, 0)]


def test_a_pool_that_is_not_whole_counts() -> None:
    cluster = a_cluster("n1")
    claiming.put(cluster, a_slice("n1", wide("a"), slice_count=2))
    assert totals(cluster) == [(1, 0)]


def test_nothing_counts_where_a_selector_fails() -> None:
    cluster = a_cluster("n1", "n2")
    claiming.put(cluster, a_slice("n1", wide("a"), a_device("b")))
    claiming.put(cluster, a_slice("n2", wide("a")))
    assert totals(cluster) == [(0, 0), (1, 0)]


def test_devices_of_several_nodes_count_on_each() -> None:
    cluster = a_cluster("n1", "n2")
    for name, where in (("all", EVERYWHERE), ("zone", IN_ZONE)):
        claiming.put(cluster, replace(a_slice(name, wide("a"), wide("b")), nodes=where))
    each = a_slice(
        "each", wide("a", nodes=DeviceNodes("n1")), wide("b", nodes=EVERYWHERE),
        a_device("c", kind="thin"),
        per_device=True,
    )  # fmt: skip
    claiming.put(cluster, replace(each, nodes=DeviceNodes()))
    assert totals(cluster) == [(4, 0), (5, 0)]


def test_only_slices_that_changed_are_looked_at_again() -> None:
    cluster = a_cluster("n1", "n2")
    for node in ("n1", "n2"):
        claiming.put(cluster, a_slice(node, wide("a"), wide("b")))
    totals(cluster)
    before = cluster.claims.inventory.answers.asked

    assert totals(cluster) == [(2, 0), (2, 0)]
    assert cluster.claims.inventory.answers.asked == before

    claiming.put(cluster, a_slice("n2", wide("a")))
    assert totals(cluster) == [(2, 0), (1, 0)]
    assert cluster.claims.inventory.answers.asked == before + 1


def test_a_resource_without_a_class_has_no_devices() -> None:
    cluster = a_cluster("n1")
    capacity, used = cluster.claims.totals.of("example.com/other", cluster.nodes)
    assert not np.any(capacity)
    assert not np.any(used)
