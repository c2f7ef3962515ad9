"""How much of a GPU counts for a queue."""

import pytest

from fairlead.model.gpu_parts import milli_of_request, milli_of_use, slice_milli
from fairlead.model.gpus import GpuRequest, GpuUse, Isolation


@pytest.mark.parametrize(
    ("asked", "milli"),
    [
        (GpuRequest(2), 2000),
        (GpuRequest(1, whole=False, milli=300), 300),
        (GpuRequest(2, whole=False, milli=0, memory_milli=250), 500),
        (GpuRequest(1, whole=False, milli=100, memory_mib=20_000), 500),
        (GpuRequest(1, whole=False, milli=0), 1),
        (GpuRequest(3, profile="1g.10gb"), 375),
        (GpuRequest(1, profile="4g.24gb"), 1000),
        (GpuRequest(1, whole=False, milli=300, isolation=Isolation.MIG), 500),
        (GpuRequest(1, whole=False, milli=900, isolation=Isolation.MIG), 1000),
    ],
)
def test_what_a_request_may_come_to_hold(asked: GpuRequest, milli: int) -> None:
    assert milli_of_request(asked, 40_000) == milli


@pytest.mark.parametrize(
    ("use", "milli"),
    [
        (GpuUse("g"), 1000),
        (GpuUse("g", whole=False, milli=300, memory_mib=20_000), 500),
        (GpuUse("g", whole=False, milli=600, memory_mib=20_000), 600),
        (GpuUse("g", profile="3g.40gb", start=0, slices=4), 500),
    ],
)
def test_what_a_pod_has(use: GpuUse, milli: int) -> None:
    assert milli_of_use(use, 40_000) == milli


def test_slices_that_fill_a_gpu_never_count_for_more_than_it() -> None:
    assert 7 * slice_milli("1g.5gb") <= 1000
    assert slice_milli("4g.40gb") + slice_milli("3g.40gb") == 1000
    assert slice_milli("what is this") == 1000
