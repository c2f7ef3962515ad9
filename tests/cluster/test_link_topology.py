"""Rings among GPUs, against trying all of them."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from fairlead.cluster.link_topology import (
    LinkTopology,
    always_joined,
    even,
    joined,
    link_topology_of,
)
from fairlead.model.gpus import NVLINK_GBPS, Links
from fairlead.model.machines import all_joined
from wirings import CUBE_MESH, PCIE, slowest_of_best_ring, wirings


@examples(50)
@given(wirings())
def test_every_set_has_the_ring_that_trying_all_finds(links: Links) -> None:
    topology = LinkTopology(links)
    for bits in topology.sets:
        gpus = tuple(gpu for gpu in range(len(links)) if bits >> gpu & 1)
        assert topology.bottleneck[bits] == slowest_of_best_ring(links, gpus)
        assert topology.total[bits] == sum(links[a][b] for a, b in combinations(gpus, 2))


@examples(50)
@given(wirings(), st.integers(2, 5), st.data())
def test_joined_means_that_some_set_of_that_size_is(links: Links, count: int, data) -> None:
    usable = data.draw(st.lists(st.booleans(), min_size=len(links), max_size=len(links)))
    free = [gpu for gpu, is_free in enumerate(usable) if is_free]
    by_hand = [
        slowest_of_best_ring(links, gpus) >= NVLINK_GBPS for gpus in combinations(free, count)
    ]
    padded = np.array([[*usable, False, False]])  # rows have more slots than a machine has GPUs
    assert joined(links, padded, count)[0] == any(by_hand)
    if all(usable):
        assert always_joined(links, count) == (bool(by_hand) and all(by_hand))


def test_rings_of_the_cube_mesh() -> None:
    """As published: the best ring of 2, 3, 4, 5 and 8 GPUs, and how many sets must use PCIe."""
    topology = link_topology_of(CUBE_MESH)
    best = {k: int(topology.bottleneck[topology.size == k].max()) for k in (2, 3, 4, 5, 8)}
    over_pcie = {
        k: float((topology.bottleneck[topology.size == k] == 10).mean()) for k in (2, 3, 4)
    }
    assert best == {2: 50, 3: 25, 4: 25, 5: 25, 8: 50}
    assert {k: round(share, 2) for k, share in over_pcie.items()} == {2: 0.43, 3: 0.86, 4: 0.89}


def test_gpus_that_somebody_else_chooses() -> None:
    assert [count for count in range(2, 10) if always_joined(CUBE_MESH, count)] == [6, 7, 8]
    assert always_joined(all_joined(8), 3)
    assert not always_joined(all_joined(8), 9)
    assert not always_joined(PCIE, 2)


def test_a_switch_needs_no_table() -> None:
    links = all_joined(64)
    assert even(links)
    usable = np.arange(64) < 9
    assert joined(links, usable[None], 9)[0]
    assert not joined(links, usable[None], 10)[0]


def test_large_machines_that_are_joined_in_part_have_no_known_rings() -> None:
    links = tuple(tuple(50 if a // 2 == b // 2 else 10 for b in range(20)) for a in range(20))
    assert not joined(links, np.ones((1, 20), dtype=np.bool_), 2)[0]


def test_a_machine_with_fewer_gpus_than_asked_for() -> None:
    assert not joined(((0,),), np.ones((1, 8), dtype=np.bool_), 2)[0]
    assert not joined(CUBE_MESH, np.ones((1, 8), dtype=np.bool_), 9)[0]


def test_a_link_is_as_good_as_its_worse_direction() -> None:
    assert LinkTopology(((0, 50), (25, 0))).bottleneck.tolist() == [0, 0, 0, 25]
