"""Cases with devices that draws hardly meet: one node is the best by its score, and limits."""

from oracle.arena import Arena
from oracle.case import Case, Object
from oracle.claim_cases import NODES, ONE, a_claim, a_class, a_node, a_probe, a_slice
from oracle.configurations import DEFAULT, DEVICES
from oracle.some_nodes import WIDGET


def place(arena: Arena, name: str, objects: list[Object], *probes: Object) -> list[str]:
    """Where kube-scheduler puts them; Fairlead must have put them there, too."""
    nodes = [a_node(each) for each in NODES]
    result = arena.run(Case(name, [*objects, *nodes], list(probes)))
    assert [each.theirs.node for each in result.probed] == [e.ours.node for e in result.probed]
    assert not result.differences, result.differences
    return [each.theirs.node for each in result.probed]


def test_devices_of_a_class_count_in_scores_of_its_extended_resource(arena: Arena) -> None:
    """MostAllocated: one of four devices is held on n0, two of four on n1, none of three on n2.

    Devices of other kinds do not count.
    """
    objects = [
        a_class("wide", "wide", extendedResourceName=WIDGET),
        a_slice("n0", "wide", "wide", "wide", "wide"),
        a_slice("n1", "wide", "thin", "wide", "wide", "wide"),
        a_slice("n2", "wide", "wide", "wide", "thin", "thin"),
        a_claim("h0", ONE, "n0", "d3"),
        a_claim("h1", ONE, "n1", "d0"),
        a_claim("h2", ONE, "n1", "d2"),
        a_claim("h3", ONE, "n2", "d3"),
    ]
    pods = [a_probe(DEVICES, "1"), a_probe(DEVICES, "2")]
    assert place(arena, "devices-count", objects, *pods) == ["n1", "n1"]


def test_earlier_alternatives_are_better_with_a_weight_of_two(arena: Arena) -> None:
    """n1 has the first alternative, n2 the second, and n0 none."""
    wish = {"firstAvailable": [{"name": "w", "deviceClassName": "wide"},
                               {"name": "t", "deviceClassName": "thin"}]}  # fmt: skip
    objects = [
        a_class("wide", "wide"),
        a_class("thin", "thin"),
        a_slice("n0", "odd"),
        a_slice("n1", "thin", "wide"),
        a_slice("n2", "thin", "thin"),
        a_claim("c", wish),
    ]
    assert place(arena, "alternatives", objects, a_probe(DEFAULT, claim="c")) == ["n1"]


def test_a_claim_has_256_users_at_most(arena: Arena) -> None:
    """The next pod passes all filters, and the API server refuses its reservation."""
    users = [{"apiGroup": "example.com", "resource": "things", "name": f"t{n}", "uid": f"t{n}"}
             for n in range(256)]  # fmt: skip
    full = a_claim("c", ONE, "n0", "d0")
    full["status"]["allocation"]["allocationTimestamp"] = "2026-01-01T00:00:00Z"
    full["status"]["reservedFor"] = users
    objects = [a_class("wide", "wide"), a_slice("n0", "wide"), full]
    probe = a_probe(DEFAULT, claim="c")
    result = arena.run(Case("users", [*objects, *map(a_node, NODES)], [probe]))

    assert not result.differences, result.differences
    assert "must have at most 256 items" in result.probed[0].theirs.message
