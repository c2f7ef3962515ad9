"""Which GPUs a pod gets, where GPUs are not all equal."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from fairlead.model.gpus import Gpu, Inventory, Links
from fairlead.model.machines import all_joined
from fairlead.placement.links import best_set
from wirings import CUBE_MESH, PCIE, slowest_of_best_ring, wirings


def machine(links: Links, numa: str = "") -> Inventory:
    sockets = [int(each) for each in numa] or [-1] * 8
    gpus = (Gpu(f"GPU-{n}", n, numa=socket) for n, socket in enumerate(sockets))
    return Inventory(tuple(gpus), links)


DGX = machine(CUBE_MESH, "00001111")
HGX = machine(all_joined(8, 450), "00001111")
L40S = machine(PCIE, "00001111")
UNTOLD = machine((), "00001111")
WIDE = machine(
    tuple(tuple(50 if a // 4 == b // 4 else 10 for b in range(20)) for a in range(20)), "0" * 20
)


@pytest.mark.parametrize(
    ("inventory", "free", "count", "together", "chosen"),
    [
        pytest.param(DGX, "01234567", 2, 2, "03", id="a double link"),
        pytest.param(DGX, "0156", 2, 2, "56", id="the double link that leaves a link"),
        pytest.param(DGX, "0124", 2, 2, "12", id="two that are as good: one socket"),
        pytest.param(DGX, "01234567", 4, 4, "0123", id="a quad"),
        pytest.param(DGX, "0135", 3, 3, "013", id="three in a ring of NVLinks"),
        pytest.param(DGX, "123567", 1, 1, "3", id="one GPU that breaks little"),
        pytest.param(DGX, "0123456", 1, 1, "4", id="one GPU, and a quad stays whole"),
        pytest.param(DGX, "01234567", 4, 2, "0312", id="pairs, one after the other"),
        pytest.param(DGX, "01234567", 8, 8, "01234567", id="all there are"),
        pytest.param(HGX, "01234567", 2, 2, "01", id="all equal: the lowest"),
        pytest.param(HGX, "0123467", 3, 3, "467", id="all equal: the fuller socket"),
        pytest.param(HGX, "0124567", 4, 4, "4567", id="all equal: one socket"),
        pytest.param(HGX, "0145", 3, 3, "014", id="all equal: as few sockets as can be"),
        pytest.param(HGX, "0123456", 5, 5, "01234", id="all equal: one socket and a bit"),
        pytest.param(L40S, "3456", 2, 2, "45", id="PCIe: on one socket"),
        pytest.param(UNTOLD, "3456", 2, 2, "45", id="nobody says how: on one socket"),
        pytest.param(machine(()), "3456", 2, 2, "34", id="nobody says anything: the lowest"),
    ],
)
def test_the_best_set(
    inventory: Inventory, free: str, count: int, together: int, chosen: str
) -> None:
    slots = [int(slot) for slot in free]
    assert "".join(map(str, best_set(slots, count, inventory, together))) == chosen


def test_a_large_machine_is_searched_along_its_links() -> None:
    free = [0, 1, 2, 5, 6, 7, 9, 10, 12, 13, 14, 15, 18]
    assert best_set(free, 4, WIDE, 4) == (12, 13, 14, 15)
    assert best_set(free, 3, WIDE, 3) == (0, 1, 2)


@examples(50)
@given(wirings(), st.data())
def test_no_other_set_has_a_better_ring(links: Links, data) -> None:
    free = sorted(data.draw(st.sets(st.integers(0, len(links) - 1), min_size=1)))
    count = data.draw(st.integers(1, len(free)))
    chosen = best_set(free, count, machine(links), count)
    assert len(set(chosen)) == count
    assert set(chosen) <= set(free)
    assert slowest_of_best_ring(links, chosen) == max(
        slowest_of_best_ring(links, gpus) for gpus in combinations(free, count)
    )


@examples(50)
@given(wirings(), st.data())
def test_gpus_that_work_alone_break_as_few_links_as_can_be(links: Links, data) -> None:
    free = sorted(data.draw(st.sets(st.integers(0, len(links) - 1), min_size=1)))
    count = data.draw(st.integers(1, len(free)))

    def broken(gpus: tuple[int, ...]) -> int:
        return sum(links[a][b] for a in gpus for b in free if b not in gpus)

    chosen = best_set(free, count, machine(links), together=1)
    assert broken(chosen) == min(broken(gpus) for gpus in combinations(free, count))


@given(
    st.sets(st.integers(0, 7), min_size=1), st.integers(1, 8), st.integers(1, 8), st.permutations(
        (0, 0, 0, 0, 1, 1, 1, 1)
    )
)  # fmt: skip
def test_any_ask_gets_as_many_gpus_as_it_wants(free, count, together, numa) -> None:
    count = min(count, len(free))
    for links in (CUBE_MESH, PCIE, all_joined(8), ()):
        chosen = best_set(sorted(free), count, machine(links, "".join(map(str, numa))), together)
        assert len(set(chosen)) == len(chosen) == count
        assert set(chosen) <= free
