"""Units of a service class start in time, or are counted as late once; queues order by slack."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_node, a_pod, an_engine, decide, see
from examples import examples
from fairlead.engine import events, service_dumps
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import AnnounceNotice, AnnounceWarning, Bind, Instruction
from fairlead.engine.service_goals import ServiceWait
from fairlead.engine.service_record import MOST_HOURS, MOST_MISSED, ServiceRecord
from fairlead.model.backfill import NO_BACKFILL
from fairlead.model.pods import Pod
from fairlead.model.queues import UnitOrder
from fairlead.model.service_classes import MOST_CLASSES, SERVICE_CLASS, ServiceClass
from fairlead.model.start_times import StartTimes, utc
from gang_world import a_gang
from timed_world import TimedWorld, bounded

#: The engine's clock begins there.
EPOCH = 1_800_000_000.0
FAST = ServiceClass("fast", wait_goal_s=60.0, target=0.9, queues=frozenset({"notebooks"}))
SLOW = ServiceClass("slow", wait_goal_s=3600.0, priority_classes=frozenset({"batch"}))


def an_engine_with(*classes: ServiceClass, gpus: int = 1) -> Engine:
    engine = an_engine(a_node("a", gpus=gpus))
    engine.handle(events.QueueKindSeen("fairlead", is_served=True), now=0.0)
    engine.wall_offset_s = EPOCH
    engine.handle(events.ServiceClassesSeen(classes or (FAST, SLOW)), now=0.0)
    engine.tend(now=-100.0)
    return engine


def of_class(name: str = "p", class_: str = "fast", at_s: float = 0.0, **more: object) -> Pod:
    said = {"annotations": {SERVICE_CLASS: class_}} if class_ else {}
    pod = a_pod(name, **{"gpus": 1, "uid": name, **more})
    return replace(pod, **said, created=utc(EPOCH + at_s))


def counts(engine: Engine, class_: ServiceClass = FAST, at_s: float = 0.0) -> tuple[int, int]:
    found = engine.service_record.of(class_, EPOCH + at_s)
    return found.met, found.missed


def said(made: Sequence[Instruction], reason: str) -> list[str]:
    of_pods = [each for each in made if isinstance(each, AnnounceWarning | AnnounceNotice)]
    return [each.message for each in of_pods if each.reason == reason]


def test_a_unit_that_starts_within_its_goal_is_counted_once() -> None:
    engine = an_engine_with()
    see(engine, of_class())
    assert [each for each in decide(engine, now=59.0) if isinstance(each, Bind)]
    engine.handle(events.BindFailed("p", events.BindProblem.DENIED, "no"), now=59.0)
    decide(engine, now=75.0)
    assert counts(engine, at_s=59) == (1, 0)


def test_a_unit_that_waits_too_long_is_counted_at_that_moment_and_once() -> None:
    engine = an_engine_with(gpus=0)
    see(engine, of_class())
    decide(engine, now=1.0)
    assert engine.wake_at_s() is not None
    assert engine.wake_at_s() <= 60.0
    assert not said(engine.tend(now=59.0), "WaitGoalMissed")
    assert said(engine.tend(now=60.0), "WaitGoalMissed")
    assert counts(engine, at_s=60) == (0, 1)
    engine.handle(events.NodeSeen(a_node("b", gpus=1)), now=70.0)
    assert [each for each in decide(engine, now=70.0) if isinstance(each, Bind)]
    assert counts(engine, at_s=70) == (0, 1)


@pytest.mark.parametrize(
    ("pod", "found"),
    [
        (of_class(class_="fast"), "fast"),
        (replace(of_class(class_=""), labels={SERVICE_CLASS: "slow"}), "slow"),
        (replace(of_class(class_=""), priority_class="batch"), "slow"),
        (replace(of_class(class_=""), queue="fairlead/notebooks"), "fast"),
        (replace(of_class(class_="slow"), queue="fairlead/notebooks"), "slow"),
        (replace(of_class(class_="none"), priority_class="batch"), "slow"),
        (of_class(class_=""), None),
    ],
)
def test_a_pod_names_its_class_or_has_that_of_its_queue_or_priority(
    pod: Pod, found: str | None
) -> None:
    class_ = an_engine_with().service_goals.class_of(pod)
    assert (class_ and class_.name) == found


def test_a_class_that_a_namespace_may_not_name_is_ignored_with_a_warning() -> None:
    engine = an_engine_with(replace(FAST, namespaces=frozenset({"other"})))
    see(engine, of_class())
    (message,) = said(engine.tend(now=0.0), "ServiceClassNotUsed")
    assert "may not name it" in message
    see(engine, of_class())
    assert not said(engine.tend(now=0.0), "ServiceClassNotUsed")
    decide(engine, now=1.0)
    assert counts(engine, at_s=1) == (0, 0)


def test_the_wait_begins_when_the_unit_could_first_have_been_scheduled() -> None:
    engine = an_engine_with()
    gated = of_class("gated", gates=("wait",))
    see(engine, gated)
    see(engine, replace(gated, gates=()), now=500.0)
    later = StartTimes(EPOCH, not_before_s=EPOCH + 500)
    see(engine, replace(of_class("later", at_s=0.0), start=later), now=500.0)
    goals = engine.service_goals
    for name in ("gated", "later"):
        entry = engine.queue.get(name)
        assert entry is not None
        wait = goals.wait_of(entry.unit)
        assert wait is not None
        assert wait.due_s == EPOCH + 560


def test_a_unit_that_was_there_before_a_restart_has_waited_since_its_creation() -> None:
    engine = an_engine_with(gpus=0)
    see(engine, of_class(at_s=-50.0))
    decide(engine, now=1.0)
    engine.tend(now=11.0)
    assert counts(engine, at_s=11) == (0, 1)
    kept = service_dumps.dump(engine.service_record)
    again = an_engine_with(gpus=0)
    again.handle(events.ServiceRecordLoaded(kept), now=20.0)
    see(again, of_class(at_s=-50.0), now=20.0)
    again.tend(now=30.0)
    assert counts(again, at_s=30) == (0, 1), "it was counted as late before the restart"


def test_a_new_leader_judges_nothing_before_it_knows_what_the_last_one_judged() -> None:
    old, new = an_engine_with(gpus=0), an_engine(a_node("a", gpus=0))
    new.wall_offset_s = EPOCH
    new.handle(events.ServiceClassesSeen((FAST,)), now=0.0)
    for engine in (old, new):
        see(engine, of_class())
    old.tend(now=61.0)
    new.tend(now=62.0)
    new.handle(events.ServiceRecordLoaded(service_dumps.dump(old.service_record)), now=63.0)
    new.tend(now=100.0)
    assert counts(new, at_s=100) == (0, 1)


def test_a_gang_is_one_unit() -> None:
    world = TimedWorld(a_node("a", gpus=4))
    engine = world.engine
    engine.wall_offset_s = EPOCH
    engine.handle(events.ServiceClassesSeen((FAST,)), now=0.0)
    pods = a_gang("train", 4, gpus=1)
    named = [replace(pod, annotations={SERVICE_CLASS: "fast"}, created=utc(EPOCH)) for pod in pods]
    world.submit(*named)
    assert counts(engine) == (1, 0)


def test_a_large_gang_is_looked_at_once_and_not_for_each_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, looks = an_engine_with(gpus=0), list[str]()
    watch = engine.service_goals._watch

    def counting(wait: ServiceWait, wall_s: float) -> ServiceClass | None:
        looks.append(wait.entry.unit.key)
        return watch(wait, wall_s)

    monkeypatch.setattr(engine.service_goals, "_watch", counting)
    named = [
        replace(pod, annotations={SERVICE_CLASS: "fast"}, created=utc(EPOCH))
        for pod in a_gang("train", 50, gpus=1)
    ]
    for _ in range(2):
        see(engine, *named)
    assert len(looks) == 1
    engine.tend(now=61.0)
    assert counts(engine, at_s=61) == (0, 1)


def test_a_unit_that_gives_up_before_its_goal_is_not_counted() -> None:
    engine = an_engine_with(gpus=0)
    see(engine, replace(of_class(), start=StartTimes(EPOCH, give_up_s=EPOCH + 30)))
    decide(engine, now=1.0)
    engine.tend(now=31.0)
    decide(engine, now=31.0)
    engine.tend(now=100.0)
    assert counts(engine, at_s=100) == (0, 0)


def test_a_class_that_no_unit_meets_is_said_at_once() -> None:
    engine = an_engine_with(gpus=0)
    for number in range(5):
        see(engine, of_class(f"p{number}"))
    engine.tend(now=61.0)
    see(engine, of_class("next", at_s=61.0), now=61.0)
    (message,) = said(engine.tend(now=61.0), "WaitGoalCannotBeMet")
    assert message.startswith("none of the last 5 units of service class fast started within 1m")


# -- the record ----------------------------------------------------------------------------------


def test_attainment_budget_and_burn_rate() -> None:
    record = ServiceRecord()
    for number in range(100):
        record.count("fast", EPOCH, met=number >= 5)
    found = record.of(FAST, EPOCH)
    assert found.share == 0.95
    assert found.budget_left == pytest.approx(0.5)
    assert found.burn_rate == pytest.approx(0.5)
    assert record.of(FAST, EPOCH + 2 * 3600, 3600.0).share is None
    assert record.of(FAST, EPOCH + FAST.window_s + 3600).share is None


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 10**6), st.booleans()), max_size=200),
    st.lists(st.binary(min_size=8, max_size=8), max_size=20),
)
@examples(50)
def test_what_is_kept_is_what_was_counted(
    units: list[tuple[str, int, bool]], missed: list[bytes]
) -> None:
    record = ServiceRecord()
    for name, hour, met in units:
        record.count(name, 3600.0 * hour, met=met)
    for digest in missed:
        record.miss(digest)
    again = service_dumps.load(service_dumps.dump(record))
    assert again.hours == record.hours
    assert list(again.missed) == list(record.missed)


def test_the_record_is_bounded_whatever_is_counted() -> None:
    record = ServiceRecord()
    for number in range(3 * MOST_CLASSES):
        record.count("x" * 60 + str(number), EPOCH + 3600 * number, met=True)
    for hour in range(3 * MOST_HOURS):
        record.count("one", EPOCH + 3600 * hour, met=True)
    for number in range(2 * MOST_MISSED):
        record.miss(number.to_bytes(8, "little"))
    data = service_dumps.dump(record)
    assert len(data) <= service_dumps.LARGEST_DUMP
    assert len(service_dumps.load(data).hours["one"]) == MOST_HOURS


def test_damaged_bytes_are_refused() -> None:
    record = ServiceRecord()
    record.count("fast", EPOCH, met=True)
    data = service_dumps.dump(record)
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(ValueError, match=r"damaged|too"):
            service_dumps.load(damaged)
        with pytest.raises(ValueError, match=r"damaged|too"):
            service_dumps.load(data[:at])


# -- order by slack ------------------------------------------------------------------------------


class Overload(TimedWorld):
    """One GPU, and units of one queue that ask for it."""

    def __init__(self, order: UnitOrder) -> None:
        super().__init__(a_node("a", gpus=1), terms=NO_BACKFILL)
        self.engine.wall_offset_s = EPOCH
        self.tell(events.ServiceClassesSeen((FAST, SLOW)))
        self.tell(events.QueueKindSeen("fairlead", is_served=True))
        self.order(order)

    def order(self, order: UnitOrder) -> None:
        from test_queue_order import a_queue

        self.tell(events.QueueSeen(a_queue("team", order=order)))

    def unit(self, name: str, class_: str, run_s: float = 100.0, **more: object) -> None:
        pod = of_class(name, class_, self.now, uid=name, queue="fairlead/team", **more)
        self.submit(replace(pod, run_time=bounded(run_s)))

    def starts(self) -> list[str]:
        return sorted(self.started, key=lambda uid: self.started[uid])


def test_the_unit_with_the_least_slack_starts_first_also_among_equal_units() -> None:
    world = Overload(UnitOrder.SLACK)
    world.unit("first", "slow", 30.0)
    world.unit("slow", "slow", 10.0)
    world.unit("fast", "fast", 10.0)
    world.unit("none", "", 10.0)
    world.run_until(200.0)
    assert world.starts() == ["first", "fast", "slow", "none"]


def test_a_unit_that_missed_its_goal_does_not_come_before_one_that_can_still_meet_it() -> None:
    world = Overload(UnitOrder.SLACK)
    world.unit("first", "slow", 100.0)
    world.unit("late", "fast", 10.0)
    world.run_until(90.0)
    world.unit("in-time", "fast", 10.0)
    world.run_until(300.0)
    assert world.starts() == ["first", "in-time", "late"]


def test_priority_comes_before_slack() -> None:
    world = Overload(UnitOrder.SLACK)
    world.unit("first", "slow", 100.0)
    world.unit("fast", "fast", 10.0)
    world.unit("high", "slow", 10.0, priority=5)
    world.run_until(300.0)
    assert world.starts() == ["first", "high", "fast"]


def test_deadlines_count_as_goals() -> None:
    world = Overload(UnitOrder.SLACK)
    world.unit("first", "slow", 10.0)
    deadline = StartTimes(EPOCH, deadline_s=EPOCH + 50)
    world.unit("fast", "fast", 10.0)
    world.unit("deadline", "", 20.0, start=deadline)
    world.run_until(300.0)
    assert world.starts() == ["first", "deadline", "fast"]


def test_units_that_wait_follow_an_order_that_is_changed() -> None:
    world = Overload(UnitOrder.PRIORITY)
    world.unit("first", "slow", 30.0)
    world.unit("slow", "slow", 10.0)
    world.unit("fast", "fast", 10.0)
    world.order(UnitOrder.SLACK)
    world.run_until(31.0)
    assert world.starts() == ["first", "fast"]
    world.order(UnitOrder.PRIORITY)
    world.run_until(60.0)
    assert world.starts() == ["first", "fast", "slow"]


def test_equal_units_of_a_queue_with_deadlines_start_by_these() -> None:
    world = Overload(UnitOrder.DEADLINE)
    world.unit("first", "", 10.0)
    for name, at_s in (("later", 500), ("sooner", 300)):
        world.unit(name, "", 10.0, start=StartTimes(EPOCH, deadline_s=EPOCH + at_s))
    world.run_until(100.0)
    assert world.starts() == ["first", "sooner", "later"]


def test_in_overload_as_many_units_are_in_time_as_with_plain_order_or_more() -> None:
    """One in two can be in time; by arrival, none is once the line is longer than the goal."""
    met = {}
    for order in (UnitOrder.FIFO, UnitOrder.DEADLINE, UnitOrder.SLACK):
        world = Overload(order)
        for number in range(40):
            world.run_until(20.0 * number)
            world.unit(f"p{number}", "fast", 40.0)
        world.run_until(2000.0)
        met[order] = counts(world.engine, at_s=2000)[0]
    assert met[UnitOrder.SLACK] >= 18
    assert met[UnitOrder.SLACK] > 3 * met[UnitOrder.FIFO]


def test_the_oldest_hour_of_a_class_goes_and_the_newest_stays() -> None:
    record = ServiceRecord()
    for number in range(MOST_HOURS + 1):
        assert record.hour("gold", number) is not None
    assert record.hour("gold", 0) is None
    assert max(record.hours["gold"]) == MOST_HOURS
