"""GPU policies on small clusters of which every GPU is known."""

import numpy as np
import pytest

from builders import a_node, a_pod, a_request
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.nodes import Nodes
from fairlead.model.gpus import WHOLE, Gpu, GpuRequest, GpuUse, Grant, Inventory
from fairlead.model.machines import links_of
from fairlead.model.pods import PodRequest
from fairlead.placement.place import Placement
from fairlead.placement.profile import Profile
from fairlead.placement.verdicts import Placed
from fairlead.plugins.best_fit import BestFit
from fairlead.plugins.dot_product import DotProduct
from fairlead.plugins.fragmentation_gradient import FragmentationGradient
from fairlead.plugins.gap_price import GapPrice
from fairlead.plugins.gpu_aware import GpuAware
from fairlead.plugins.gpu_best_fit import GpuBestFit
from fairlead.plugins.gpu_clustering import GpuClustering
from fairlead.plugins.gpu_links import GpuLinks
from fairlead.plugins.gpu_packing import GpuPacking
from fairlead.plugins.registry import FILTERS
from fairlead.plugins.spread import Spread
from fairlead.testing.drawn import PRICES


def cluster_of(**nodes: tuple[str, list[int]]) -> Cluster:
    """`a=("H100", [1000, 300])` is a node with two GPUs, of which one has 300 thousandths free."""
    cluster = Cluster()
    for name, (model, free) in nodes.items():
        gpus = tuple(Gpu(f"{name}{n}", n, model) for n in range(len(free)))
        listed = Inventory(gpus, dialects=frozenset({"fairlead"}))
        cluster.put_node(a_node(name, gpus=0, inventory=listed, resources={"cpu": 32_000}))
        for slot, left in enumerate(free):
            if left < WHOLE:
                use = GpuUse(f"{name}{slot}", left == 0, WHOLE - left)
                cluster.confirm(a_pod(f"{name}-{slot}", node=name, grant=Grant((use,), "fairlead")))
    return cluster


def share(milli: int, cpu: int = 0) -> PodRequest:
    return a_request(cpu=cpu, gpu_request=GpuRequest(1, False, milli, dialect="fairlead"))


def whole(gpus: int) -> PodRequest:
    return a_request(gpu_request=GpuRequest(gpus, dialect="fairlead"))


def best(score, request: PodRequest, cluster: Cluster) -> str:
    return cluster.node_at(int(score.rate(request, cluster.nodes).argmax())).name


IDLE, USED = ("T4", [1000, 1000]), ("T4", [1000, 400])


@pytest.mark.parametrize(
    ("score", "request_", "nodes", "expected"),
    [
        pytest.param(GpuPacking(), share(300), {"a": IDLE, "b": USED}, "b", id="a GPU in use"),
        pytest.param(GpuPacking(), whole(1), {"a": IDLE, "b": USED}, "b", id="a node in use"),
        pytest.param(GpuPacking(), whole(1), {"a": ("T4", [1000] * 4), "b": IDLE}, "b",
                     id="the smaller idle node"),
        pytest.param(GpuClustering(), whole(1), {"a": USED, "b": ("T4", [0, 1000])}, "b",
                     id="whole GPUs with whole GPUs"),
        pytest.param(GpuClustering(), share(100), {"a": ("T4", [0, 1000]), "b": IDLE}, "b",
                     id="an idle node before one for others"),
        pytest.param(GpuBestFit(), share(300), {"a": IDLE, "b": USED}, "b", id="parts count"),
        pytest.param(Spread(), share(300), {"a": USED, "b": IDLE}, "b", id="spread over parts"),
        pytest.param(BestFit(), whole(1), {"a": ("T4", [1000] * 4), "b": IDLE}, "b",
                     id="least is left"),
        pytest.param(DotProduct(), whole(1), {"a": ("T4", [1000] * 4), "b": IDLE}, "b",
                     id="where it is scarce"),
        pytest.param(GpuAware(), whole(1), {"a": IDLE, "b": ("NVIDIA H100", [1000])}, "b",
                     id="the favoured model"),
    ],
)  # fmt: skip
def test_what_a_policy_likes(score, request_: PodRequest, nodes, expected: str) -> None:
    assert best(score, request_, cluster_of(**nodes)) == expected


def test_best_fit_in_numbers() -> None:
    cluster = cluster_of(a=("T4", [1000, 400]))
    # 32 - 4 cores of 128 and 1400 - 300 thousandths of 8 GPUs are left
    expected = int(100 * (1 - 0.5 * 28 / 128 - 0.5 * 1.1 / 8))
    assert BestFit().rate(share(300, cpu=4000), cluster.nodes).tolist() == [expected]


def fragments(node: Nodes, cpu: int, free: list[int]) -> float:
    """By the book: what no typical pod can use, summed over typical pods."""
    total = 0.0
    for shape, part in PRICES.typical:
        fitting = [g for g in free if g >= shape.milli]
        fits = shape.gpus and cpu >= shape.cpu_milli and len(fitting) >= shape.gpus
        total += part * (sum(free) - (sum(fitting) if fits else 0))
    return total


@pytest.mark.parametrize("milli", [100, 300, 500, 1000])
@pytest.mark.parametrize("free", [[1000, 1000], [600, 500, 1000], [1000, 300]])
def test_the_gradient_is_that_of_the_definition(free: list[int], milli: int) -> None:
    cluster = cluster_of(a=("T4", free))
    cluster.put_prices(PRICES)
    request = whole(1) if milli == WHOLE else share(milli, cpu=31_200)
    cpu_after = 32_000 - request.amount("cpu")
    before = fragments(cluster.nodes, 32_000, free)
    expected = []
    for slot, left in enumerate(free):
        if left >= milli:
            after = [*free[:slot], left - milli, *free[slot + 1 :]]
            gain = before - fragments(cluster.nodes, cpu_after, after)
            expected.append(int(100 / (1 + np.exp(-(gain + 1e-9) / 1000))))
    assert cluster.nodes.fragments_milli()[0] == pytest.approx(before)
    assert FragmentationGradient().rate(request, cluster.nodes).tolist() == [max(expected)]


def test_a_gap_that_nobody_wants_costs_nothing() -> None:
    """Gaps up to half a GPU are worth nothing: better to use one up than to break a GPU."""
    cluster = cluster_of(a=IDLE, b=USED)
    cluster.put_prices(PRICES)
    assert best(GapPrice(), share(400), cluster) == "b"


def test_a_model_that_others_insist_on_is_spared() -> None:
    cluster = cluster_of(a=("H100", [1000]), b=("T4", [1000]))
    assert best(GapPrice(), whole(1), cluster) == "a", "the first, while nothing is known"
    cluster.put_prices(PRICES)
    assert best(GapPrice(), whole(1), cluster) == "b"


def test_gpus_keep_the_cpu_that_they_need() -> None:
    cluster = cluster_of(a=("T4", [1000] * 8), b=("T4", [1000] * 2))
    cluster.put_prices(PRICES)
    assert best(GapPrice(), a_request(cpu=16_000), cluster) == "b", "8 GPUs need all 32 cores"


def test_a_pod_without_gpus_stays_off_gpus() -> None:
    cluster = cluster_of(a=("T4", [1000]))
    cluster.put_node(a_node("plain", gpus=0))
    cluster.put_prices(PRICES)
    assert best(GapPrice(), a_request(cpu=1000), cluster) == "plain"


@pytest.mark.parametrize("score", [FragmentationGradient(), GapPrice(), GpuAware()])
@pytest.mark.parametrize("priced", [True, False])
def test_a_share_goes_to_the_gpu_that_the_score_counted_on(score, priced: bool) -> None:
    cluster = cluster_of(a=("T4", [1000, 450, 620, 700]))
    if priced:
        cluster.put_prices(PRICES)
    profile = Profile("p", tuple(kind() for kind in FILTERS), ((score, 1.0),))
    pod = a_pod("new", cpu=100, gpu_request=GpuRequest(1, False, 400, dialect="fairlead"))
    verdict = Placement(profile, cluster).place(pod)
    assert isinstance(verdict, Placed)
    (use,) = verdict.grant.uses
    rated = score.rate_gpus(pod.request, cluster.nodes)[0]
    usable = [slot for slot, free in enumerate([1000, 450, 620, 700]) if free >= 400]
    assert use.uuid == f"a{max(usable, key=lambda slot: (rated[slot], -slot))}"


def test_unlisted_gpus_count_as_whole_ones() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("counted", gpus=16))
    cluster.confirm(a_pod("there", gpus=3, node="counted", gpu_request=GpuRequest(3)))
    assert cluster.nodes.gpu_room().sum() == 13 * WHOLE


def test_gpus_that_somebody_else_chose_are_not_thought_free() -> None:
    cluster = cluster_of(a=("T4", [1000, 1000, 400]))
    cluster.confirm(a_pod("theirs", node="a", gpu_request=GpuRequest(1)))
    assert cluster.nodes.gpu_room()[0].tolist()[:3] == [1000, 0, 400]


def test_several_gpus_go_where_a_good_ring_is_free() -> None:
    """On a DGX-1V GPUs 0 and 3 have two links, 0 and 1 have one, 0 and 5 none."""
    links = links_of("Tesla V100-SXM2-32GB", 8)
    free = {"far": (0, 5), "near": (0, 1), "best": (0, 3)}
    cluster = Cluster()
    for name, left in free.items():
        gpus = tuple(Gpu(f"GPU-{name}-{n}", n, "V100", 32768, healthy=n in left) for n in range(8))
        cluster.put_node(a_node(name, gpus=8, inventory=Inventory(gpus, links)))
    asked = a_request(gpu_request=GpuRequest(2, together=2))
    assert GpuLinks().rate(asked, cluster.nodes).tolist() == [20.0, 50.0, 100.0]
    alone = a_request(gpu_request=GpuRequest(2, together=1))
    assert GpuLinks().rate(alone, cluster.nodes).tolist() == [0.0] * 3
