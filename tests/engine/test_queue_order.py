"""The order of units by queues of teams, in the engine."""

from collections import Counter
from dataclasses import replace

import pytest

from builders import a_node, a_pod, an_engine, see
from fairlead.engine import events
from fairlead.engine.instructions import Bind
from fairlead.model.gpus import GpuRequest
from fairlead.model.pods import Pod
from fairlead.model.queues import GPUS, QueueSpec, Sharing, UnitOrder
from fairlead.model.run_times import RunTime
from fairlead.model.start_times import StartTimes
from fairlead.model.unit_kinds import UnitKind
from fairlead.queue.entries import Pool
from fairlead.queue.quotas import order
from fairlead.queue.quotas.rank import Rank, rank
from fairlead.queue.quotas.share_node import ShareNode


def a_queue(name: str, guaranteed: int = 0, parent: str = "", **more: object) -> QueueSpec:
    amounts = ((GPUS, 1000 * guaranteed),) if guaranteed else ()
    return QueueSpec(
        f"fairlead/{name}", f"fairlead/{parent}" if parent else "", guaranteed=amounts, **more
    )


class Contention:
    """A cluster of one node for which queues ask more than it has."""

    def __init__(self, gpus: int, *queues: QueueSpec) -> None:
        self.engine = an_engine(a_node("n1", gpus=gpus, resources={"pods": 1000}))
        self.engine.handle(events.QueueKindSeen("fairlead", is_served=True), now=0.0)
        self.now = 0.0
        for queue in queues:
            self.engine.handle(events.QueueSeen(queue), now=0.0)

    def create(self, queue: str, *names: str, **more: object) -> list[Pod]:
        key = f"fairlead/{queue}" if queue else ""
        pods = [
            replace(a_pod(name, queue=key, **{"gpus": 1, "cpu": 1, **more}), namespace="default")
            for name in names
        ]
        see(self.engine, *pods, now=self.now)
        return pods

    def flood(self, queue: str, count: int, **more: object) -> list[Pod]:
        return self.create(queue, *(f"{queue}{number}" for number in range(count)), **more)

    def started(self, most: int = 1000) -> list[str]:
        """The names of the pods that are bound now, in order."""
        bound: list[str] = []
        for _ in range(most):
            attempt = self.engine.decide(now=self.now)
            if attempt is None:
                break
            for bind in attempt.instructions:
                if isinstance(bind, Bind):
                    self.engine.handle(events.BindDone(bind.pod.uid), now=self.now)
                    see(self.engine, replace(bind.pod, node=bind.node), now=self.now)
                    bound.append(bind.pod.name)
        return bound

    def by_queue(self) -> Counter[str]:
        return Counter(name.rstrip("0123456789") for name in self.started())

    def end(self, *pods: Pod, after_s: float = 20.0) -> None:
        self.now += after_s
        for pod in pods:
            self.engine.handle(events.PodGone(replace(pod, node="n1")), now=self.now)

    def share(self, name: str) -> float:
        reports = {report.spec.name: report for report in self.engine.queues.report()}
        return dict(reports[name].fair_share)[GPUS] / 1000


def test_what_is_guaranteed_comes_first_then_the_surplus_by_weight() -> None:
    scene = Contention(16, a_queue("red", 4), a_queue("blue", weight=2.0), a_queue("green"))
    for name in ("blue", "green", "red"):
        scene.flood(name, 20)
    assert scene.by_queue() == {"red": 7, "blue": 6, "green": 3}
    assert [scene.share(name) for name in ("red", "blue", "green")] == [7, 6, 3]


def test_the_share_of_a_parent_is_divided_among_its_children() -> None:
    scene = Contention(
        16,
        a_queue("one"),
        a_queue("two"),
        a_queue("a", parent="one"),
        a_queue("b", parent="one", weight=3.0),
    )
    for name in ("a", "two", "b"):
        scene.flood(name, 20)
    assert scene.by_queue() == {"a": 2, "b": 6, "two": 8}


def test_a_queue_over_its_share_is_behind_all_others() -> None:
    scene = Contention(8, a_queue("red"), a_queue("blue"))
    first = scene.flood("red", 12)
    assert scene.by_queue() == {"red": 8}, "it borrows what no other asks for"
    scene.create("blue", "b1", "b2", "b3")
    scene.end(*first[:3])
    assert scene.started() == ["b1", "b2", "b3"]


def test_a_priority_orders_the_units_of_its_own_queue_and_no_other() -> None:
    scene = Contention(4, a_queue("red"), a_queue("blue"))
    scene.create("red", "r1", "r2", priority=5)
    scene.create("red", "r3", priority=9_000)
    scene.create("blue", "b1", "b2")
    assert scene.started() == ["r3", "b1", "r1", "b2"]


def test_the_queue_with_the_higher_priority_is_first_among_equals() -> None:
    scene = Contention(3, a_queue("red"), a_queue("blue", priority=1))
    scene.flood("red", 4)
    scene.flood("blue", 4)
    assert scene.started()[0] == "blue0"


def test_a_queue_that_used_its_part_before_is_behind() -> None:
    scene = Contention(8, a_queue("red"), a_queue("blue"))
    scene.engine.queues.order.past_of = lambda key, _: 0.5 if key == "fairlead/red" else 0.0
    for name in ("red", "blue"):
        scene.flood(name, 10)
    assert [round(scene.share(name), 1) for name in ("red", "blue")] == [2.7, 5.3]
    assert scene.by_queue() == {"red": 3, "blue": 5}


def test_units_without_a_queue_count_as_one_more_queue() -> None:
    scene = Contention(12, a_queue("red"), a_queue("blue", 2))
    for name in ("", "red", "blue"):
        scene.flood(name, 20)
    assert scene.by_queue() == {"": 4, "red": 3, "blue": 5}


def test_shares_are_of_what_pods_without_a_queue_leave() -> None:
    scene = Contention(12, a_queue("red"), a_queue("blue"))
    scene.flood("", 4)
    scene.started()
    scene.now += 2.0
    for name in ("red", "blue"):
        scene.flood(name, 20)
    assert scene.by_queue() == {"red": 4, "blue": 4}
    assert scene.share("red") == 4.0


# -- the units of one queue ----------------------------------------------------------------------


def test_what_the_cluster_has_is_looked_at_once_a_second() -> None:
    scene = Contention(4, a_queue("red"))
    look, cluster = scene.engine.queues.order.look, scene.engine.cluster
    look(10.0)
    cluster.put_node(a_node("n2", gpus=4))
    assert not look(10.5), "it was looked at half a second ago"
    assert look(11.0), "there are more GPUs than before"
    assert not look(12.0), "there are as many as before"


def test_fifo_takes_no_notice_of_priorities() -> None:
    scene = Contention(2, a_queue("red", order=UnitOrder.FIFO))
    scene.create("red", "first")
    scene.now = 1.0
    scene.create("red", "second")
    scene.now = 2.0
    scene.create("red", "third", priority=9)
    assert scene.started() == ["first", "second"]


def test_a_strict_queue_waits_for_its_first_unit_and_no_other_queue_does() -> None:
    scene = Contention(8, a_queue("red", order=UnitOrder.STRICT_FIFO), a_queue("blue"))
    running = scene.create("", "other", gpus=4)
    scene.started()
    big = scene.create("red", "big", gpus=6)
    scene.now = 1.0
    scene.create("red", "small")
    assert scene.started() == []
    assert not scene.engine.queue.has_active(), "nothing may be tried"
    scene.create("blue", "b1")
    assert scene.started() == ["b1"]
    scene.end(*running)
    assert scene.started() == ["big", "small"]
    assert big


def test_a_strict_queue_goes_on_when_its_first_unit_is_deleted() -> None:
    scene = Contention(8, a_queue("red", order=UnitOrder.STRICT_FIFO))
    (impossible,) = scene.create("red", "impossible", gpus=64)
    scene.now = 1.0
    scene.create("red", "small")
    assert scene.started() == []
    scene.engine.handle(events.PodGone(impossible), now=2.0)
    assert scene.started() == ["small"]


def test_a_unit_that_starts_later_on_purpose_does_not_hold_a_strict_queue() -> None:
    scene = Contention(8, a_queue("red", order=UnitOrder.STRICT_FIFO))
    scene.create("red", "tonight", start=StartTimes(not_before_s=36_000.0))
    scene.now = 1.0
    assert scene.started() == []
    scene.create("red", "small")
    assert scene.started() == ["small"]


def test_a_strict_queue_keeps_its_order_through_backoff() -> None:
    scene = Contention(4, a_queue("red", order=UnitOrder.STRICT_FIFO))
    running = scene.create("red", "runs", gpus=4)
    scene.started()
    for number, name in enumerate(("first", "second", "third")):
        scene.now = 1.0 + number
        scene.create("red", name, gpus=3)
        scene.started()
    for _ in range(3):
        scene.end(*running, after_s=400.0)  # all may try again by then
        assert len(names := scene.started()) == 1
        running = [entry.pod for entry in scene.engine.cluster.holdings.values()]
        assert names[0] == ["first", "second", "third"][_]


def test_the_namespace_that_uses_least_is_first() -> None:
    scene = Contention(6, a_queue("red", order=UnitOrder.FAIR))
    for namespace, count in (("a", 9), ("b", 2), ("c", 9)):
        pods = [
            replace(a_pod(f"{namespace}{n}", queue="fairlead/red", gpus=1), namespace=namespace)
            for n in range(count)
        ]
        see(scene.engine, *pods, now=0.0)
    assert scene.by_queue() == {"a": 2, "b": 2, "c": 2}


def test_a_queue_becomes_fair_with_pods_that_are_there() -> None:
    scene = Contention(4, a_queue("red"))
    old = [replace(a_pod(f"a{n}", queue="fairlead/red", gpus=1), namespace="a") for n in range(2)]
    see(scene.engine, *old, now=0.0)
    scene.started()
    scene.engine.handle(events.QueueSeen(a_queue("red", order=UnitOrder.FAIR)), now=1.0)
    more = [
        replace(a_pod(f"{name}{n}", queue="fairlead/red", gpus=1), namespace=name)
        for name in "ab"
        for n in range(5, 9)
    ]
    see(scene.engine, *more, now=1.0)
    assert scene.by_queue() == {"b": 2}


def test_the_shortest_is_first_until_a_longer_one_has_waited_long() -> None:
    scene = Contention(1, a_queue("red", order=UnitOrder.SHORTEST_FIRST))
    (running,) = scene.create("red", "unknown", run_time=RunTime(problem="nonsense"))
    assert scene.started() == ["unknown"]
    scene.create("red", "long", run_time=RunTime(7200.0))
    scene.create("red", "short", run_time=RunTime(1800.0))
    scene.end(running)
    assert scene.started() == ["short"]
    scene.now = 20 * 3600.0
    scene.create("red", "shorter", run_time=RunTime(60.0))
    short = next(iter(scene.engine.cluster.holdings.values())).pod
    scene.end(short)
    assert scene.started() == ["long"]


def test_what_like_units_took_is_an_estimate_too() -> None:
    scene = Contention(1, a_queue("red", order=UnitOrder.SHORTEST_FIRST))
    for name, ran_s in (("eval", 300.0), ("train", 7200.0)) * 4:
        kind = UnitKind("default", f"Job/{name}-#", "", 1000)
        scene.engine.handle(events.RunEnded(kind, ran_s, succeeded=True), now=0.0)
    asks = {"gpu_request": GpuRequest(1), "gpus": 0}
    for name in ("train-1", "eval-1"):
        scene.create("red", name, controller=f"Job/{name}", **asks)
    assert scene.started(1) == ["eval-1"]


def test_the_earliest_deadline_is_first() -> None:
    scene = Contention(3, a_queue("red", order=UnitOrder.DEADLINE))
    scene.engine.wall_offset_s = 1_800_000_000.0  # 2027-01-15T08:00:00Z
    scene.create("red", "none")
    scene.create("red", "late", start=StartTimes(deadline_s=1_800_054_000.0))
    scene.create("red", "soon", start=StartTimes(deadline_s=1_800_010_800.0))
    assert scene.started() == ["soon", "late", "none"]


# -- changes of queues ---------------------------------------------------------------------------


def test_pending_units_follow_when_queues_move_change_and_go() -> None:
    scene = Contention(4, a_queue("top"), a_queue("red"), a_queue("blue"))
    scene.flood("red", 8)
    scene.flood("blue", 8)
    assert scene.started(2)
    scene.engine.handle(events.QueueSeen(a_queue("blue", parent="top", weight=3.0)), now=0.0)
    scene.engine.handle(events.QueueSeen(a_queue("red", weight=0.0)), now=0.0)
    assert scene.by_queue() == {"blue": 2}
    scene.engine.handle(events.QueueGone("fairlead/blue"), now=0.0)
    scene.end(*[held.pod for held in scene.engine.cluster.holdings.values()])
    assert scene.by_queue() == {"red": 4}, "a queue that is gone starts nothing"
    for name in ("red", "top"):
        scene.engine.handle(events.QueueGone(f"fairlead/{name}"), now=scene.now)
    assert scene.engine.queue.counts()[Pool.ACTIVE] >= 0


def test_kai_orders_its_queues_by_the_share_that_it_computes() -> None:
    queues = [
        a_queue(name, sharing=Sharing.KAI, weight=weight, created_s=age)
        for name, weight, age in (("red", 1.0, 1.0), ("blue", 3.0, 2.0))
    ]
    scene = Contention(10, *queues)
    scene.flood("red", 20)
    scene.flood("blue", 20)
    assert scene.by_queue() == {"red": 3, "blue": 7}
    assert (scene.share("red"), scene.share("blue")) == (3, 7)


def test_many_small_units_of_one_queue_do_not_delay_another() -> None:
    scene = Contention(8, a_queue("red"), a_queue("blue"))
    scene.flood("red", 2000)
    scene.create("blue", "b1", "b2")
    assert {"b1", "b2"} <= set(scene.started(5))


def test_what_is_tried_first_is_the_same_each_time() -> None:
    runs = []
    for _ in range(2):
        scene = Contention(9, a_queue("red"), a_queue("blue"), a_queue("green"))
        for name in ("green", "red", "blue"):
            scene.flood(name, 5)
        runs.append(scene.started())
    assert runs[0] == runs[1]


def test_one_rank_is_computed_for_each_unit_that_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows a bind, and those who only ask whether units wait, compute none."""
    ranked: list[str] = []

    def counted(node: ShareNode, *more: object) -> Rank:
        ranked.append(node.key)
        return rank(node, *more)

    monkeypatch.setattr(order, "rank", counted)
    names = [f"q{number}" for number in range(10)]
    contention = Contention(400, a_queue("top"), *(a_queue(name, parent="top") for name in names))
    for name in names:
        contention.flood(name, 20)
    assert contention.engine.queue.has_active()
    assert len(contention.started(10)) == 10
    ranked.clear()
    for _ in range(100):
        assert len(contention.started(1)) == 1
        assert contention.engine.queue.has_active()
        contention.now += 0.001
        contention.engine.tend(now=contention.now)
    assert len(ranked) <= 100 + len(names)
