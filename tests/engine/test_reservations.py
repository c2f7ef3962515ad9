"""Shares on nodes with a device plugin: whole GPUs are reserved there, and shared."""

import asyncio
from dataclasses import replace

import pytest

from builders import SCHEDULER, a_node, a_pod, decide, decide_once, see
from fairlead.apps.config.profiles import built_in
from fairlead.apps.run.usage import Usage
from fairlead.cluster.checking import wrong_nodes
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.in_flight import contradictions
from fairlead.engine.instructions import (
    AnnounceFailure,
    AnnounceWarning,
    Bind,
    Evict,
    Prepare,
    Unreserve,
)
from fairlead.engine.reservations import LOST
from fairlead.model.gpus import Gpu, GpuRequest, Inventory
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod
from fairlead.model.reservations import PRIORITY, Reservation, held_by_reservation
from fairlead.plugins.reservation_step import ReservationStep
from fairlead.testing.builders import gpu_share
from gang_world import a_gang


def a_stock_node(name: str = "n1", gpus: int = 2, **more: object) -> Node:
    """A node with NVIDIA's device plugin, and no list of its GPUs."""
    return a_node(name, gpus, reservable=gpus, **more)


def labelled(gpus: int, memory_mib: int = 80_000) -> Inventory:
    """What labels say: no GPU by name."""
    return Inventory(tuple(Gpu("", n, "H100", memory_mib) for n in range(gpus)), named=False)


def a_share(name: str, milli: int = 500, memory_mib: int = 0, **more: object) -> Pod:
    ask = gpu_share(milli, memory_mib, memory_milli=0 if memory_mib else milli)
    return a_pod(name, gpu_request=ask, **more)


def a_whole(name: str, gpus: int = 1) -> Pod:
    return a_pod(name, gpus=gpus, gpu_request=GpuRequest(gpus))


def a_reservation(node: str, number: int, uuid: str = "", **more: object) -> Pod:
    """The reservation pod, as a watch shows it."""
    uid = f"uid-{node}-{number}"
    amounts = ((GPU, 1),)
    made = a_pod(f"reservation-{node}-{number}", gpus=1, node=node, uid=uid, scheduler="")
    return replace(
        made,
        priority=PRIORITY,
        usage=amounts,
        grant=held_by_reservation(number),
        reservation=Reservation(number, uuid),
        **more,
    )


class Stock:
    """An engine with stock nodes; checks its own books after each turn."""

    def __init__(self, *nodes: Node, reserves: bool = True) -> None:
        self.engine = Engine({SCHEDULER: built_in(SCHEDULER)}, reserves=reserves)
        for node in nodes:
            self.engine.handle(events.NodeSeen(node), now=0.0)

    def decide(self, *pods: Pod) -> list[object]:
        see(self.engine, *pods)
        made = decide(self.engine)
        self.check()
        return made

    def handle(self, event: events.Event) -> list[object]:
        made = self.engine.handle(event, now=1.0)
        self.check()
        return made

    def check(self) -> None:
        engine = self.engine
        assert not wrong_nodes(engine.cluster, engine.cluster.row_of)
        assert not contradictions(engine.in_flight, engine.cluster, engine.queue)

    def bound(self, pod: Pod, bind: Bind | None = None) -> Bind:
        """The bind of a pod that a reservation is known for."""
        if bind is None:
            (bind,) = self.handle(events.Prepared(pod.uid))
        assert isinstance(bind, Bind)
        self.handle(events.BindDone(pod.uid))
        self.handle(events.PodSeen(replace(pod, node=bind.node, grant=bind.grant)))
        return bind

    def share(self, name: str, uuid: str = "GPU-a", number: int = 0, milli: int = 500) -> Pod:
        """A pod that shares a GPU which is reserved for it."""
        pod = a_share(name, milli)
        (made,) = self.decide(pod)
        self.handle(events.PodSeen(a_reservation("n1", number, uuid)))
        bind = self.bound(pod, made if isinstance(made, Bind) else None)
        return replace(pod, node="n1", grant=bind.grant)

    def free(self, node: str = "n1") -> int:
        cluster = self.engine.cluster
        return int(cluster.nodes.free(GPU)[cluster.row_of[node]])


def test_a_share_waits_for_a_reservation_and_gets_its_gpu() -> None:
    stock = Stock(a_stock_node())
    pod = a_share("one")
    (asked,) = stock.decide(pod)

    assert asked == Prepare(pod, "n1", (ReservationStep("n1", (0,)),))
    assert stock.free() == 1, "the GPU is counted from the decision on"

    stock.handle(events.PodSeen(a_reservation("n1", 0)))
    assert stock.free() == 1
    stock.handle(events.PodSeen(a_reservation("n1", 0, "GPU-a")))
    bind = stock.bound(pod)
    assert [use.uuid for use in bind.grant.uses] == ["GPU-a"]


def test_a_share_of_a_reserved_gpu_is_bound_at_once() -> None:
    stock = Stock(a_stock_node())
    stock.share("one")
    second = a_share("two")
    (bind,) = stock.decide(second)
    assert isinstance(bind, Bind)
    assert bind.grant.uses[0].uuid == "GPU-a"
    assert stock.free() == 1


def test_pods_share_a_gpu_that_is_not_known_yet() -> None:
    stock = Stock(a_stock_node())
    first, second, third = (a_share(name) for name in ("one", "two", "three"))
    made = stock.decide(first, second, third)
    assert [each.steps for each in made] == [
        (ReservationStep("n1", (0,)),),
        (ReservationStep("n1", (0,)),),
        (ReservationStep("n1", (1,)),),
    ]
    assert stock.free() == 0


def test_whole_gpus_and_shares_take_from_one_count() -> None:
    stock = Stock(a_stock_node(gpus=2))
    (bind,) = stock.decide(a_whole("whole"))
    assert isinstance(bind, Bind)
    assert len(stock.decide(a_share("one"))) == 1
    (refused,) = stock.decide(a_share("two", 600))
    assert isinstance(refused, AnnounceFailure)
    (refused,) = stock.decide(a_whole("another"))
    assert "Insufficient nvidia.com/gpu" in refused.message


def test_a_failed_reservation_releases_the_decision() -> None:
    stock = Stock(a_stock_node())
    pod = a_share("one")
    stock.decide(pod)
    (told,) = stock.handle(events.PrepareFailed(pod.uid, "it was rejected"))
    assert isinstance(told, AnnounceFailure)
    assert stock.free() == 2
    assert not len(stock.engine.cluster.reservations)


def test_no_reservation_is_tried_where_one_just_failed() -> None:
    stock = Stock(a_stock_node())
    stock.handle(events.ReservationsPaused("n1", "it was rejected"))
    (refused,) = stock.decide(a_share("one"))
    assert isinstance(refused, AnnounceFailure)
    stock.handle(events.ReservationsPaused("n1"))
    assert isinstance(decide_once(stock.engine, now=400.0)[0], Prepare)


def test_an_idle_reservation_is_closed_once() -> None:
    stock = Stock(a_stock_node(gpus=1))
    pod = stock.share("one")
    assert not stock.handle(events.ReservationIdle("n1", 0)), "it has a share"

    stock.handle(events.PodGone(pod))
    (made,) = stock.handle(events.ReservationIdle("n1", 0))
    assert isinstance(made, Unreserve)
    (refused,) = stock.decide(a_share("late"))
    assert isinstance(refused, AnnounceFailure), "nothing is assigned to it any more"
    assert stock.free() == 0, "it has the GPU until it is gone"

    stock.handle(events.PodGone(made.pod))
    assert stock.free() == 1


def test_a_reservation_that_pods_wait_for_is_not_idle() -> None:
    stock = Stock(a_stock_node())
    stock.decide(a_share("one"))
    stock.handle(events.PodSeen(a_reservation("n1", 0, "GPU-a")))
    assert not stock.handle(events.ReservationIdle("n1", 0))


def test_the_shares_of_a_lost_reservation_are_reported() -> None:
    stock = Stock(a_stock_node())
    pod = stock.share("one")
    (warned,) = stock.handle(events.PodGone(a_reservation("n1", 0, "GPU-a")))
    assert isinstance(warned, AnnounceWarning)
    assert (warned.pod.key, warned.reason) == (pod.key, LOST)


def test_a_restart_finds_reservations_and_shares() -> None:
    stock = Stock(a_stock_node())
    pod = stock.share("one")
    again = Stock(a_stock_node())
    again.handle(events.PodSeen(pod))
    again.handle(events.PodSeen(a_reservation("n1", 0, "GPU-a")))
    assert again.free() == 1
    (bind,) = again.decide(a_share("two"))
    assert bind.grant.uses[0].uuid == "GPU-a"


def test_an_engine_that_starts_over_keeps_what_is_under_way() -> None:
    stock = Stock(a_stock_node())
    pod = a_share("one")
    stock.decide(pod)
    stock.engine.forget()
    stock.handle(events.NodeSeen(a_stock_node()))
    stock.handle(events.PodSeen(pod))
    assert stock.free() == 1
    stock.handle(events.PodSeen(a_reservation("n1", 0, "GPU-a")))
    assert stock.bound(pod).grant.uses[0].uuid == "GPU-a"


def test_memory_needs_a_known_size() -> None:
    stock = Stock(a_stock_node())
    (refused,) = stock.decide(a_share("one", 0, 4000))
    assert "no GPU with enough free memory" in refused.message

    known = Stock(a_stock_node(inventory=labelled(2)))
    (asked,) = known.decide(a_share("one", 0, 60_000))
    assert isinstance(asked, Prepare)
    assert known.decide(a_share("two", 0, 60_000))[0].steps == (ReservationStep("n1", (1,)),)


def test_a_gpu_that_two_reservations_have_is_not_shared() -> None:
    stock = Stock(a_stock_node(gpus=4))
    stock.share("one", milli=600)
    second = a_share("two", 600)
    stock.decide(second)
    stock.handle(events.PodSeen(a_reservation("n1", 1, "GPU-a")))
    (told,) = stock.handle(events.Prepared(second.uid))
    assert isinstance(told, AnnounceFailure), "its device plugin shares GPUs itself"


def test_several_gpus_are_reserved_for_one_pod() -> None:
    stock = Stock(a_stock_node())
    ask = replace(gpu_share(500), gpus=2)
    pod = a_pod("two", gpu_request=ask)
    (asked,) = stock.decide(pod)
    assert asked.steps == (ReservationStep("n1", (0, 1)),)
    for number, uuid in enumerate(("GPU-a", "GPU-b")):
        stock.handle(events.PodSeen(a_reservation("n1", number, uuid)))
    assert [use.uuid for use in stock.bound(pod).grant.uses] == ["GPU-a", "GPU-b"]


@pytest.mark.parametrize("reserves", [True, False])
def test_it_is_off_unless_asked_for(reserves: bool) -> None:
    stock = Stock(a_stock_node(), reserves=reserves)
    (made,) = stock.decide(a_share("one"))
    assert isinstance(made, Prepare if reserves else AnnounceFailure)


def test_no_gpu_pod_goes_where_a_shared_gpu_is_not_reserved() -> None:
    stock = Stock(a_stock_node(gpus=4))
    pod = stock.share("one")
    stock.handle(events.PodGone(a_reservation("n1", 0, "GPU-a")))
    for refused in (a_whole("whole"), a_share("share")):
        (told,) = stock.decide(refused)
        assert "which is not reserved any more" in told.message
    stock.handle(events.PodGone(pod))
    assert len(decide(stock.engine, now=400.0)) == 2


def test_a_reservation_that_starts_again_keeps_its_gpu() -> None:
    stock = Stock(a_stock_node())
    stock.share("one")
    assert not stock.handle(events.PodSeen(a_reservation("n1", 0))), "it reports once more"
    (bind,) = stock.decide(a_share("two"))
    assert bind.grant.uses[0].uuid == "GPU-a"
    (warned,) = stock.handle(events.PodSeen(a_reservation("n1", 0, "GPU-b")))
    assert warned.reason == LOST


def test_whole_gpus_preempt_all_shares_of_one_gpu_and_then_the_reservation() -> None:
    stock = Stock(a_stock_node(gpus=2))
    shares = [stock.share(name) for name in ("one", "two")]
    other = stock.share("three", "GPU-b", 1, milli=900)
    urgent = replace(a_whole("urgent"), priority=10)
    _, evict = stock.decide(urgent)
    assert isinstance(evict, Evict)
    assert {each.name for each in evict.victims} in ({"one", "two"}, {"three"})
    gone = [each for each in (*shares, other) if each.name in {v.name for v in evict.victims}]
    for each in gone:
        stock.handle(events.PodGone(each))
    stock.handle(events.EvictionEnded(urgent.uid))
    made = decide(stock.engine, now=400.0)
    (unreserve,) = [each for each in made if isinstance(each, Unreserve)]
    stock.handle(events.PodGone(unreserve.pod))
    (bind,) = [each for each in decide(stock.engine, now=800.0) if isinstance(each, Bind)]
    assert bind.pod.name == "urgent"


def test_shares_of_a_higher_priority_are_not_preempted() -> None:
    stock = Stock(a_stock_node(gpus=1))
    pod = replace(a_share("one"), priority=10)
    stock.decide(pod)
    stock.handle(events.PodSeen(a_reservation("n1", 0, "GPU-a")))
    stock.bound(pod)
    (refused,) = stock.decide(replace(a_whole("later"), priority=5))
    assert isinstance(refused, AnnounceFailure)


def test_the_reasons_of_a_node_whose_gpus_cannot_be_reserved() -> None:
    stock = Stock(a_stock_node(gpus=1))
    stock.handle(events.ReservationsPaused("n1", "it was rejected"))
    (refused,) = stock.decide(a_share("one"))
    assert "no GPU that could be reserved just now" in refused.message
    full = Stock(a_stock_node(gpus=1))
    full.decide(a_whole("whole"))
    (refused,) = full.decide(a_share("one"))
    assert "no free GPU to reserve" in refused.message


def test_a_gang_of_shares_is_bound_to_the_gpus_that_were_reserved_for_it() -> None:
    stock = Stock(a_stock_node())
    pods = a_gang("job", 3, gpus=0, gpu_request=gpu_share(500))
    made = stock.decide(*pods)
    assert [each.steps for each in made] == [
        (ReservationStep("n1", (0,)),),
        (ReservationStep("n1", (0,)),),
        (ReservationStep("n1", (1,)),),
    ]
    for number, uuid in enumerate(("GPU-a", "GPU-b")):
        stock.handle(events.PodSeen(a_reservation("n1", number, uuid)))
    binds = [bind for pod in pods for bind in stock.handle(events.Prepared(pod.uid))]
    assert [bind.grant.uses[0].uuid for bind in binds] == ["GPU-a", "GPU-a", "GPU-b"]


def test_a_gang_of_shares_that_does_not_fit_reserves_nothing() -> None:
    stock = Stock(a_stock_node())
    stock.decide(*a_gang("job", 3, gpus=0, gpu_request=gpu_share(600)))
    assert not len(stock.engine.cluster.reservations)
    assert stock.free() == 2


def test_reports_show_shares_on_reserved_gpus_and_no_reservation_pods() -> None:
    stock = Stock(a_stock_node())
    stock.share("one")
    usage = Usage(stock.engine.cluster, clock=lambda: 1.0)
    asyncio.run(usage.look())
    report = asyncio.run(usage.report())
    assert [(gpu.uuid, gpu.state, gpu.booked) for gpu in report.gpus] == [
        ("GPU-a", "shared", 0.5),
        ("1", "counted", 0.0),
    ]
    (shared,) = (gpu for gpu in report.gpus if gpu.uuid == "GPU-a")
    assert [holder.pod for holder in shared.holders] == ["default/one"]
    assert [(pod.name, pod.held) for pod in report.pods] == [("one", 0.5)]
