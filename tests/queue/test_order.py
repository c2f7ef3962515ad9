"""Another order of the queue, and what becomes of it in every pool."""

from builders import a_pod
from fairlead.model.pods import Pod
from fairlead.queue.entries import Entry
from fairlead.queue.order import OrderKey
from fairlead.queue.queue import SchedulingQueue


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
