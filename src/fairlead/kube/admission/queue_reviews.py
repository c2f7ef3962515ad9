"""Queues in reviews: pods that name one which they cannot use, and queues that make no sense.

The scheduler decides again. So whatever is not known yet is allowed.
"""

from fairlead.kube.queues.fairlead import QUEUE, FairleadQueues
from fairlead.kube.queues.registry import decode_queue
from fairlead.model.pods import Pod
from fairlead.model.queues import QueueSpec
from fairlead.queue.quotas.guarantees import guarantee_problem
from fairlead.queue.quotas.tree import QueueTree

_DIALECT = FairleadQueues()


class QueueReviews:
    """The queues of our own kind, as far as they are known."""

    def __init__(self) -> None:
        self._tree = QueueTree()
        #: Whether all queues were listed: what is missing then does not exist.
        self.is_complete = False

    def seen(self, spec: QueueSpec) -> None:
        self._tree.put(spec)

    def gone(self, key: str) -> None:
        self._tree.remove(key)

    def problem_with_pod(self, pod: Pod) -> str:
        """A sentence for the author of a pod; empty if it may use the queue that it names."""
        key = pod.queue
        if not self.is_complete or not key.startswith(f"{_DIALECT.name}/"):
            return ""
        name = key.partition("/")[2]
        if key not in self._tree:
            return f"the queue {name} does not exist; create it, or change {QUEUE} of the pod"
        for each in self._tree.lineage(key):
            spec = self._tree.get(each)
            allowed = spec.namespaces if spec else None
            if spec and allowed is not None and pod.namespace not in allowed:
                return (
                    f"pods of namespace {pod.namespace} may not use queue {spec.name}; change "
                    f"{QUEUE} of the pod, or add the namespace to spec.namespaces of the queue"
                )
        return ""

    def problem_with_queue(self, raw: bytes) -> str:
        """A sentence for the author of a queue; empty if it makes sense among the others."""
        spec = decode_queue(_DIALECT, raw).spec
        if spec.problem or not self.is_complete:
            return spec.problem
        return self._tree.problem_with(spec) or guarantee_problem(self._tree, spec)
