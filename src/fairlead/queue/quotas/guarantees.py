"""Whether guarantees can be kept: what a queue guarantees is divided among those beneath it."""

from fairlead.model.queue_amounts import shown_amount
from fairlead.model.queues import QueueSpec, Sharing
from fairlead.queue.quotas.tree import QueueTree


def guarantee_problem(tree: QueueTree, spec: QueueSpec) -> str:
    """Why the guarantees around this queue contradict each other; empty if they do not.

    Only resources that a queue lists are compared with those beneath it.
    """
    return GuaranteeChecks(tree).problem(spec)


class GuaranteeChecks:
    """Of all queues of a tree: a parent with many children is looked at once."""

    def __init__(self, tree: QueueTree) -> None:
        self._tree = tree
        self._known: dict[str, str] = {}

    def forget(self) -> None:
        """A queue came, changed or went."""
        self._known.clear()

    def problem(self, spec: QueueSpec) -> str:
        if spec.sharing is not Sharing.CONTINUOUS:
            return ""  # other APIs allow it
        parent = self._tree.get(spec.parent) if spec.parent else None
        return (self._of(parent) if parent else "") or self._of(spec)

    def _of(self, spec: QueueSpec) -> str:
        found = self._known.get(spec.key)
        if found is None:
            found = self._known[spec.key] = _exceeded(self._tree, spec)
        return found


def _exceeded(tree: QueueTree, spec: QueueSpec) -> str:
    """What the queues beneath it are guaranteed together is more than it has itself."""
    if not spec.guaranteed:
        return ""
    beneath = [
        dict(child.guaranteed) for key in tree.children(spec.key) if (child := tree.get(key))
    ]
    for name, number in spec.guaranteed:
        total = sum(each.get(name, 0) for each in beneath)
        if total > number:
            return (
                f"the queues beneath {spec.name} are guaranteed {shown_amount(name, total)} {name} "
                f"together, and {spec.name} itself {shown_amount(name, number)}; lower theirs or "
                f"raise spec.guaranteed of {spec.name}"
            )
    return ""
