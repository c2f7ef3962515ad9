"""Scores by what GPUs are doing: each told by the choice it makes."""

import pytest

from builders import a_node, a_pod, a_request
from fairlead.cluster.aspects import Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.load import STALE_S
from fairlead.model.errors import ConfigError
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory
from fairlead.model.loads import PodLoad
from fairlead.model.machines import all_joined
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.plugins.fill_quiet_gpus import FillQuietGpus
from fairlead.plugins.gpu_aware import GpuAware
from fairlead.plugins.low_utilisation import LowUtilisation
from fairlead.plugins.memory_room import MemoryRoom
from fairlead.plugins.quiet_neighbours import QuietNeighbours
from fairlead.plugins.utilsched import UtilSched

MIB = 80_000
SHARE = GpuRequest(1, False, 200, memory_mib=10_000, dialect="fairlead")


def a_cluster(*held: str, **nodes: list[GpuReading | None]) -> Cluster:
    """Nodes with a GPU for each reading; `held` names GPUs (`n1-0`) of which a pod has a part."""
    cluster = Cluster()
    for name, readings in nodes.items():
        gpus = tuple(Gpu(f"{name}-{i}", i, "H100", MIB) for i in range(len(readings)))
        listed = Inventory(gpus, dialects=frozenset({"fairlead"}))
        cluster.put_node(a_node(name, gpus=len(gpus), inventory=listed))
    for gpu in held:
        grant = Grant((GpuUse(gpu, False, 200, 10_000),), "fairlead")
        cluster.confirm(a_pod(f"on-{gpu}", node=gpu[:2], grant=grant, gpu_request=SHARE))
    measure(cluster, **nodes)
    return cluster


def measure(cluster: Cluster, now_s: float = 1.0, **nodes: list[GpuReading | None]) -> int:
    told = [
        NodeReadings(name, now_s, {str(i): r for i, r in enumerate(readings) if r is not None})
        for name, readings in nodes.items()
    ]
    cluster.improved.drain()
    cluster.put_readings(told, now_s)
    return cluster.improved.drain()


def rated(score, cluster: Cluster, ask: GpuRequest | None = SHARE, load: PodLoad | None = None):
    request = a_request(gpu_request=ask, load=load)
    return [round(points, 1) for points in score.rate(request, cluster.nodes).tolist()]


def busy(share: float, **more: object) -> GpuReading:
    return GpuReading(share, **more)


def test_filling_goes_to_the_busiest_gpu_that_stays_below_the_level() -> None:
    cluster = a_cluster(
        "n1-0", "n2-0", "n3-0", n1=[busy(0.2)], n2=[busy(0.5)], n3=[busy(0.7)], n4=[busy(0.0)]
    )
    light = PodLoad(0.2)
    found = rated(FillQuietGpus(level=0.8), cluster, load=light)
    assert found == [75.0, 93.8, 22.5, 50.0]
    assert rated(FillQuietGpus(level=0.3), cluster, load=light)[3] == 50.0
    assert max(rated(FillQuietGpus(level=0.3), cluster, load=light)) == 50.0


def test_filling_has_nothing_to_say_about_whole_gpus() -> None:
    cluster = a_cluster(n1=[busy(0.2)], n2=[busy(0.9)])
    assert rated(FillQuietGpus(), cluster, GpuRequest(1)) == [0.0, 0.0]


def test_busy_pods_shun_busy_gpus_and_light_ones_do_not_mind() -> None:
    cluster = a_cluster("n1-0", "n2-0", n1=[busy(0.2)], n2=[busy(0.8)], n3=[None])
    score = QuietNeighbours()
    assert rated(score, cluster, load=PodLoad(1.0)) == [80.0, 20.0, 50.0]
    assert rated(score, cluster) == [90.0, 60.0, 75.0]
    assert rated(score, cluster, load=PodLoad(0.0)) == [100.0, 100.0, 100.0]


def test_hot_gpus_are_for_light_pods_only() -> None:
    cluster = a_cluster(n1=[busy(0.95)], n2=[busy(0.5, memory_busy=0.95)], n3=[busy(0.85)])
    found = rated(QuietNeighbours(), cluster, load=PodLoad(0.2))
    assert found == [0.0, 0.0, 83.0]
    assert rated(QuietNeighbours(hot=1.0), cluster, load=PodLoad(0.2)) == [81.0, 81.0, 83.0]
    assert min(rated(QuietNeighbours(), cluster, load=PodLoad(0.05))) > 95.0


def test_two_rhythms_meet_at_their_busiest_and_bursts_fall_into_gaps() -> None:
    cluster = a_cluster(n1=[busy(0.8, cyclic=True)], n2=[busy(0.8, cyclic=False)])
    lull = {"n1": [busy(0.0, cyclic=True)], "n2": [busy(0.0, cyclic=False)]}
    measure(cluster, 31.0, **lull)
    in_rhythm, in_bursts = PodLoad(1.0, cyclic=True), PodLoad(1.0, cyclic=False)
    measure(cluster, 32.0, n1=[busy(0.8, cyclic=True)], n2=[busy(0.8)])
    peak, mean = cluster.nodes.load.busiest()[0, 0], cluster.nodes.load.busy()[0, 0]
    assert peak > mean
    found = rated(QuietNeighbours(), cluster, load=in_rhythm)
    assert found == pytest.approx([100 * (1 - peak), 100 * (1 - mean)])
    assert rated(QuietNeighbours(), cluster, load=in_bursts) == [found[1], found[1]]


def used(mib: float) -> GpuReading:
    return GpuReading(0.5, memory_used_mib=mib)


def test_memory_that_is_booked_or_in_use_is_not_free() -> None:
    cluster = a_cluster("n2-0", n1=[used(0)], n2=[used(0)], n3=[used(50_000)], n4=[used(75_000)])
    assert rated(MemoryRoom(), cluster) == [93.8, 87.5, 62.5, 46.9]
    packing = rated(MemoryRoom(packs=True), cluster)
    assert packing == [12.5, 25.0, 75.0, 0.0]


def test_without_readings_of_memory_the_book_counts() -> None:
    cluster = a_cluster("n2-0", n1=[None], n2=[None])
    assert rated(MemoryRoom(), cluster) == [93.8, 87.5]


def test_memory_in_use_on_a_whole_gpu_belongs_to_somebody_else() -> None:
    cluster = a_cluster(n1=[used(40_000)], n2=[used(0)])
    assert rated(MemoryRoom(), cluster, GpuRequest(1)) == [75.0, 100.0]
    needs = PodLoad(memory_mib=80_000.0)
    assert rated(MemoryRoom(packs=True), cluster, GpuRequest(1), needs) == [0.0, 100.0]


def test_where_gpus_are_only_counted_the_quietest_are_taken_to_be_free() -> None:
    cluster = Cluster()
    cluster.put_node(a_node("n1", gpus=2))
    cluster.confirm(a_pod("p", gpus=1, node="n1"))
    measure(cluster, n1=[busy(0.9), busy(0.1)])
    assert LowUtilisation().rate(a_request(gpus=1), cluster.nodes).tolist() == [90.0]


def test_every_change_that_a_score_sees_is_told() -> None:
    cluster = a_cluster(n1=[GpuReading(0.5, 0.1, 1000.0)])
    changes = [
        GpuReading(0.5, 0.3, 1000.0),
        GpuReading(0.5, 0.3, 2000.0),
        GpuReading(0.5, 0.3, 2000.0, cyclic=True),
        GpuReading(0.5),
    ]
    for second, change in enumerate(changes, start=2):
        assert measure(cluster, float(second), n1=[change]) == Aspect.LOAD
    assert measure(cluster, 10.0, n1=[GpuReading(0.5)]) == Aspect(0)
    measure(cluster, 11.0, n1=[GpuReading(0.5, memory_used_mib=500.0)])
    cluster.put_readings((), 11.0 + STALE_S)
    assert cluster.improved.drain() == Aspect.LOAD


def test_the_tutorials_points_go_by_real_memory_and_utilisation() -> None:
    cluster = a_cluster(
        n1=[GpuReading(0.0, memory_used_mib=0.0)],
        n2=[GpuReading(1.0, memory_used_mib=0.0)],
        n3=[GpuReading(0.0, memory_used_mib=40_000.0)],
        n4=[None],
    )
    whole, most = GpuRequest(1), 120.0
    points = [50 + 30 + 30, 50 + 0 + 30, 25 + 30 + 30, 50 + 15 + 30]
    expected = [round(100 * found / most, 1) for found in points]
    assert rated(GpuAware(), cluster, whole) == expected
    sketch = GpuAware(free_points=0.0, idle_points=10.0, favoured_points=0.0, joined_points=5.0)
    assert rated(sketch, cluster, whole) == [66.7, 0.0, 66.7, 33.3]


def a_fleet(**models: str) -> Cluster:
    cluster = Cluster()
    for name, model in models.items():
        gpus = tuple(Gpu(f"{name}-{i}", i, model, MIB) for i in range(2))
        cluster.put_node(a_node(name, gpus=2, inventory=Inventory(gpus)))
    return cluster


def test_utilsched_likes_strong_models_and_takes_unknown_ones_to_be_middling() -> None:
    cluster = a_fleet(n1="Tesla K80", n2="Tesla V100-SXM2-16GB", n3="Brand New 9000",
                      n4="NVIDIA A100-SXM4-80GB", n5="NVIDIA H100 80GB HBM3")  # fmt: skip
    found = rated(UtilSched(), cluster, GpuRequest(1))
    assert found == sorted(found)
    assert len(set(found)) == len(found)


def test_utilsched_likes_what_is_idle_and_has_room_for_what_will_come() -> None:
    score, whole = UtilSched(), GpuRequest(1)
    busy, quiet = [GpuReading(0.9)] * 2, [GpuReading(0.1)] * 2
    cluster = a_cluster(n1=busy, n2=quiet, n3=[None, None])
    in_order = rated(score, cluster, whole)
    assert in_order[0] < in_order[2] < in_order[1]
    copying = a_cluster(n1=[GpuReading(0.5, 0.9)] * 2, n2=[GpuReading(0.5, 0.1)] * 2)
    assert rated(score, copying, whole)[0] < rated(score, copying, whole)[1]
    full = a_cluster(n1=[used(70_000)] * 2, n2=[used(0)] * 2)
    assert rated(score, full, whole)[0] < rated(score, full, whole)[1]
    light, heavy = (rated(score, cluster, whole, PodLoad(b))[1] for b in (0.1, 0.9))
    assert light > heavy


def test_utilsched_by_hand() -> None:
    cluster = a_cluster(n1=[GpuReading(0.2, 0.1, 8000.0)] * 2)
    found = rated(UtilSched(), cluster, GpuRequest(1), PodLoad(0.4, memory_mib=16_000.0))
    node = (2 / 8 + 0.5 + 0.8) / 3
    actual = (0.8 + 0.9 + 1 + 1) / 4
    expected = ((1 - 0.2 - 0.4 * 0.5 / 0.8) + (1 - 0.1 - 0.2)) / 2
    assert found == [round(100 * (5 * node + 10 * actual + 3 * expected) / 18, 1)]


def test_utilsched_counts_free_gpus_and_nvlink() -> None:
    cluster = Cluster()
    for name, links in (("n1", ()), ("n2", all_joined(4))):
        gpus = tuple(Gpu(f"{name}-{i}", i, "H100", MIB) for i in range(4))
        cluster.put_node(a_node(name, gpus=4, inventory=Inventory(gpus, links)))
    plain, joined = rated(UtilSched(), cluster, GpuRequest(2, together=2))
    assert joined - plain == pytest.approx(100 * 5 / 3 / 18, abs=0.1)
    cluster.confirm(a_pod("p", node="n1", grant=Grant((GpuUse("n1-0"),))))
    fewer, more = rated(UtilSched(), cluster, GpuRequest(1))
    assert fewer < more


@pytest.mark.parametrize(
    "make",
    [
        lambda: GpuAware(free_points=-1.0),
        lambda: UtilSched(node_weight=0.0, actual_weight=0.0, expected_weight=0.0),
        lambda: QuietNeighbours(hot=0.0),
        lambda: FillQuietGpus(level=1.5),
    ],
)
def test_options_that_make_no_sense_are_refused(make) -> None:
    with pytest.raises(ConfigError, match="write"):
        make()
