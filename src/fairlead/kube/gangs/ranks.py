"""The rank of a pod in its gang, as its controller numbered it."""

from fairlead.kube.gangs.api import PodWords
from fairlead.kube.gangs.limits import rank_of

#: Labels of Jobs, of Kubeflow, of LeaderWorkerSets, of Grove and of StatefulSets.
_INDICES = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "grove.io/pod-index",
    "apps.kubernetes.io/pod-index",
)


def rank_in_labels(pod: PodWords) -> int | None:
    return rank_of(next(filter(None, map(pod.labels.get, _INDICES)), None))
