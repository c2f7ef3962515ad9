"""Which service class a pod has, for the scheduler and for admission."""

from collections.abc import Iterable

from fairlead.model.pods import Pod
from fairlead.model.service_classes import SERVICE_CLASS, ServiceClass, named_class


class ClassBook:
    """The classes of a configuration. The first that lists a queue or PriorityClass counts."""

    def __init__(self, classes: Iterable[ServiceClass] = ()) -> None:
        self.classes: dict[str, ServiceClass] = {each.name: each for each in classes}
        self._by_queue: dict[str, ServiceClass] = {}
        self._by_priority: dict[str, ServiceClass] = {}
        for each in reversed(self.classes.values()):
            self._by_queue |= dict.fromkeys(each.queues, each)
            self._by_priority |= dict.fromkeys(each.priority_classes, each)

    @property
    def reads_queues(self) -> bool:
        """Whether the queue of a pod matters."""
        return bool(self._by_queue)

    def of(self, pod: Pod, queue: str = "") -> ServiceClass | None:
        """What it names, if it may; else that of its queue (a key), or of its PriorityClass."""
        found = self.classes.get(named_class(pod.annotations, pod.labels))
        if found is not None and found.may_be_named_in(pod.namespace):
            return found
        found = self._by_queue.get(queue) or self._by_queue.get(queue.partition("/")[2])
        return found or self._by_priority.get(pod.priority_class)

    def unused(self, pod: Pod) -> str:
        """Why the class that the pod names is not used; empty: it is, or it names none."""
        named = named_class(pod.annotations, pod.labels)
        known = self.classes.get(named)
        if not named or (known is not None and known.may_be_named_in(pod.namespace)):
            return ""
        why = "there is no such class"
        if known is not None:
            why = f"pods of namespace {pod.namespace} may not name it"
        there = ", ".join(
            name for name, each in self.classes.items() if each.may_be_named_in(pod.namespace)
        )
        return f"{SERVICE_CLASS} is {named[:64]!r} and is ignored: {why}; there are: {there}"
