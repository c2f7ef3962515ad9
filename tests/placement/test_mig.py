"""Slices have places: never two on one, never where the GPU does not allow it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_node, a_pod
from examples import examples
from fairlead.cluster.cluster import Cluster
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Inventory
from fairlead.model.machines import geometry_of
from fairlead.placement.gpus import GpuPolicy, choose
from fairlead.placement.mig import slice_place

A100 = geometry_of("NVIDIA A100-SXM4-80GB", 81920)
A30 = geometry_of("NVIDIA A30", 24576)
NAMES = [profile.name for profile in A100]


def bits(drawn: str) -> int:
    """`##......` is a GPU with its first two slices in use."""
    return sum(1 << place for place, mark in enumerate(drawn) if mark == "#")


@pytest.mark.parametrize(
    ("profile", "gpus", "place"),
    [
        pytest.param("1g.10gb", ["........"], (0, 6), id="where it is in nobody's way"),
        pytest.param("1g.10gb", ["......#."], (0, 4), id="then beside it"),
        pytest.param("2g.20gb", ["........"], (0, 4), id="a pair keeps the left half whole"),
        pytest.param("3g.40gb", ["........"], (0, 4), id="three keep the left half for four"),
        pytest.param("4g.40gb", ["....####", "........"], (0, 0), id="four beside three"),
        pytest.param("1g.10gb", ["........", "####.#.."], (1, 4), id="a GPU that is spoilt"),
        pytest.param("1g.10gb", ["########", "######.#"], (1, 6), id="the last place"),
        pytest.param("2g.20gb", ["######..", ".#.#.#.#"], None, id="two halves make no pair"),
        pytest.param("7g.80gb", ["#.......", "........"], (1, 0), id="a GPU of its own"),
        pytest.param("1g.20gb", ["######..", "........"], (0, 6), id="the odd end"),
        pytest.param("9g.90gb", ["........"], None, id="a slice that nobody makes"),
    ],
)
def test_the_place(profile: str, gpus: list[str], place: tuple[int, int] | None) -> None:
    ask = GpuRequest(1, False, profile=profile)
    found = slice_place(ask, {slot: (A100, bits(gpu)) for slot, gpu in enumerate(gpus)})
    assert (found and found[:2]) == place


def test_gpus_of_several_kinds() -> None:
    ask = GpuRequest(1, False, profile="4g.24gb")
    found = slice_place(ask, {3: (A100, 0), 5: (A30, 0), 7: ((), 0)})
    assert found == (5, 0, 4)


def a_cluster(gpus: int) -> Cluster:
    cluster = Cluster()
    listed = (Gpu(f"GPU-{n}", n, "A100", 81920, mig=A100) for n in range(gpus))
    cluster.put_node(a_node("n1", gpus=0, inventory=Inventory(tuple(listed))))
    return cluster


def slices_on(cluster: Cluster) -> list[GpuUse]:
    return [use for held in cluster.held_on("n1") for use in held.grant.uses]


def check(uses: list[GpuUse]) -> None:
    legal = {profile.name: profile for profile in A100}
    taken: set[tuple[str, int]] = set()
    for use in uses:
        profile = legal[use.profile]
        assert use.start in profile.starts
        assert use.slices == profile.slices
        cells = {(use.uuid, use.start + offset) for offset in range(use.slices)}
        assert not cells & taken, f"{use} overlaps another slice"
        taken |= cells


@examples(50)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(NAMES), st.integers(1, 3)),  # a pod that asks
            st.integers(0, 30),  # a pod that goes, counted from the first
        ),
        max_size=40,
    )
)
def test_slices_never_overlap_and_are_always_legal(steps) -> None:
    cluster = a_cluster(3)
    running: list[str] = []
    for number, step in enumerate(steps):
        if isinstance(step, int):
            if running:
                cluster.remove(running.pop(step % len(running)))
            continue
        profile, count = step
        ask = GpuRequest(count, whole=False, milli=0, profile=profile)
        fits = bool(cluster.nodes.gpus.enough(ask)[0])
        grant = choose(ask, cluster.columns.devices, 0, GpuPolicy.PACK) if fits else None
        assert (grant is not None) == fits, "the filter and the choice agree"
        if grant:
            cluster.confirm(a_pod(f"p{number}", uid=str(number), node="n1", grant=grant))
            running.append(str(number))
        check(slices_on(cluster))
