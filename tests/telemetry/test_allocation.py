"""What is given away and what is at work, by model, by pod and by GPU."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from builders import a_node, a_pod
from fairlead.apps.run.usage import EVERYTHING, Usage
from fairlead.cluster.cluster import Cluster
from fairlead.cluster.load import STALE_S
from fairlead.engine.events import ReadingsTaken
from fairlead.model.gpus import Gpu, GpuRequest, GpuUse, Grant, Inventory
from fairlead.model.machines import geometry_of
from fairlead.model.pods import Pod
from fairlead.model.readings import GpuReading, NodeReadings
from fairlead.model.reservations import Reservation, held_by_reservation
from fairlead.telemetry.allocation import STATES, by_model, freshness
from fairlead.telemetry.report import UsageReport, by_namespace, by_node, by_owner, total

MIB = 80_000


def listed(*names: str, model: str = "H100", **more) -> Inventory:
    return Inventory(
        tuple(Gpu(f"GPU-{n}", i, model, MIB, **more) for i, n in enumerate(names))
    )  # fmt: skip


def holding(name: str, node: str, *uses: GpuUse, **more):
    ask = GpuRequest(len(uses), whole=uses[0].whole)
    return a_pod(name, gpu_request=ask, node=node, grant=Grant(uses), **more)


class Scene:
    """A cluster, its book, and a clock of its own."""

    def __init__(self, **inventories: Inventory | None) -> None:
        self.now_s = 0.0
        self.cluster = Cluster()
        for name, gpus in inventories.items():
            count = len(gpus.gpus) if gpus else 4
            self.cluster.put_node(a_node(name, gpus=count, inventory=gpus))
        self.usage = Usage(self.cluster, clock=lambda: self.now_s)

    def hold(self, *pods) -> "Scene":
        for pod in pods:
            self.cluster.confirm(pod)
        return self

    def tell(self, node: str, pods=None, **gpus: float | GpuReading) -> None:
        told = {
            f"GPU-{name}": GpuReading(busy) if isinstance(busy, float) else busy
            for name, busy in gpus.items()
        }
        readings = NodeReadings(node, self.now_s, told, pods or {}, "test")
        self.cluster.put_readings([readings], self.now_s)
        self.usage.note(ReadingsTaken((readings,)))

    def look(self, after_s: float = 0.0) -> UsageReport:
        self.now_s += after_s
        asyncio.run(self.usage.look())
        return asyncio.run(self.usage.report())


def states_of(cluster: Cluster, model: str) -> dict[str, int]:
    counts = dict(zip(STATES, by_model(cluster, 0.0)[model].gpus, strict=True))
    return {state: count for state, count in counts.items() if count}


def test_gpus_are_counted_by_what_became_of_them():
    scene = Scene(n1=listed("a", "b", "c"), n2=listed("d", healthy=False), n3=None)
    scene.hold(
        holding("p", "n1", GpuUse("GPU-a")),
        holding("q", "n1", GpuUse("GPU-b", whole=False, milli=250, memory_mib=40_000)),
        a_pod("r", gpus=3, node="n3"),
    )
    assert states_of(scene.cluster, "H100") == {"whole": 1, "shared": 1, "free": 1, "lost": 1}
    assert states_of(scene.cluster, "") == {"whole": 3, "free": 1}
    sums = by_model(scene.cluster, 0.0)
    # Half of the memory is more than a quarter of the compute.
    assert sums["H100"].allocated == pytest.approx(1.5)
    assert sums[""].allocated == 3


def test_slices_count_by_their_length():
    mig = geometry_of("NVIDIA H100", 81_559)
    scene = Scene(n1=listed("a", "b", mig=mig))
    scene.hold(holding("p", "n1", GpuUse("GPU-a", False, 0, 0, "3g.40gb", start=4, slices=4)))
    assert states_of(scene.cluster, "H100") == {"sliced": 1, "free": 1}
    assert by_model(scene.cluster, 0.0)["H100"].allocated == pytest.approx(0.5)


def test_only_what_is_measured_is_used_or_wasted():
    scene = Scene(n1=listed("a", "b", "c"))
    scene.hold(holding("p", "n1", GpuUse("GPU-a")), holding("q", "n1", GpuUse("GPU-b")))
    scene.tell("n1", a=0.25, c=0.9)
    sums = by_model(scene.cluster, 1.0)["H100"]
    assert (sums.allocated, sums.measured) == (2, 1)
    assert (sums.used, sums.wasted) == (pytest.approx(0.25), pytest.approx(0.75))
    assert by_model(scene.cluster, STALE_S)["H100"].measured == 0


def test_gpus_are_counted_by_how_well_they_are_known():
    scene = Scene(n1=listed("a", "b", "c"))
    assert freshness(scene.cluster, 0.0) == ({"fresh": 0, "old": 0, "none": 3}, None)
    scene.tell("n1", a=0.5)
    scene.now_s = STALE_S
    scene.tell("n1", b=0.5)
    assert freshness(scene.cluster, STALE_S + 5) == ({"fresh": 1, "old": 1, "none": 1}, 5.0)


# -- pods ------------------------------------------------------------------------------------------


def test_a_pod_with_whole_gpus_is_what_its_gpus_do():
    scene = Scene(n1=listed("a", "b"))
    scene.hold(holding("p", "n1", GpuUse("GPU-a"), GpuUse("GPU-b")))
    scene.look()
    scene.tell("n1", a=GpuReading(0.5, memory_used_mib=100), b=GpuReading(0.0, power_w=70))
    [pod] = scene.look(60).pods
    assert (pod.asked, pod.held, pod.utilisation) == ("2", 2, 0.25)
    assert (pod.memory_used_mib, pod.memory_mib) == (100, MIB)
    assert pod.used_hours == pytest.approx(0.5 / 60)
    assert pod.wasted_hours == pytest.approx(1.5 / 60)
    assert (pod.idle_for_s, pod.guessed) == (None, False)


def test_who_shares_a_gpu_is_guessed_at_unless_it_is_measured_or_alone():
    half = GpuUse("GPU-a", whole=False, milli=500, memory_mib=1000)
    quarter = GpuUse("GPU-a", whole=False, milli=250, memory_mib=1000)
    scene = Scene(n1=listed("a"))
    scene.hold(holding("p", "n1", half))
    scene.look()
    scene.tell("n1", a=0.4)
    [alone] = scene.look(10).pods
    assert (alone.utilisation, alone.guessed) == (pytest.approx(0.8), False)
    scene.hold(holding("q", "n1", quarter))
    scene.look()
    pods = {pod.name: pod for pod in scene.look(10).pods}
    assert (pods["p"].guessed, pods["q"].guessed) == (True, True)
    assert pods["p"].utilisation == pytest.approx(pods["q"].utilisation)
    own = {"default/p": GpuReading(0.1, memory_used_mib=900)}
    scene.tell("n1", own, a=0.4)
    pods = {pod.name: pod for pod in scene.look(10).pods}
    assert (pods["p"].guessed, pods["p"].utilisation) == (False, pytest.approx(0.2))
    assert (pods["p"].memory_used_mib, pods["q"].guessed) == (900, True)


def test_gpus_that_somebody_else_chose_are_measured_by_pod_or_not_at_all():
    scene = Scene(n1=None)
    scene.hold(a_pod("p", gpus=2, gpu_request=GpuRequest(2), node="n1"))
    [pod] = scene.look().pods
    assert (pod.held, pod.utilisation, pod.advice.kind) == (2, None, "unmeasured")
    scene.tell("n1", {"default/p": GpuReading(0.5)})
    [pod] = scene.look(10).pods
    assert (pod.held, pod.utilisation) == (2, 0.5)


def test_old_readings_tell_nothing_of_a_pod():
    scene = Scene(n1=listed("a"))
    scene.hold(holding("p", "n1", GpuUse("GPU-a")))
    scene.tell("n1", a=0.5)
    scene.look()
    [pod] = scene.look(STALE_S).pods
    [gpu] = scene.look().gpus
    assert (pod.utilisation, gpu.utilisation, gpu.reading_age_s) == (None, None, None)


def test_sums_agree_with_pods_and_go_on_when_pods_are_gone():
    scene = Scene(n1=listed("a", "b"), n2=listed("c"))
    first = holding("p", "n1", GpuUse("GPU-a"), controller="Job/sweep")
    scene.hold(first, holding("q", "n1", GpuUse("GPU-b"), controller="Job/sweep"))
    scene.look()
    scene.tell("n1", a=0.0, b=1.0)
    report = scene.look(60)
    assert [(row.name, row.pods) for row in by_owner(report.pods)] == [("default/Job/sweep", 2)]
    assert {row.name: (row.gpus, row.held) for row in by_node(report.pods, report.gpus)} == {
        "n1": (2, 2.0),
        "n2": (1, 0),
    }
    [namespace] = by_namespace(report.pods)
    assert namespace.utilisation == total(report.pods).utilisation == 0.5
    assert namespace.wasted_hours == namespace.idle_hours == pytest.approx(1 / 60)
    scene.cluster.remove(first.uid)
    scene.look()
    [held] = scene.usage.sums.values()
    assert (held.held, held.used, held.wasted) == (1, 1, 0)
    assert (held.held_s, held.used_s, held.wasted_s, held.idle_s) == (120, 60, 60, 60)
    scene.cluster.remove(next(iter(scene.cluster.holdings)))
    report = scene.look()
    assert report.pods == []
    assert total(report.pods, report.held).held_hours == pytest.approx(120 / 3600)


def test_namespaces_that_come_and_go_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr("fairlead.apps.run.usage._MOST_SUMS", 3)
    scene = Scene(n1=listed("a"))
    for number in range(10):
        pod = replace(holding("p", "n1", GpuUse("GPU-a")), namespace=f"ns-{number}")
        scene.hold(pod).look(10)
        scene.cluster.remove(pod.uid)
    assert [name for name, _ in scene.usage.sums] == ["ns-7", "ns-8", "ns-9"]


@pytest.mark.parametrize("by", ["key", "uid"])
def test_a_pod_is_measured_by_its_name_or_by_its_uid(by):
    scene, pod = Scene(n1=None), a_pod("p", gpus=1, node="n1", grant=Grant((GpuUse(""),)))
    scene.hold(pod)
    scene.tell("n1", pods={getattr(pod, by): GpuReading(0.25)})
    [row] = scene.look(10).pods
    assert row.utilisation == 0.25


def test_what_is_told_of_pods_and_nodes_that_are_not_there_is_not_kept():
    scene = Scene(n1=listed("a"), n2=listed("b"))
    scene.hold(holding("p", "n1", GpuUse("GPU-a", whole=False, milli=500)))
    own = GpuReading(0.5)
    scene.tell("n1", pods={"default/p": own, **{f"made/up-{n}": own for n in range(100)}}, a=0.5)
    scene.tell("n2", b=0.5)
    [word] = scene.usage.latest.on("n1", scene.now_s).readings
    assert word.pods == {"default/p": own}
    scene.cluster.remove_node("n2")
    scene.look()
    assert not scene.usage.latest.on("n2", scene.now_s).readings


def test_gpus_show_who_holds_what_of_them():
    scene = Scene(n1=listed("a", "b"), n2=None)
    scene.hold(
        holding("p", "n1", GpuUse("GPU-a", whole=False, milli=500)),
        holding("q", "n1", GpuUse("GPU-a", whole=False, milli=0, memory_mib=16 * 1024)),
    )
    scene.tell("n1", a=GpuReading(0.5, power_w=300.0))
    gpus = scene.look(3).gpus
    told = [(holder.pod, holder.part) for holder in gpus[0].holders]
    assert sorted(told) == [("default/p", "0.5"), ("default/q", "16 GiB")]
    assert (gpus[0].power_w, gpus[0].reading_age_s, gpus[1].utilisation) == (300.0, 3.0, None)
    assert [gpu.state for gpu in gpus] == ["shared", "free", *["counted"] * 4]


def picking(**picked: list[str]) -> Inventory:
    both = (Gpu("GPU-a", 0, "H100", 80_000), Gpu("GPU-b", 1, "H100", 80_000))
    uuids = {f"uid-{name}": tuple(gpus) for name, gpus in picked.items()}
    return Inventory(both, named=False, picked=uuids)


def counted(name: str) -> Pod:
    return a_pod(name, uid=f"uid-{name}", gpus=1, gpu_request=GpuRequest(1), node="n1")


def test_gpus_that_a_device_plugin_picked_show_their_pods_and_pods_their_readings():
    scene = Scene(n1=picking(p=["GPU-b"]))
    scene.hold(counted("p"))
    scene.tell("n1", a=0.0, b=0.75)
    report = scene.look(10)
    shown = [(gpu.uuid, gpu.state, [one.pod for one in gpu.holders]) for gpu in report.gpus]
    assert shown == [("GPU-a", "free", []), ("GPU-b", "whole", ["default/p"])]
    [row] = report.pods
    assert (row.utilisation, row.memory_mib, row.guessed) == (0.75, 80_000, False)


def test_what_a_gpu_does_that_is_shared_by_time_is_not_that_of_one_pod():
    scene = Scene(n1=picking(p=["GPU-b"], q=["GPU-b"]))
    scene.hold(counted("p"), counted("q"))
    scene.tell("n1", b=0.75)
    report = scene.look(10)
    assert [(gpu.state, len(gpu.holders)) for gpu in report.gpus] == [("free", 0), ("shared", 2)]
    assert [row.utilisation for row in report.pods] == [None, None]


def test_a_reserved_gpu_shows_the_pods_that_share_it_beside_those_that_were_picked():
    scene = Scene()
    scene.cluster.reservations.enabled = True
    inventory = picking(p=["GPU-b"], reservation=["GPU-a"])
    scene.cluster.put_node(a_node("n1", gpus=2, inventory=inventory, reservable=2))
    reservation = a_pod(
        "r", uid="uid-reservation", gpus=1, node="n1", grant=held_by_reservation(0),
        reservation=Reservation(0, "GPU-a"),
    )  # fmt: skip
    half = holding("half", "n1", GpuUse("GPU-a", whole=False, milli=500))
    scene.cluster.reservations.see(reservation, Reservation(0, "GPU-a"))
    scene.hold(reservation, half, counted("p"))
    scene.tell("n1", a=0.25, b=0.75)
    report = scene.look(10)
    shown = [(gpu.state, gpu.booked, [one.pod for one in gpu.holders]) for gpu in report.gpus]
    assert shown == [("shared", 0.5, ["default/half"]), ("whole", 1.0, ["default/p"])]
    assert {row.name: row.utilisation for row in report.pods if row.name == "p"} == {"p": 0.75}


def test_gpus_of_a_plugin_are_counted_while_the_kubelet_does_not_name_them():
    scene = Scene(n1=replace(picking(), picked=None))
    scene.hold(counted("p"))
    assert [gpu.state for gpu in scene.look(10).gpus] == ["counted", "counted"]


def test_what_is_served_is_the_report():
    scene = Scene(n1=listed("a"))
    scene.hold(holding("p", "n1", GpuUse("GPU-a")))
    scene.tell("n1", a=0.5)
    report = scene.look(60)

    async def served() -> bytes:
        return b"".join([piece async for piece in scene.usage.pieces(EVERYTHING)])

    assert msgspec.json.decode(asyncio.run(served()), type=UsageReport) == report


def test_a_pod_that_a_map_gives_no_gpu_is_no_holder():
    scene = Scene(n1=listed("a"))
    empty = a_pod("mapped", node="n1", grant=Grant((), "map"))
    scene.hold(empty, holding("p", "n1", GpuUse("GPU-a")))
    report = scene.look(10.0)
    assert [row.name for row in report.pods] == ["p"]
