import pytest

from builders import a_pod
from fairlead.cluster.aspects import Aspect
from fairlead.queue.entries import Pool
from fairlead.queue.long_waits import LongWaits
from fairlead.queue.queue import SchedulingQueue


@pytest.fixture
def queue() -> SchedulingQueue:
    return SchedulingQueue()


def names(queue: SchedulingQueue, now: float) -> list[str]:
    found = []
    while (entry := queue.pop(now=now)) is not None:
        found.append(entry.unit.pod.name)
    return found


def park(queue: SchedulingQueue, entry, now: float) -> None:
    queue.park(entry, ("s", entry.unit.pod.request, 0), woken_by=Aspect.USAGE, now=now)


def test_higher_priority_first_then_first_come(queue: SchedulingQueue) -> None:
    for number, (name, priority) in enumerate([("a", 0), ("b", 5), ("c", 5), ("d", -1)]):
        queue.put(a_pod(name, priority=priority), now=float(number))
    assert names(queue, 10.0) == ["b", "c", "a", "d"]


def test_a_failed_pod_goes_behind_its_equals(queue: SchedulingQueue) -> None:
    queue.put(a_pod("failed"), now=0.0)
    park(queue, queue.pop(now=1.0), now=1.0)
    queue.put(a_pod("new", gpus=1), now=2.0)
    for entry in queue.waiting(Aspect.USAGE):
        queue.wake(entry, "test", now=9.0)
    queue.put(a_pod("newer", gpus=2), now=0.5)
    assert names(queue, 9.0) == ["newer", "failed", "new"]


def test_backoff_doubles_up_to_ten_seconds(queue: SchedulingQueue) -> None:
    queue.put(a_pod("p"), now=0.0)
    waits = []
    now = 0.0
    for _ in range(6):
        entry = queue.pop(now=now)
        queue.retry(entry, now=now)
        waits.append(entry.due_s - now)
        now = entry.due_s + 1.0
    assert waits == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_new_pod_may_have_to_wait_before_it_is_tried(queue: SchedulingQueue) -> None:
    queue.put(a_pod("p", uid="p"), now=0.0, not_before_s=4.0)
    assert queue.pop(now=3.9) is None, "however idle the queue is"
    queue.put(a_pod("p", uid="p", labels={"changed": "meanwhile"}), now=3.0)
    assert queue.pop(now=3.9) is None
    assert names(queue, 5.0) == ["p"]


def test_a_pod_whose_bind_failed_waits_out_its_backoff(queue: SchedulingQueue) -> None:
    queue.put(a_pod("p"), now=0.0)
    queue.retry(queue.pop(now=0.0), now=0.0)
    assert queue.pop(now=0.9) is None
    assert queue.next_due_s() == 2.0
    assert names(queue, 2.0) == ["p"]


def test_an_idle_queue_gives_a_woken_pod_out_before_its_backoff_is_over(queue) -> None:
    queue.put(a_pod("p"), now=0.0)
    entry = queue.pop(now=0.0)
    park(queue, entry, now=0.0)
    queue.wake(entry, "test", now=0.1)
    assert entry.pool is Pool.BACKOFF
    queue.put(a_pod("fresh"), now=0.1)
    assert names(queue, 0.2) == ["fresh", "p"]


def test_gated_pods_are_not_tried_until_their_gates_are_gone(queue: SchedulingQueue) -> None:
    queue.put(a_pod("p", uid="u", gates=("wait",)), now=0.0)
    assert queue.pop(now=0.0) is None
    assert queue.counts()[Pool.GATED] == 1
    queue.put(a_pod("p", uid="u"), now=50.0)
    entry = queue.pop(now=50.0)
    assert entry.first_queued_s == 50.0


def test_a_status_update_wakes_nobody_but_a_change_of_the_pod_does(queue) -> None:
    queue.put(a_pod("p", uid="u", gpus=4), now=0.0)
    park(queue, queue.pop(now=0.0), now=0.0)
    queue.put(a_pod("p", uid="u", gpus=4, condition=("Unschedulable", "x")), now=1.0)
    assert queue.get("u").pool is Pool.WAITING
    queue.put(a_pod("p", uid="u", gpus=1), now=5.0)
    assert queue.get("u").pool is Pool.ACTIVE


def test_only_those_who_wait_for_a_change_are_asked(queue: SchedulingQueue) -> None:
    queue.put(a_pod("p"), now=0.0)
    park(queue, queue.pop(now=0.0), now=0.0)
    assert not queue.waiting(Aspect.LABELS | Aspect.TAINTS)
    assert len(queue.waiting(Aspect.USAGE)) == 1


def test_nobody_waits_longer_than_five_minutes(queue: SchedulingQueue) -> None:
    queue.put(a_pod("p"), now=0.0)
    park(queue, queue.pop(now=0.0), now=0.0)
    waits = LongWaits(queue)
    assert waits.due_s() == 30.0
    waits.wake(300.0)
    assert queue.pop(now=300.0) is None
    assert waits.due_s() == 330.0
    waits.wake(330.0)
    assert names(queue, 330.0) == ["p"]
    assert waits.due_s() is None


def test_those_that_waited_for_long_are_woken_over_several_turns_by_priority(
    queue: SchedulingQueue,
) -> None:
    for number in range(2500):
        queue.put(a_pod(f"p{number}", uid=f"u{number}", priority=number // 1000), now=0.0)
    while (entry := queue.pop(now=0.0)) is not None:
        park(queue, entry, now=0.0)
    waits, woken = LongWaits(queue), []
    waits.wake(400.0)
    while queue.has_active():
        woken.append(names(queue, 400.0))
        waits.wake(400.0)
    assert [len(each) for each in woken] == [1000, 1000, 500]
    assert woken[0][0] == "p2000"
    assert waits.due_s() is None, "none waits any more"


def test_one_that_was_refused_again_meanwhile_is_not_woken(queue: SchedulingQueue) -> None:
    for number in range(1001):
        queue.put(a_pod(f"p{number}", uid=f"u{number}"), now=0.0)
    while (entry := queue.pop(now=0.0)) is not None:
        park(queue, entry, now=0.0)
    waits, last = LongWaits(queue), queue.get("u1000")
    waits.wake(400.0)
    assert last is not None
    queue.hold(last)
    park(queue, last, now=400.0)
    assert waits.due_s() == 0.0
    waits.wake(400.0)
    assert last.pool is Pool.WAITING


def test_those_whose_backoff_is_over_become_active_over_several_turns(
    queue: SchedulingQueue,
) -> None:
    for number in range(2500):
        queue.put(a_pod(f"p{number}", uid=f"u{number}"), now=0.0, not_before_s=4.0)
    counts = []
    while queue.pop(now=6.0) is not None:
        counts.append(queue.counts()[Pool.BACKOFF])
    assert counts[:4] == [1500, 500, 0, 0]
    assert len(counts) == 2500


def test_a_removed_pod_is_gone_from_every_pool(queue: SchedulingQueue) -> None:
    for number in range(4):
        queue.put(a_pod(f"p{number}", uid=f"u{number}"), now=0.0)
    first, second, third = (queue.pop(now=0.0) for _ in range(3))
    park(queue, first, now=0.0)
    queue.retry(second, now=0.0)
    for number in range(4):
        queue.remove(f"u{number}")
    LongWaits(queue).wake(1000.0)
    assert third is not None
    assert names(queue, 1000.0) == []
    assert sum(queue.counts().values()) == 0


def test_pods_that_come_and_go_leave_nothing_behind_where_none_is_taken_out() -> None:
    """A standby sees every pod, and decides on none."""
    queue = SchedulingQueue()
    for number in range(10_000):
        queue.put(a_pod(uid=f"u{number}"), now=float(number))
        queue.remove(f"u{number}")
    queue.put(a_pod(uid="last"), now=1e6)
    assert len(queue._active.places) <= 1025
    entry = queue.pop(now=1e6)
    assert entry is not None
    assert entry.unit.pod.uid == "last"
