import pytest

from builders import a_node, a_pod, a_request, drawn
from fairlead.cluster.cluster import Cluster
from fairlead.plugins.allocation import LeastAllocated, MostAllocated
from fairlead.plugins.gpu_best_fit import GpuBestFit
from fairlead.plugins.spread import Spread

GIB = 1 << 30


@pytest.mark.parametrize(
    ("plugin", "cluster", "gpus", "best"),
    [
        pytest.param(GpuBestFit(), ["a ####....", "b ###."], 1, "b",
                     id="what would remain counts, not what is used"),
        pytest.param(GpuBestFit(), ["a ........", "b ##......", "c ####...."], 4, "c",
                     id="an exact fit is best"),
        pytest.param(GpuBestFit(), ["a ........", "b "], 0, "b",
                     id="a pod without GPUs stays off GPU nodes"),
        pytest.param(GpuBestFit(), ["a ....", "b ####"], 0, "b",
                     id="or goes where no GPU is left to waste"),
        pytest.param(Spread(), ["a ##..", "b #......."], 1, "b", id="the emptier share wins"),
        pytest.param(Spread(), ["a #.", "b ##...."], 1, "b", id="by share, not by count"),
    ],
)  # fmt: skip
def test_which_node_is_best(plugin, cluster: list[str], gpus: int, best: str) -> None:
    nodes = drawn(*cluster)
    scores = plugin.rate(a_request(gpus=gpus), nodes.nodes)
    assert nodes.node_at(int(scores.argmax())).name == best


def a_scored_cluster(cpu_used: int, memory_used: int) -> Cluster:
    cluster = Cluster()
    cluster.put_node(a_node("n1", resources={"cpu": 4000, "memory": 10 * GIB}))
    cluster.confirm(a_pod(node="n1", scored=(cpu_used, memory_used)))
    return cluster


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        # cpu: 3 of 4 cores free after placing = 75; memory: 7 of 10 GiB = 70; mean 72 in integers
        (LeastAllocated(), 72),
        (MostAllocated(), 27),
        (LeastAllocated({"cpu": 3, "memory": 1}), 73),
        # an extended resource counts only for pods that ask for it
        (LeastAllocated({"cpu": 1, "nvidia.com/gpu": 100}), 75),
    ],
)
def test_allocation_is_kube_schedulers_arithmetic(plugin, expected: int) -> None:
    cluster = a_scored_cluster(500, 2 * GIB)
    scores = plugin.rate(a_request(scored=(500, GIB)), cluster.nodes)
    assert scores.tolist() == [expected]


def test_a_node_without_the_resource_is_not_blamed_for_it() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("cpu-only", gpus=0, resources={"cpu": 4000, "memory": 10 * GIB}))
    both = LeastAllocated({"cpu": 1, "nvidia.com/gpu": 1})
    scores = both.rate(a_request(gpus=1, scored=(1000, 0)), cluster.nodes)
    assert scores.tolist() == [75]
