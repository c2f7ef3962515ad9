"""Machines whose GPUs are joined in some way, and rings among them by trying all."""

from itertools import combinations, pairwise, permutations

from hypothesis import strategies as st

from fairlead.model.gpus import Links
from fairlead.model.machines import links_of

CUBE_MESH = links_of("Tesla-V100-SXM2-32GB", 8)
PCIE = links_of("NVIDIA-L40S", 8, "g6e.48xlarge")


@st.composite
def wirings(draw: st.DrawFn, most: int = 5) -> Links:
    gpus = draw(st.integers(2, most))
    gbps = {pair: draw(st.sampled_from([0, 10, 25, 50])) for pair in combinations(range(gpus), 2)}
    return tuple(
        tuple(gbps.get((min(a, b), max(a, b)), 0) for b in range(gpus)) for a in range(gpus)
    )


def slowest_of_best_ring(links: Links, gpus: tuple[int, ...]) -> int:
    """All orders around the table."""
    if len(gpus) < 2:
        return 0
    first, *others = gpus
    return max(
        min(links[a][b] for a, b in pairwise((first, *order, first)))
        for order in permutations(others)
    )
