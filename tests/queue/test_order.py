"""Another order of the queue, and what becomes of it in every pool."""

from builders import a_pod
from fairlead.cluster.aspects import Aspect
from fairlead.model.pods import Pod, PodRequest
from fairlead.queue.entries import Entry
from fairlead.queue.long_waits import LongWaits
from fairlead.queue.order import OrderKey
from fairlead.queue.queue import SchedulingQueue
from fairlead.queue.retry_times import ONLY_ON_CHANGE
from fairlead.queue.units import EquivalenceClass

CLASS: EquivalenceClass = ("gpu-scheduler", PodRequest(), 0, "")


class Turns:
    """By the rank of the pod's namespace, which may change; then by name, whatever the priority."""

    def __init__(self) -> None:
        self.ranks: dict[str, int] = {}

    def active(self, entry: Entry) -> OrderKey:
        return self.ranks.get(entry.unit.pod.namespace, 0), entry.unit.pod.name, entry.queued_s

    def backoff(self, entry: Entry) -> OrderKey:
        return (entry.unit.pod.name,)


def of(namespace: str, name: str, priority: int = 0) -> Pod:
    pod = a_pod(name, priority=priority)
    return Pod(namespace, name, pod.uid, scheduler=pod.scheduler, priority=priority)


def popped(queue: SchedulingQueue, now: float) -> list[str]:
    names = []
    while (entry := queue.pop(now=now)) is not None:
        names.append(entry.unit.pod.name)
        queue.remove(entry.unit.pod.uid)
    return names


def test_pods_come_in_the_order_that_is_given() -> None:
    queue = SchedulingQueue(Turns())
    for pod in (of("a", "third"), of("a", "first", priority=-9), of("a", "second", priority=9)):
        queue.put(pod, now=0.0)
    assert popped(queue, 0.0) == ["first", "second", "third"]


def test_the_order_also_holds_within_one_second_of_backoff() -> None:
    queue = SchedulingQueue(Turns())
    for pod in (of("a", "b", priority=9), of("a", "a")):
        queue.put(pod, now=0.0)
    entries = [entry for _ in range(2) if (entry := queue.pop(now=0.0))]
    for entry in entries:
        queue.retry(entry, now=0.0)
    assert queue.pop(now=0.5) is None, "a pod whose bind failed waits its backoff out"
    assert popped(queue, 5.0) == ["a", "b"]


def test_pods_are_reordered_when_their_keys_change() -> None:
    order = Turns()
    queue = SchedulingQueue(order)
    pods = [of("a", "a1"), of("a", "a2"), of("b", "b1"), of("b", "b2")]
    for pod in pods:
        queue.put(pod, now=0.0)
    order.ranks["a"] = 1
    queue.reorder(pod.uid for pod in pods if pod.namespace == "a")
    assert popped(queue, 0.0) == ["b1", "b2", "a1", "a2"]


def test_only_active_pods_are_reordered() -> None:
    queue = SchedulingQueue(Turns())
    pod = of("a", "gated")
    queue.put(Pod("a", "gated", pod.uid, scheduler=pod.scheduler, gates=("wait",)), now=0.0)
    queue.reorder([pod.uid, "unknown"])
    assert queue.pop(now=0.0) is None


def parked(queue: SchedulingQueue, *pods: Pod) -> list[Entry]:
    """They were tried, and wait in one class."""
    for pod in pods:
        queue.put(pod, now=0.0)
    entries = [entry for _ in pods if (entry := queue.pop(now=0.0))]
    for entry in entries:
        queue.park(entry, CLASS, woken_by=Aspect.USAGE, now=0.0)
    return entries


def test_the_first_of_a_class_is_the_first_by_the_order() -> None:
    queue = SchedulingQueue(Turns())
    parked(queue, of("a", "second"), of("a", "third"))
    parked(queue, of("a", "first"))
    found = []
    while (entry := queue.first_of_class(CLASS)) is not None:
        found.append(entry.unit.pod.name)
        queue.remove(entry.unit.pod.uid)
    assert found == ["first", "second", "third"]


def test_without_an_order_units_of_a_class_wait_by_arrival() -> None:
    queue = SchedulingQueue()
    parked(queue, of("a", "second"), of("a", "third"))
    parked(queue, of("a", "first"))
    assert [entry.unit.pod.name for entry in queue.all_waiting()] == ["second", "third", "first"]
    first = queue.first_of_class(CLASS)
    assert first is not None
    assert first.unit.pod.name == "second"


def test_the_first_of_a_class_waits_for_what_any_of_them_waits_for() -> None:
    queue = SchedulingQueue(Turns())
    parked(queue, of("a", "second"))
    queue.put(of("a", "first"), now=0.0)
    entry = queue.pop(now=0.0)
    assert entry is not None
    queue.park(entry, CLASS, woken_by=Aspect.LABELS, now=0.0)
    assert queue.waiting(Aspect.USAGE) == queue.waiting(Aspect.LABELS) == [entry]
    queue.remove(entry.unit.pod.uid)
    (second,) = queue.waiting(Aspect.LABELS)
    assert second.unit.pod.name == "second"


def test_units_that_are_tried_only_on_a_change_have_no_backoff_and_no_flush() -> None:
    queue = SchedulingQueue(Turns(), ONLY_ON_CHANGE)
    (entry,) = parked(queue, of("a", "a"))
    LongWaits(queue).wake(1e9)
    assert queue.next_due_s() is None
    assert queue.pop(now=1e9) is None
    queue.wake(entry, "AssignedPodDelete", now=0.0)
    assert queue.has_active()
