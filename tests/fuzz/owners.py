"""Controllers of pods, and what Kueue knows about them, with much in them that can be changed."""

from fairlead.kube.owner_kinds import OWNER_KINDS
from fuzz.objects import Json

_META: Json = {
    "name": "a", "uid": "o", "namespace": "default",
    "labels": {"kueue.x-k8s.io/queue-name": "q",
               "kueue.x-k8s.io/max-exec-time-seconds": "600"},
    "annotations": {"fairlead.dev/run-time": "1h", "fairlead.dev/estimated-run-time": "30m"},
    "ownerReferences": [{"kind": "RayJob", "name": "b", "controller": True}],
}  # fmt: skip
JOB: Json = {
    "metadata": _META,
    "spec": {
        "activeDeadlineSeconds": 3600, "backoffLimit": 6, "backoffLimitPerIndex": 1,
        "runningEstimate": "30m",
        "podFailurePolicy": {"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
    },
    "status": {"startTime": "2026-01-01T00:00:00Z", "failed": 1},
}  # fmt: skip
_KUBEFLOW: Json = {
    "metadata": _META,
    "spec": {"runPolicy": {"activeDeadlineSeconds": 3600, "suspend": False}},
    "status": {"startTime": "2026-01-01T00:00:00Z"},
}
WORKLOAD: Json = {
    "metadata": {"name": "w"},
    "spec": {"maximumExecutionTimeSeconds": 600},
    "status": {
        "accumulatedPastExecutionTimeSeconds": 100, "accumulatedPastExexcutionTimeSeconds": 100,
        "conditions": [{"type": "Admitted", "status": "True",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    },
}  # fmt: skip


def owner(kind: str) -> Json:
    found = OWNER_KINDS[kind]
    body = _KUBEFLOW if found.group == "kubeflow.org" else JOB
    return {**body, "apiVersion": f"{found.group}/{found.versions[0]}", "kind": kind}
