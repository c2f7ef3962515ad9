"""What pods request of GPUs, as amounts that autoscalers count."""

import pytest

from fairlead.model.gpu_resources import GPU_MIB, GPU_MILLI, part_amounts
from fairlead.model.gpus import FAIRLEAD, GpuRequest, MigProfile
from fairlead.testing.builders import gpu_share


def a_slice(profile: str, gpus: int = 1) -> GpuRequest:
    return GpuRequest(gpus, whole=False, milli=0, profile=profile, dialect=FAIRLEAD)


@pytest.mark.parametrize(
    ("asked", "amounts"),
    [
        pytest.param(None, {}, id="no GPU"),
        pytest.param(gpu_share(500), {GPU_MILLI: 500}, id="a share"),
        pytest.param(gpu_share(0, 4096), {GPU_MILLI: 1, GPU_MIB: 4096}, id="memory alone"),
        pytest.param(gpu_share(250, 4096), {GPU_MILLI: 250, GPU_MIB: 4096}, id="both"),
        pytest.param(a_slice("1g.18gb"), {GPU_MILLI: 142}, id="a slice"),
        pytest.param(a_slice("7g.141gb", 2), {GPU_MILLI: 2000}, id="two whole slices"),
        pytest.param(GpuRequest(2, dialect="hami"), {}, id="a dialect with resources"),
        pytest.param(GpuRequest(1, whole=False, profile="1g.5gb"), {}, id="a plugin's slice"),
    ],
)
def test_parts_of_gpus_are_counted(asked: GpuRequest | None, amounts: dict[str, int]) -> None:
    assert part_amounts(asked, whole=True) == amounts
    assert part_amounts(asked, whole=False) == amounts


def test_whole_gpus_are_counted_where_all_nodes_offer_parts() -> None:
    assert part_amounts(GpuRequest(8), whole=False) == {}
    assert part_amounts(GpuRequest(8), whole=True) == {GPU_MILLI: 8000}


def test_seven_slices_are_no_more_than_a_gpu() -> None:
    [milli] = part_amounts(a_slice("1g.18gb", 7), whole=False).values()
    assert milli <= 1000


def test_the_name_of_a_slice_may_be_of_any_length() -> None:
    """Nodes list their slices: more digits than an int may have end nothing."""
    assert MigProfile("9" * 5000 + "g.5gb", 2, (0,)).compute == 2
