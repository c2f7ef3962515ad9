"""What the author of a pod is told about its service class when the pod is created."""

from collections.abc import Iterable, Iterator
from dataclasses import field

from fairlead.model.class_book import ClassBook
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod
from fairlead.model.service_classes import GpuTerms, ServiceClass, named_class
from fairlead.model.start_times import DEADLINE, WAIT_TIMEOUT, words


@dataclass(frozen=True, slots=True)
class ClassReviews:
    """Classes only advise: no pod is refused for one."""

    book: ClassBook = field(default_factory=ClassBook)

    @classmethod
    def of(cls, classes: Iterable[ServiceClass]) -> "ClassReviews":
        return cls(ClassBook(classes))

    def warnings(self, pod: Pod) -> tuple[str, ...]:
        """Sentences; none for a pod of no class, and for one that did not choose its class and
        can be in time.
        """
        if not self.book.classes:
            return ()
        class_ = self.book.of(pod, pod.queue)
        found = [self.book.unused(pod)]
        if class_ is not None:
            found += _conflicts(pod, class_)
            if named_class(pod.annotations, pod.labels) == class_.name:
                found.append(promise(class_))
        return tuple(filter(None, found))


def promise(class_: ServiceClass) -> str:
    """What units of the class can expect."""
    share = f"{100 * class_.target:g} % of its units are to start"
    terms = _gpu_words(class_.gpus) if class_.gpus else ""
    return f"service class {class_.name}: {share} within {words(class_.wait_goal_s)}{terms}"


def _gpu_words(terms: GpuTerms) -> str:
    found = []
    if terms.quiet is not None:
        found.append(f"on GPUs that are less than {terms.quiet:.0%} busy")
    if terms.neighbours == 0:
        found.append("with no other pods on them")
    elif terms.neighbours is not None:
        found.append(f"which other pods join below {terms.neighbours:.0%} only")
    if terms.packed:
        found.append("shared with others of the class first")
    return "".join(f", {each}" for each in found)


def _conflicts(pod: Pod, class_: ServiceClass) -> Iterator[str]:
    """What the pod says that its class does not promise."""
    if pod.start is None:
        return
    first_s = max(pod.start.created_s, pod.start.not_before_s)
    due_s, goal = first_s + class_.wait_goal_s, words(class_.wait_goal_s)
    run_s = pod.run_time.expected_s if pod.run_time else None
    deadline_s, give_up_s = pod.start.deadline_s, pod.start.give_up_s
    if deadline_s is not None and first_s + (run_s or 0.0) <= deadline_s < due_s + (run_s or 0.0):
        latest = words(max(0.0, deadline_s - (run_s or 0.0) - first_s))
        yield (
            f"{DEADLINE} needs a start within {latest}, and service class {class_.name} promises "
            f"one within {goal}; choose a class with a shorter wait, or a later deadline"
        )
    if give_up_s is not None and give_up_s < due_s:
        yield (
            f"{WAIT_TIMEOUT} ends the wait before service class {class_.name} promises a start "
            f"({goal}); such a pod does not count in the class"
        )
