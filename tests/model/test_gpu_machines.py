"""What is known about machines that say what they are, but not how they are wired or cut."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from fairlead.model.gpus import NVLINK_GBPS, MigProfile
from fairlead.model.machines import (
    PCIE_GBPS,
    geometry_of,
    has_nvlink,
    is_model,
    link_gbps,
    links_of,
    numa_of,
    product_of,
)

H200 = Path(__file__).parents[1] / "fixtures" / "h200"


@pytest.mark.parametrize(
    ("product", "wanted", "is_one"),
    [
        pytest.param("NVIDIA-H100-80GB-HBM3", "H100", True, id="as feature discovery writes it"),
        pytest.param("NVIDIA H100 80GB HBM3", "h100", True, id="as the driver writes it"),
        pytest.param("NVIDIA-H100-80GB-HBM3", "NVIDIA H100 80GB HBM3", True, id="in full"),
        pytest.param("NVIDIA-A100-SXM4-80GB", "A100-80GB", True, id="some of its words"),
        pytest.param("NVIDIA-A100-SXM4-40GB", "A100-80GB", False, id="another memory"),
        pytest.param("NVIDIA A100-SXM4-80GB", "A10", False, id="a name that begins alike"),
        pytest.param("NVIDIA-A10G", "A10", False, id="a letter more"),
        pytest.param("NVIDIA-L40S", "L40", False, id="another letter more"),
        pytest.param("NVIDIA-GH200-480GB", "H200", False, id="a name that ends alike"),
        pytest.param("Tesla-V100-SXM2-32GB", "V100", True, id="an old brand"),
        pytest.param("NVIDIA-A100-SXM4-80GB-SHARED", "A100", True, id="time-sliced"),
        pytest.param("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100", False, id="a slice is no GPU"),
        pytest.param("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100-MIG-1g.5gb", True, id="a slice"),
        pytest.param("", "H100", False, id="nobody says"),
        pytest.param("NVIDIA-H100", "-", False, id="a wish without words"),
    ],
)
def test_models(product: str, wanted: str, is_one: bool) -> None:
    assert is_model(product, wanted) is is_one


@pytest.mark.parametrize(
    ("product", "gpus"),
    [
        ("NVIDIA-A100-SXM4-80GB", 8),
        ("NVIDIA-A100-SXM4-40GB", 16),
        ("NVIDIA-H100-80GB-HBM3", 8),
        ("NVIDIA-H200", 8),
        ("NVIDIA-B200", 8),
        ("NVIDIA-GB200", 4),
        ("Tesla-V100-SXM3-32GB", 16),
    ],
)
def test_switches_join_all_gpus_equally(product: str, gpus: int) -> None:
    links = links_of(product, gpus)
    assert len({gbps for a, row in enumerate(links) for b, gbps in enumerate(row) if a != b}) == 1
    assert has_nvlink(links)


def test_the_cube_mesh_has_six_links_a_gpu() -> None:
    links = links_of("Tesla-V100-SXM2-32GB", 8, "p3dn.24xlarge")
    assert all(links[a][b] == links[b][a] for a in range(8) for b in range(8))
    for row in links:
        assert sum(gbps for gbps in row if gbps >= NVLINK_GBPS) == 6 * 25
    assert links_of("Tesla-V100-SXM2-16GB", 4) == tuple(row[:4] for row in links[:4])


def test_boxes_without_nvlink_know_their_sockets() -> None:
    links = links_of("NVIDIA-L40S", 8, "g6e.48xlarge")
    assert not has_nvlink(links)
    assert links[0][1] > links[0][7]
    assert numa_of(8, "g6e.48xlarge") == (0, 0, 0, 0, 1, 1, 1, 1)
    assert numa_of(4, "somebody's own") == (-1,) * 4


@pytest.mark.parametrize(
    "product", ["NVIDIA-A100-PCIE-40GB", "NVIDIA-H100-NVL", "NVIDIA-A40", "", "NVIDIA-Z9"]
)
def test_nobody_knows_how_add_in_gpus_are_bridged(product: str) -> None:
    assert links_of(product, 4) == ()


def test_paths_as_nvidia_smi_writes_them() -> None:
    assert link_gbps("NV18", "NVIDIA H200") == 450
    assert link_gbps("NV18", "NVIDIA B200") == 900
    assert link_gbps("NV1", "Tesla P100-SXM2-16GB") >= NVLINK_GBPS
    assert link_gbps("X", "NVIDIA H200") == link_gbps("NV", "NVIDIA H200") == 0
    paths = [link_gbps(path, "NVIDIA L40S") for path in ("PIX", "PXB", "PHB", "NODE", "SYS")]
    assert paths == sorted(paths, reverse=True)
    assert max(PCIE_GBPS.values()) < NVLINK_GBPS


def test_machines_of_clouds_have_gpus_that_we_know_the_links_of() -> None:
    assert all(links_of(product_of(m), 8, m) for m in ("p3.16xlarge", "p5.48xlarge", "g5.48xlarge"))
    assert product_of("m5.large") == ""


# -- MIG -------------------------------------------------------------------------------------------


def listed_profiles(folder: Path) -> Mapping[str, MigProfile]:
    """What `nvidia-smi mig -lgip` and `-lgipp` printed on a machine."""
    listed = re.findall(r"MIG (\S+)\s+(\d+)\s+\d+/\d+", (folder / "mig_lgip.txt").read_text())
    names = {number: name for name, number in listed}
    places = re.findall(
        r"Profile ID\s+(\d+) Placements?\s*: \{([\d,]+)\}:(\d+)",
        (folder / "mig_lgipp.txt").read_text(),
    )
    return {
        names[number]: MigProfile(names[number], int(size), tuple(map(int, starts.split(","))))
        for number, starts, size in places
    }


def test_the_table_is_what_a_real_h200_says() -> None:
    listed = listed_profiles(H200)
    assert len(listed) == 7
    known = {profile.name: profile for profile in geometry_of("NVIDIA H200", 143771)}
    assert known == {name: profile for name, profile in listed.items() if "+me" not in name}


@pytest.mark.parametrize(
    ("product", "memory_mib", "names"),
    [
        ("NVIDIA-A100-SXM4-40GB", 40960, "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),
        ("NVIDIA-A100-SXM4-80GB", 81920, "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
        ("NVIDIA-H100-80GB-HBM3", 81559, "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
        ("NVIDIA-H100-NVL", 95830, "1g.12gb 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb"),
        ("NVIDIA-A30", 24576, "1g.6gb 2g.12gb 4g.24gb"),
        ("NVIDIA-L40S", 46068, ""),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 4864, ""),
        ("NVIDIA-H200", 0, ""),
    ],
)
def test_slices_are_named_by_the_memory_on_the_box(
    product: str, memory_mib: int, names: str
) -> None:
    assert " ".join(profile.name for profile in geometry_of(product, memory_mib)) == names
