"""Annotations without effect: a request or a queue that was changed after the bind, and misspelt
keys.
"""

from collections.abc import Iterator

from fairlead.cluster.holdings import Holding
from fairlead.engine.instructions import AnnounceWarning
from fairlead.model.gpus import GrantSource
from fairlead.model.pods import Pod

REASON = "RequestChangeIgnored"
UNKNOWN = "UnknownAnnotation"
RUN_TIME, START_TIME = "InvalidRunTime", "InvalidStartTime"
QUEUE = "QueueChangeIgnored"
_SENTENCE = (
    "Annotations that request GPUs were changed after the pod was bound, which has no effect{}. "
    "The pod keeps what it was assigned. To request something else, create a new pod."
)

_QUEUE_SENTENCE = (
    "The label or annotation that names the queue was changed after the pod was bound, which has "
    "no effect. The pod stays counted for queue {}. To use another queue, create a new pod."
)


def edit_of(held: Holding | None, pod: Pod) -> AnnounceWarning | None:
    """The warning about a bound pod, once for each change; `held` is how it was known before."""
    if pod.edited:
        known = held is not None and held.pod.edited == pod.edited
        return None if known else AnnounceWarning(pod, REASON, _sentence(pod.edited))
    if held is None or held.by_claim or held.pod.edited or held.pod is pod:
        return None
    before, now = held.pod.request.gpu_request, pod.request.gpu_request
    if (
        before == now or (before and before.map_slot) or (now and now.map_slot)
    ):  # a map may be settled
        return _removed(held, pod)
    return AnnounceWarning(pod, REASON, _sentence(""))


def queue_edit_of(held: Holding | None, pod: Pod) -> AnnounceWarning | None:
    """The warning about a bound pod that names another queue than before, once for each change."""
    if held is None or not held.tenant or held.pod.queue == pod.queue:
        return None
    return AnnounceWarning(pod, QUEUE, _QUEUE_SENTENCE.format(held.tenant.partition("/")[2]))


def misspelling_of(before: Pod | None, pod: Pod) -> AnnounceWarning | None:
    """The warning about a pending pod, once for each change; `before` is how it waited so far."""
    if not pod.misspelt or (before is not None and before.misspelt == pod.misspelt):
        return None
    return AnnounceWarning(pod, UNKNOWN, pod.misspelt)


def time_problems_of(before: Pod | None, pod: Pod) -> Iterator[AnnounceWarning]:
    """Warnings about a pending pod whose run time or start is ignored, once for each change."""
    known = before is not None and before.run_time == pod.run_time
    if pod.run_time and pod.run_time.problem and not known:
        yield AnnounceWarning(pod, RUN_TIME, pod.run_time.problem)
    known = before is not None and before.start == pod.start
    if pod.start and pod.start.problem and not known:
        yield AnnounceWarning(pod, START_TIME, pod.start.problem)


def _removed(held: Holding, pod: Pod) -> AnnounceWarning | None:
    was, now = held.pod.grant, pod.grant
    if held.assumed or was is None or was.source is not GrantSource.BOUND:
        return None
    if now is None or now.source < GrantSource.BOUND:
        return AnnounceWarning(
            pod, REASON, _sentence("the assignment was removed or cannot be read")
        )
    differs = (now.uses, now.isolation) != (was.uses, was.isolation)
    changed = now.source is GrantSource.BOUND and differs
    return AnnounceWarning(pod, REASON, _sentence("the assignment differs")) if changed else None


def _sentence(difference: str) -> str:
    return _SENTENCE.format(f": {difference}" if difference else "")
