"""Which queue a pod belongs to: by its gang, by its own words, or by its namespace."""

from collections.abc import Callable

from fairlead.model.gangs import GangSpec, Membership
from fairlead.model.pods import Pod
from fairlead.model.queues import UNQUEUED, QueueSpec
from fairlead.queue.quotas.shape import queue_name
from fairlead.queue.quotas.tree import QueueTree

#: What is known of the gang of a pod; None if that is nothing.
GangOf = Callable[[Membership], GangSpec | None]


class QueueNames:
    def __init__(self, tree: QueueTree) -> None:
        self._tree = tree
        #: The queue of each namespace by its own words, and by the queues that name it.
        self._namespaces: dict[str, str] = {}
        self._of_namespace: dict[str, dict[str, None]] = {}
        #: Dialects whose queues are served, and why those of others cannot be read.
        self._served: set[str] = set()
        self._problems: dict[str, str] = {}
        self.gang_of: GangOf = lambda membership: membership.spec

    def put_namespace(self, name: str, queue: str) -> bool:
        """Whether its pods may belong to another queue now."""
        if queue == self._namespaces.get(name, ""):
            return False
        if queue:
            self._namespaces[name] = queue
        else:
            del self._namespaces[name]
        return True

    def put_kind(self, dialect: str, problem: str, *, is_served: bool) -> bool:
        """Whether pods may belong to another queue now."""
        before = dialect in self._served, self._problems.get(dialect, "")
        (self._served.add if is_served else self._served.discard)(dialect)
        self._problems[dialect] = problem
        return before != (is_served, problem)

    def put_queue(self, old: QueueSpec | None, new: QueueSpec | None) -> None:
        """A queue may be that of a namespace; of several, the first that came."""
        if old is not None and old.of_namespace:
            self._of_namespace[old.of_namespace].pop(old.key, None)
            if not self._of_namespace[old.of_namespace]:
                del self._of_namespace[old.of_namespace]
        if new is not None and new.of_namespace:
            self._of_namespace.setdefault(new.of_namespace, {})[new.key] = None

    def differ(self, old: QueueSpec | None, new: QueueSpec | None) -> bool:
        """Whether pods may belong to another queue, now that a queue came, changed or went."""
        before, after = (spec.of_namespace if spec else "" for spec in (old, new))
        if before != after:
            return True
        key = old.key if old else new.key if new else ""
        return (old is None or new is None) and _dialect(key) not in self._served

    def of_held(self, pod: Pod) -> str:
        """The key of the queue for which what a pod holds is counted.

        What was not bound for a queue may be bound by another scheduler, which checks nothing: it
        counts only for queues that its namespace may use.
        """
        key = self.of(pod)
        if not pod.node or pod.charged_queue == key or not self._tree.listing_namespaces:
            return key
        specs = (self._tree.get(each) for each in self._tree.lineage(key))
        lists = (spec.namespaces for spec in specs if spec and spec.namespaces is not None)
        return key if all(pod.namespace in each for each in lists) else ""

    def of(self, pod: Pod) -> str:
        """The key of its queue, which may not exist; empty: it has none."""
        if pod.charged_queue and self.counts(pod.charged_queue):
            return pod.charged_queue
        if pod.queue == UNQUEUED:
            return ""
        gang = self.gang_of(pod.gang) if pod.gang else None
        if gang is not None and gang.queue and self.counts(gang.queue):
            return gang.queue
        if pod.queue and self.counts(pod.queue):
            return pod.queue
        default = self._namespaces.get(pod.namespace, "")
        if default and self.counts(default):
            return default
        return next(iter(self._of_namespace.get(pod.namespace, ())), "")

    def of_gang(self, spec: GangSpec) -> str:
        """The queue of a gang that has no pods yet."""
        if spec.queue and self.counts(spec.queue):
            return spec.queue
        default = self._namespaces.get(spec.name.partition("/")[0], "")
        return default if default and self.counts(default) else ""

    def contradiction(self, pod: Pod) -> str:
        """A pod and its gang may name queues of two APIs; then neither is chosen."""
        gang = self.gang_of(pod.gang) if pod.gang else None
        if gang is None or not gang.queue or not pod.queue or gang.queue == pod.queue:
            return ""
        same = _dialect(gang.queue) == _dialect(pod.queue)
        if same or UNQUEUED in (gang.queue, pod.queue) or not self.counts(pod.queue):
            return ""
        own, other = _with_dialect(pod.queue), _with_dialect(gang.queue)
        return f"the pod names the queue {own}, and its gang the queue {other}; remove one"

    def is_served(self, dialect: str) -> bool:
        """Whether queues of this kind are there, or should be."""
        return dialect in self._served or bool(self._problems.get(dialect))

    def problem(self, key: str) -> str:
        """Why the queues of its dialect cannot be read."""
        return self._problems.get(_dialect(key), "")

    def counts(self, key: str) -> bool:
        """Words of an API that is not served are no words."""
        return key in self._tree or self.is_served(_dialect(key))


def _dialect(key: str) -> str:
    return key.partition("/")[0]


def _with_dialect(key: str) -> str:
    return f"{queue_name(key)} ({_dialect(key)})"
