"""Units of more than one pod in the queue: gathering, order, gates, classes, members that leave."""

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from builders import a_pod
from examples import examples
from fairlead.cluster.aspects import Aspect
from fairlead.model.gangs import GangSpec
from fairlead.model.pods import Pod, PodRequest
from fairlead.queue.entries import Entry, Pool
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.units import Gang

JOB = GangSpec("default/job", minimum=3)


@pytest.fixture
def queue() -> SchedulingQueue:
    return SchedulingQueue()


def request_of(pod: Pod) -> PodRequest:
    return pod.request


def member(number: int, **more: object) -> Pod:
    return a_pod(f"m{number}", uid=f"m{number}", **more)


def gather(queue: SchedulingQueue, *numbers: int, spec: GangSpec = JOB, now: float = 0.0) -> None:
    for number in numbers:
        queue.gather(member(number), spec, now=now)


def popped(queue: SchedulingQueue, now: float) -> list[str]:
    """The units that can be tried, by their pods."""
    found = []
    while (entry := queue.pop(now=now)) is not None:
        found.append(" ".join(pod.name for pod in entry.unit.pods))
    return found


def park(queue: SchedulingQueue, entry: Entry | None, now: float = 0.0) -> Entry:
    assert entry is not None
    class_ = entry.unit.equivalence_class(request_of, "")
    queue.park(entry, class_, woken_by=Aspect.USAGE, now=now)
    return entry


def test_a_gang_is_tried_once_as_many_pods_as_it_needs_have_come(queue: SchedulingQueue) -> None:
    gather(queue, 0, 1)
    assert queue.pop(now=1.0) is None
    assert queue.counts()[Pool.GATED] == 2
    gather(queue, 2, now=5.0)
    assert queue.counts()[Pool.ACTIVE] == 3
    entry = queue.pop(now=5.0)
    assert entry is not None
    assert [pod.name for pod in entry.unit.pods] == ["m0", "m1", "m2"]
    assert (entry.attempts, entry.first_queued_s) == (1, 5.0)
    assert queue.pop(now=5.0) is None, "one unit, one attempt"


def test_members_above_the_minimum_are_tried_with_the_others(queue: SchedulingQueue) -> None:
    gather(queue, 0, 1, 2, 3)
    assert popped(queue, 1.0) == ["m0 m1 m2 m3"]


def test_gated_members_neither_count_nor_are_placed(queue: SchedulingQueue) -> None:
    gather(queue, 0, 1)
    queue.gather(member(2, gates=("wait",)), JOB, now=0.0)
    assert queue.pop(now=1.0) is None
    gather(queue, 3, now=2.0)
    entry = queue.pop(now=2.0)
    assert entry is not None
    assert [pod.name for pod in entry.unit.pods] == ["m0", "m1", "m3"]


def test_a_gang_is_ready_when_the_gates_of_its_last_member_are_lifted(queue) -> None:
    gather(queue, 0, 1)
    queue.gather(member(2, gates=("wait",)), JOB, now=0.0)
    queue.gather(member(2), JOB, now=7.0)
    entry = queue.pop(now=7.0)
    assert entry.queued_s == 7.0


def test_order_is_by_the_priority_of_the_gang_and_by_when_it_was_complete(queue) -> None:
    first, high = GangSpec("a", 2, priority=0), GangSpec("b", 1, priority=5)
    queue.gather(member(0, priority=100), first, now=0.0)
    queue.put(a_pod("single"), now=1.0)
    queue.gather(member(1), first, now=2.0)
    queue.gather(member(2, priority=9), high, now=3.0)
    queue.put(a_pod("late"), now=4.0)
    assert popped(queue, 5.0) == ["m2", "single", "m0 m1", "late"]


def test_a_gang_without_a_priority_has_the_highest_of_its_pods() -> None:
    gang = Gang(JOB)
    assert gang.priority == 0
    for number, priority in enumerate((-5, 7, 3)):
        gang.put(member(number, priority=priority))
    assert gang.priority == 7
    gang = Gang(GangSpec("default/job", 1, priority=2))
    gang.put(member(1, priority=9))
    assert gang.priority == 2


@pytest.mark.parametrize("waits", [False, True])
def test_a_gang_that_loses_a_member_it_needs_gathers_again(queue, waits: bool) -> None:
    gather(queue, 0, 1, 2)
    if waits:
        park(queue, queue.pop(now=0.0))
    queue.remove("m1")
    assert queue.pop(now=99.0) is None
    assert queue.counts()[Pool.GATED] == 2
    gather(queue, 9, now=100.0)
    assert popped(queue, 100.0) == ["m0 m2 m9"]


def test_a_waiting_gang_that_shrinks_is_tried_again_after_its_backoff(queue) -> None:
    gather(queue, 0, 1, 2, 3)
    entry = park(queue, queue.pop(now=0.0))
    queue.remove("m3")
    assert entry.pool is Pool.BACKOFF
    assert popped(queue, 2.0) == ["m0 m1 m2"]


def test_the_last_member_takes_the_gang_with_it(queue: SchedulingQueue) -> None:
    gather(queue, 0, 1)
    queue.remove("m0")
    queue.remove("m1")
    assert sum(queue.counts().values()) == 0
    gather(queue, 0, spec=GangSpec(JOB.key, 1))
    assert popped(queue, 1.0) == ["m0"], "nothing of the old one is left"


def test_members_with_a_node_count_towards_the_minimum(queue: SchedulingQueue) -> None:
    gather(queue, 0, 1, 2)
    entry = queue.pop(now=0.0)
    for uid in ("m0", "m1", "m2"):
        queue.place(uid)
    queue.finish(entry, now=0.0)
    assert entry.pool is Pool.GATED
    assert sum(queue.counts().values()) == 0
    gather(queue, 3, now=1.0)
    assert popped(queue, 1.0) == ["m3"], "a late member is placed beside them"


def test_a_placed_member_that_goes_is_missed(queue: SchedulingQueue) -> None:
    gather(queue, 0, 1, 2)
    entry = queue.pop(now=0.0)
    for uid in ("m0", "m1", "m2"):
        queue.place(uid)
    queue.finish(entry, now=0.0)
    queue.remove("m1")
    queue.remove("m2")
    gather(queue, 3, now=1.0)
    assert queue.pop(now=1.0) is None
    gather(queue, 4, now=2.0)
    assert popped(queue, 2.0) == ["m3 m4"]


def test_what_is_left_of_a_gang_that_was_bound_in_part_is_tried_alone(queue) -> None:
    gather(queue, 0, 1, 2)
    entry = queue.pop(now=0.0)
    queue.place("m0")
    queue.retry(entry, now=0.0)
    assert popped(queue, 2.0) == ["m1 m2"]


def test_members_that_come_while_others_are_bound_are_next(queue: SchedulingQueue) -> None:
    gather(queue, 0, 1, 2)
    entry = queue.pop(now=0.0)
    gather(queue, 3)
    assert entry.pool is Pool.NONE, "one attempt at a time"
    for uid in ("m0", "m1", "m2"):
        queue.place(uid)
    queue.finish(entry, now=1.0)
    assert popped(queue, 1.0) == ["m3"]


@pytest.mark.parametrize(("minimum", "tried"), [(2, ["m0 m1"]), (4, [])])
def test_a_changed_minimum_counts_at_once(queue, minimum: int, tried: list[str]) -> None:
    gather(queue, 0, 1)
    queue.respecify(GangSpec(JOB.key, minimum), now=3.0)
    assert popped(queue, 3.0) == tried


def test_a_raised_minimum_takes_an_active_gang_back_to_gathering(queue) -> None:
    gather(queue, 0, 1, 2)
    queue.respecify(GangSpec(JOB.key, 4), now=1.0)
    assert queue.pop(now=1.0) is None
    gather(queue, 3, spec=GangSpec(JOB.key, 4), now=2.0)
    assert popped(queue, 2.0) == ["m0 m1 m2 m3"]


def test_a_new_member_wakes_a_waiting_gang_and_a_status_update_does_not(queue) -> None:
    gather(queue, 0, 1, 2)
    entry = park(queue, queue.pop(now=0.0))
    queue.gather(member(1, condition=("Unschedulable", "x")), JOB, now=9.0)
    assert entry.pool is Pool.WAITING
    gather(queue, 3, now=9.0)
    assert entry.pool is Pool.ACTIVE


def test_gangs_that_need_the_same_wait_in_one_class(queue: SchedulingQueue) -> None:
    for key in "ab":
        for number in range(2):
            queue.gather(a_pod(f"{key}{number}", gpus=number), GangSpec(key, 2), now=0.0)
    first, second = (park(queue, queue.pop(now=0.0)) for _ in range(2))
    assert first.equivalence_class == second.equivalence_class
    assert queue.waiting(Aspect.USAGE) == [first]
    assert sum(queue.counts().values()) == 4


@pytest.mark.parametrize(
    ("other", "more"),
    [(GangSpec("b", 1), {}), (GangSpec("b", 2, priority=1), {}), (GangSpec("b", 2), {"gpus": 9})],
)
def test_gangs_that_need_something_else_do_not(other: GangSpec, more: dict[str, int]) -> None:
    one, two = Gang(GangSpec("a", 2)), Gang(other)
    for number in range(2):
        one.put(a_pod(str(number), gpus=1))
        two.put(a_pod(str(number), **{"gpus": 1, **more}))
    assert one.equivalence_class(request_of, "") != two.equivalence_class(request_of, "")


def test_a_gang_with_members_on_nodes_is_in_a_class_of_its_own() -> None:
    classes = set()
    for key in "ab":
        gang = Gang(GangSpec(key, 2))
        gang.put(a_pod("waits"))
        gang.count("elsewhere", "")
        classes.add(gang.equivalence_class(request_of, ""))
    assert len(classes) == 2


def test_a_pod_that_changes_its_gang_is_in_one_unit_only(queue: SchedulingQueue) -> None:
    gather(queue, 0, 1, 2)
    queue.gather(member(1), GangSpec("other", 1), now=1.0)
    assert popped(queue, 1.0) == ["m1"]
    queue.put(member(0), now=2.0)
    assert popped(queue, 2.0) == ["m0"]
    assert queue.counts()[Pool.GATED] == 1


SPECS = [GangSpec("a", 2), GangSpec("a", 3, priority=1), GangSpec("b", 1), GangSpec("b", 2)]
NUMBERS = st.integers(0, 5)


class GangMachine(RuleBasedStateMachine):
    """In any order of events: who lacks pods is not tried, and no pod is lost or counted twice."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = SchedulingQueue()
        self.now = 0.0
        self.tried: list[Entry] = []
        #: The key of each pending pod's unit.
        self.pending: dict[str, str] = {}
        self.placed: dict[str, str] = {}

    @rule(number=NUMBERS, spec=st.sampled_from(SPECS), gated=st.booleans())
    def member_is_seen(self, number: int, spec: GangSpec, gated: bool) -> None:
        self.now += 1.0
        self.queue.gather(member(number, gates=("g",) if gated else ()), spec, now=self.now)
        self.pending[f"m{number}"] = spec.key
        self.placed.pop(f"m{number}", None)

    @rule(number=NUMBERS)
    def pod_is_seen(self, number: int) -> None:
        self.now += 1.0
        if f"m{number}" not in self.placed:
            self.queue.put(member(number), now=self.now)
            self.pending[f"m{number}"] = f"m{number}"

    @rule(number=NUMBERS)
    def pod_goes(self, number: int) -> None:
        self.queue.remove(f"m{number}")
        self.pending.pop(f"m{number}", None)
        self.placed.pop(f"m{number}", None)

    @rule(spec=st.sampled_from(SPECS))
    def object_changes(self, spec: GangSpec) -> None:
        self.now += 1.0
        self.queue.respecify(spec, now=self.now)

    @rule()
    def next_is_tried(self) -> None:
        self.now += 20.0
        entry = self.queue.pop(now=self.now)
        if entry is not None:
            assert entry.unit.is_ready
            self.tried.append(entry)

    @precondition(lambda self: self.tried)
    @rule(how=st.sampled_from(["park", "retry", "place"]))
    def outcome_comes(self, how: str) -> None:
        entry = self.tried.pop()
        if isinstance(entry.unit, Gang) and not entry.unit.size:  # its pods went meanwhile
            self.queue.finish(entry, now=self.now)
            return
        if entry not in self.queue._entries.values():
            return
        if how == "place":
            for uid in [pod.uid for pod in entry.unit.pods]:
                self.queue.place(uid)
                key = self.pending.pop(uid)
                self.placed |= {uid: key} if key != uid else {}
            if isinstance(entry.unit, Gang):
                self.queue.finish(entry, now=self.now)
        elif how == "park":
            park(self.queue, entry, now=self.now)
        else:
            self.queue.retry(entry, now=self.now)

    @rule()
    def something_is_freed(self) -> None:
        self.now += 1.0
        for entry in self.queue.waiting(Aspect.USAGE):
            self.queue.wake(entry, "test", now=self.now)

    @invariant()
    def every_pod_is_in_its_unit(self) -> None:
        found = {uid: entry.unit.key for uid, entry in self.queue._entries.items()}
        assert found == self.pending
        assert {uid: entry.unit.key for uid, entry in self.queue._placed.items()} == self.placed
        tried = {entry.unit.key for entry in self.tried if isinstance(entry.unit, Gang)}
        assert self.queue._gangs.keys() == tried | {
            key for uid, key in (self.pending | self.placed).items() if key != uid
        }

    @invariant()
    def who_lacks_pods_gathers_and_others_do_not(self) -> None:
        for entry in {*self.queue._entries.values(), *self.queue._gangs.values()}:
            if entry.pool is not Pool.NONE or entry not in self.tried:
                assert (entry.pool is Pool.GATED) == (not entry.unit.is_ready)

    @invariant()
    def pods_are_counted_once(self) -> None:
        pools = Counter(entry.pool for entry in self.queue._entries.values())
        del pools[Pool.NONE]
        assert Counter(self.queue.counts()) == pools, "zeros are equal to nothing"


TestGangs = GangMachine.TestCase
TestGangs.settings = examples(60, steps=30)
