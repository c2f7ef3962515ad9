"""Gangs with `fairlead.dev/gang-topology` on the real API server."""

from pathlib import Path

import pytest

from fairleads import Pods, fairlead

BLOCK, RACK = "example.com/block", "example.com/rack"
CONFIG = f"""
topology:
  levels:
    - {BLOCK}
    - nodeLabel: {RACK}
      name: cabinet
"""


@pytest.fixture
def nodes(create_nodes) -> None:
    """Two blocks, each with a rack 1: of 6 and of 8 free GPUs; and a rack 2 of 4."""
    for block, rack, gpus in [("a", "1", (4, 2)), ("b", "1", (4, 4)), ("b", "2", (4,))]:
        for number, free in enumerate(gpus):
            create_nodes(
                [f"rack-{block}{rack}-{number}"],
                allocatable={"nvidia.com/gpu": str(free)},
                labels={BLOCK: block, RACK: rack},
            )


def gang(pods: Pods, name: str, count: int, topology: str) -> list[str]:
    said = {
        "fairlead.dev/gang": name,
        "fairlead.dev/gang-min": str(count),
        "fairlead.dev/gang-topology": topology,
    }
    names = [f"{name}-{number}" for number in range(count)]
    for each in names:
        pods.create(each, 1, metadata={"annotations": said})
    return names


def racks(pods: Pods, names: list[str]) -> set[str]:
    return {pods.node(name).rpartition("-")[0] for name in names}


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG)
    return str(file)


@pytest.mark.usefixtures("nodes")
def test_a_gang_is_bound_in_one_rack_of_one_block(control_plane, pods, config: str) -> None:
    large = gang(pods, "large", 9, "required: cabinet")  # all of it before it is looked at
    with fairlead(control_plane, "--config", config) as running:
        condition = pods.wait_refused(large[0])
        assert condition["reason"] == "Unschedulable"
        assert condition["message"].startswith(
            f"gang {pods.namespace}/large: cabinet b/1 has room for 8 of 9 pods; 1 more GPU in one "
            "cabinet would do; it would fit in 2 cabinets."
        )
        fits = gang(pods, "fits", 8, f"required: {RACK}")
        pods.wait_bound(*fits)
        assert racks(pods, fits) == {"rack-b1"}
        assert running.metric("fairlead_gang_domains_sum", level=RACK) == 1
        spread = gang(pods, "spread", 8, "preferred: cabinet")
        pods.wait_bound(*spread)
        assert racks(pods, spread) == {"rack-a1", "rack-b2"}
        assert not any(pods.node(name) for name in large)


@pytest.mark.slow
@pytest.mark.usefixtures("nodes")
def test_a_gang_waits_for_one_rack_as_long_as_its_patience(
    control_plane, pods, config: str
) -> None:
    names = gang(pods, "patient", 9, f"required: {RACK}, patience 20s")
    with fairlead(control_plane, "--config", config):
        condition = pods.wait_refused(names[0])
        assert condition["reason"] == "WaitingForTopology"
        pods.wait_bound(*names)
        assert len(racks(pods, names)) == 2
