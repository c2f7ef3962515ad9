"""Pods that the kubelet of their node rejected, and how long pods like them wait.

A controller replaces such a pod at once, and the replacement fits the same node as before. Without
a pause both would go on like this as fast as the API server allows.
"""

from collections import OrderedDict

from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.pods import Pod

REASON = "RejectedByKubelet"
FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 300.0
#: Without a rejection for as long, pods of a kind begin with the first pause again.
FORGET_AFTER_S = 600.0
#: Kinds of pods that are remembered; the oldest are forgotten first.
MOST_KINDS = 1024

#: Namespace, scheduler, the hash of the request, and priority: the pods of a controller are of one
#: kind, and users delay no pods but those of their own namespaces. A request may be megabytes long.
Kind = tuple[str, str, int, int]


@dataclass(frozen=True, slots=True)
class Rejected:
    """The pods of one kind that were rejected, and the last of them."""

    pods: int
    last_s: float
    node: str
    message: str

    @property
    def due_s(self) -> float:
        """When the next pod of the kind may be placed."""
        doubled = FIRST_PAUSE_S * 2.0 ** min(self.pods - 1, 10)
        return self.last_s + min(doubled, LONGEST_PAUSE_S)

    def warning(self, now_s: float) -> str:
        """About the pod that was rejected."""
        return (
            f"The kubelet of node {self.node} rejected the pod: {self.message}. A pod with the "
            f"same requests in this namespace is placed no sooner than in "
            f"{round(self.due_s - now_s)} s."
        )

    @property
    def words(self) -> str:
        """For the user whose pod waits."""
        many = "1 pod" if self.pods == 1 else f"{self.pods} pods"
        return (
            f"the pod waits before it is placed: the kubelet rejected {many} with the same "
            f"requests after the bind, the last one on node {self.node}: {self.message}"
        )


class Rejections:
    """By kind of pod. No clock: the time is passed in."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[Kind, Rejected] = OrderedDict()

    def note(self, pod: Pod, message: str, now_s: float) -> Rejected:
        """A kubelet rejected this pod."""
        kind = _kind(pod)
        before = self._kinds.pop(kind, None)
        fresh = before is None or now_s - before.last_s > FORGET_AFTER_S
        pods = 1 if fresh or before is None else before.pods + 1
        found = self._kinds[kind] = Rejected(pods, now_s, pod.node, message)
        if len(self._kinds) > MOST_KINDS:
            self._kinds.popitem(last=False)
        return found

    def pause_of(self, pod: Pod, now_s: float) -> Rejected | None:
        """Why a new pod has to wait, if it has to."""
        if not self._kinds:
            return None
        found = self._kinds.get(_kind(pod))
        return found if found is not None and found.due_s > now_s else None


def _kind(pod: Pod) -> Kind:
    return pod.namespace, pod.scheduler, hash(pod.request), pod.priority
