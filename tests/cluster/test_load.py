"""What GPUs are doing, as rules see it: fresh readings count, old ones fade, odd ones do not."""

import math
from collections.abc import Sequence

import pytest

from builders import a_node, a_request
from fairlead.cluster.aspects import NOTHING, Aspect
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.load import FRESH_S, MIDDLING, STALE_S
from fairlead.model.gpus import Gpu, Inventory
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.plugins.low_utilisation import LowUtilisation


def listed(*uuids: str) -> Inventory:
    return Inventory(tuple(Gpu(uuid, index, "H200") for index, uuid in enumerate(uuids)))


def a_cluster(**inventories: Inventory | None) -> Cluster:
    cluster = Cluster()
    for name, gpus in inventories.items():
        cluster.put_node(a_node(name, gpus=2, inventory=gpus))
    return cluster


def tell(cluster: Cluster, now_s: float, taken_s: float | None = None, **busy: float) -> int:
    """`n1_0=0.5`: the GPU of index 0 on n1 is busy half of the time. Returns what improved."""
    told: dict[str, dict[str, GpuReading]] = {}
    for name, share in busy.items():
        node, gpu = name.split("_")
        told.setdefault(node, {})[gpu] = GpuReading(share)
    at_s = now_s if taken_s is None else taken_s
    return put(cluster, [NodeReadings(n, at_s, c) for n, c in told.items()], now_s)


def put(cluster: Cluster, readings: Sequence[NodeReadings], now_s: float) -> int:
    cluster.improved.drain()
    cluster.put_readings(readings, now_s)
    return cluster.improved.drain()


def busy(cluster: Cluster, node: str = "n1") -> list[float]:
    return cluster.nodes.load.busy()[cluster.row_of[node]][:2].tolist()


def test_a_reading_is_seen_at_once_and_others_look_middling():
    cluster = a_cluster(n1=listed("GPU-a", "GPU-b"))
    assert tell(cluster, 10.0, n1_0=0.9) == Aspect.LOAD
    assert busy(cluster) == pytest.approx([0.9, MIDDLING])


def test_gpus_are_known_by_uuid_and_where_nobody_lists_them_by_index():
    cluster = a_cluster(n1=listed("GPU-a", "GPU-b"), n2=None)
    gpus = {"GPU-b": GpuReading(0.2), "GPU-x": GpuReading(1.0)}
    cluster.put_readings([NodeReadings("n1", 1.0, gpus)], 1.0)
    tell(cluster, 2.0, n2_1=0.1, gone_0=1.0, n2_99=1.0)
    assert busy(cluster, "n1") == pytest.approx([MIDDLING, 0.2])
    assert busy(cluster, "n2") == pytest.approx([MIDDLING, 0.1])


def test_old_readings_fade_to_middling_and_say_so():
    cluster = a_cluster(n1=listed("GPU-a"))
    tell(cluster, 0.0, n1_0=1.0)
    assert put(cluster, (), FRESH_S) == NOTHING
    halfway = (FRESH_S + STALE_S) / 2
    assert put(cluster, (), halfway) == Aspect.LOAD
    assert busy(cluster)[0] == pytest.approx(0.75)
    cluster.put_readings((), STALE_S)
    assert busy(cluster)[0] == MIDDLING


@pytest.mark.parametrize("odd", [math.nan, -0.1, 1.5, math.inf, None])
def test_absurd_readings_count_as_none(odd):
    cluster = a_cluster(n1=listed("GPU-a"))
    assert tell(cluster, 1.0, n1_0=odd) == NOTHING
    assert busy(cluster)[0] == MIDDLING
    tell(cluster, 2.0, n1_0=0.3)
    assert busy(cluster)[0] == pytest.approx(0.3)
    tell(cluster, 3.0, n1_0=odd)
    assert busy(cluster)[0] == pytest.approx(0.3)


def test_memory_in_use_is_forgotten_when_it_is_old():
    cluster = a_cluster(n1=listed("GPU-a"))
    told = NodeReadings("n1", 0.0, {"GPU-a": GpuReading(memory_used_mib=700.0)})
    cluster.put_readings([told], 1.0)
    assert cluster.nodes.load.memory_used()[0, 0] == 700.0
    cluster.put_readings((), STALE_S)
    assert math.isnan(cluster.nodes.load.memory_used()[0, 0])


def test_readings_are_smoothed_and_peaks_remembered_for_a_while():
    cluster = a_cluster(n1=listed("GPU-a"))
    tell(cluster, 0.0, n1_0=1.0)
    tell(cluster, 60.0, n1_0=0.0)
    assert busy(cluster)[0] == pytest.approx(0.5)
    assert cluster.nodes.load.busiest()[0, 0] == pytest.approx(0.5)
    tell(cluster, 61.0, n1_0=1.0)
    assert cluster.nodes.load.busiest()[0, 0] == 1.0


def test_what_comes_late_changes_nothing():
    cluster = a_cluster(n1=listed("GPU-a"))
    tell(cluster, 50.0, n1_0=0.2)
    tell(cluster, 51.0, taken_s=49.0, n1_0=1.0)
    assert busy(cluster)[0] == pytest.approx(0.2)


def test_noise_asks_nobody_again():
    cluster = a_cluster(n1=listed("GPU-a"))
    tell(cluster, 0.0, n1_0=0.50)
    mark = cluster.changes.mark
    assert tell(cluster, 30.0, n1_0=0.51) == NOTHING
    assert cluster.changes.since(mark) == {}


def test_other_gpus_in_the_same_slots_start_unknown():
    cluster = a_cluster(n1=listed("GPU-a", "GPU-b"))
    tell(cluster, 0.0, n1_0=1.0, n1_1=1.0)
    cluster.put_node(a_node("n1", gpus=1, inventory=listed("GPU-b")))
    assert busy(cluster) == [MIDDLING, MIDDLING]


def test_columns_grow_with_the_cluster():
    cluster = a_cluster(n1=listed("GPU-a"))
    tell(cluster, 0.0, n1_0=1.0)
    for number in range(2, 200):
        cluster.put_node(a_node(f"n{number}", gpus=16, inventory=None))
    tell(cluster, 1.0, n150_15=0.0)
    assert busy(cluster)[0] == pytest.approx(1.0)
    assert cluster.nodes.load.busy()[cluster.row_of["n150"], 15] == 0.0


def test_quiet_gpus_are_liked_better():
    cluster = a_cluster(n1=listed("GPU-a", "GPU-b"), n2=listed("GPU-c", "GPU-d"), n3=None)
    tell(cluster, 0.0, n1_0=1.0, n1_1=0.6, n2_0=0.1, n2_1=1.0)
    scores = LowUtilisation().rate(a_request(gpus=1), cluster.nodes)
    assert scores.tolist() == pytest.approx([40.0, 90.0, 50.0])
