"""Whether guarantees can be kept: what a queue guarantees is divided among those beneath it."""

from collections import Counter
from collections.abc import Mapping

from fairlead.model.queue_amounts import shown_amount
from fairlead.model.queues import QueueSpec, Sharing
from fairlead.queue.quotas.tree import QueueTree


def guarantee_problem(tree: QueueTree, spec: QueueSpec) -> str:
    """Why the guarantees around this queue contradict each other; empty if they do not.

    Only resources that a queue lists are compared with those beneath it. `spec` need not be in the
    tree: it is taken in place of the one with its key.
    """
    if spec.sharing is not Sharing.CONTINUOUS:
        return ""  # other APIs allow it
    parent = tree.get(spec.parent) if spec.parent else None
    above = _exceeded(parent, _below_with(tree, spec)) if parent else ""
    return above or _exceeded(spec, tree.guaranteed_below(spec.key))


def _below_with(tree: QueueTree, spec: QueueSpec) -> Mapping[str, int]:
    below, known = tree.guaranteed_below(spec.parent), tree.get(spec.key)
    if known is spec:
        return below
    changed = Counter(below)
    if known is not None and known.parent == spec.parent:
        changed.subtract(dict(known.guaranteed))
    changed.update(dict(spec.guaranteed))
    return changed


def _exceeded(spec: QueueSpec, below: Mapping[str, int]) -> str:
    """What the queues beneath it are guaranteed together is more than it has itself."""
    for name, number in spec.guaranteed:
        total = below.get(name, 0)
        if total > number:
            return (
                f"the queues beneath {spec.name} are guaranteed {shown_amount(name, total)} {name} "
                f"together, and {spec.name} itself {shown_amount(name, number)}; lower theirs or "
                f"raise spec.guaranteed of {spec.name}"
            )
    return ""
