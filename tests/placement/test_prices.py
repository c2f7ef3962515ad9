"""What gaps are worth, worked out by hand for demands that are simple enough."""

import numpy as np
import pytest

from fairlead.model.prices import Basis, PodShape
from fairlead.placement import prices
from fairlead.placement.packing import MARKS, gap_values, solved_prices
from fairlead.placement.prices import ETA, compute, typical


def basis(*shapes: tuple[PodShape, int], gpus: int = 100) -> Basis:
    return Basis(shapes, (("T4", gpus),))


def part(milli: int, **more) -> PodShape:
    return PodShape(4000, 1 << 30, 1, milli, **more)


def test_too_few_pods_have_no_prices() -> None:
    assert compute(basis((part(500), 99))) is None
    assert compute(basis((PodShape(1000), 1000))) is None, "nobody asks for GPUs"
    assert compute(Basis(((part(500), 1000),), ())) is None, "there are none"


def test_a_gap_is_worth_what_fits_into_it() -> None:
    found = compute(basis((part(810), 1000)))
    assert found is not None
    assert found.values[80] == 0
    assert found.values[81] == pytest.approx(810 * (1 + ETA))
    assert found.values[100] == found.values[81], "the rest of the GPU is of no use"


def test_halves_are_worth_half() -> None:
    found = compute(basis((part(500), 1000)))
    assert found is not None
    assert found.values[50] == pytest.approx(found.values[100] / 2)


def test_what_there_is_too_little_of_to_fill_holes_is_worth_nothing() -> None:
    """A few small pods find their place in the holes that large ones leave anyway."""
    found = compute(basis((part(810), 900), (part(100), 100)))
    assert found is not None
    assert found.values[10] <= ETA * 100
    assert found.values[100] >= 810


def test_values_rise() -> None:
    found = compute(basis((part(250), 200), (part(460), 500), (part(1000), 300)))
    assert found is not None
    assert list(found.values) == sorted(found.values)


def test_the_same_pods_give_the_same_prices() -> None:
    pods = basis((part(250), 200), (part(460), 500), (part(1000), 300))
    assert compute(pods) == compute(pods)


def test_what_pods_bring_along() -> None:
    eight = PodShape(80_000, 1 << 33, 8, 1000)
    found = compute(basis((part(500), 100), (eight, 100)))
    assert found is not None
    assert found.cpu_milli_per_gpu == pytest.approx((4000 + 80_000) / 8.5)
    assert found.blocks == ((8, 0.5),)


def test_pods_without_gpus_make_it_less_likely_that_the_next_one_needs_gpus() -> None:
    found = compute(
        basis((part(810), 300), (PodShape(9000, 0, 8, 1000), 100), (PodShape(1000), 600))
    )
    assert found is not None
    assert found.blocks == ((8, 0.1),)
    assert found.values[99] == pytest.approx(810 * (1 + ETA * 0.3))


def test_a_scarce_model_is_under_pressure() -> None:
    pods = ((part(1000), 300), (part(1000, models=frozenset({"G3"})), 100))
    found = compute(Basis(pods, (("G2", 90), ("G3", 10))))
    assert found is not None
    # a quarter of the demand, which is as much as there are GPUs, wants a tenth of them
    assert found.pressure == (("G3", pytest.approx(2.5)),)


def test_typical_pods_are_the_most_frequent_ones() -> None:
    found = typical(((part(100), 90), (part(200), 6), (part(300), 4)))
    assert [shape.milli for shape, _ in found] == [100, 200]
    assert sum(share for _, share in found) == pytest.approx(1)
    assert prices.ENOUGH_PODS == 100


def test_pressure_is_on_the_gpus_that_a_wish_means() -> None:
    """Pods say H100, drivers say more."""
    pods = ((part(1000), 300), (part(1000, models=frozenset({"h100"})), 100))
    found = compute(Basis(pods, (("NVIDIA A100-SXM4-80GB", 90), ("NVIDIA H100 80GB HBM3", 10))))
    assert found is not None
    assert found.pressure == (("NVIDIA H100 80GB HBM3", pytest.approx(2.5)),)


@pytest.mark.parametrize("size", [1, 3, 7, 25, 33, 34, 50, 51, 75, 99, 100])
@pytest.mark.parametrize("gpus", [1, 2, 64, 1000])
def test_one_size_needs_no_solver(size: int, gpus: int) -> None:
    """Clusters without shares have one size: the prices are those that the solver finds."""
    sizes = np.array([size])
    (demand, *_) = prices._demands(sizes, np.array([1.0]), gpus)
    found = gap_values(sizes, demand, gpus)
    worth = solved_prices(sizes, demand, gpus)
    count = np.arange(MARKS + 1) // size
    assert found == pytest.approx(count * float(worth[0]))
