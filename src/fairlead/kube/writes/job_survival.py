"""Whether a Job creates its pods again after an eviction, which may count as a failure."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from fairlead.kube.http.paths import in_namespace, named
from fairlead.kube.http.reply import UNREADABLE, Reply
from fairlead.model.pods import Pod


class _OnCondition(msgspec.Struct):
    type: str = ""


class _Rule(msgspec.Struct, rename="camel"):
    action: str = ""
    on_pod_conditions: list[_OnCondition] | None = None


class _FailurePolicy(msgspec.Struct):
    rules: list[_Rule] | None = None


class _JobSpec(msgspec.Struct, rename="camel"):
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    pod_failure_policy: _FailurePolicy | None = None


class _JobStatus(msgspec.Struct):
    failed: int = 0


class _Job(msgspec.Struct):
    spec: _JobSpec
    status: _JobStatus = msgspec.field(default_factory=_JobStatus)


_jobs = msgspec.json.Decoder(_Job)


def moved_of_jobs(victims: Iterable[Pod]) -> Counter[tuple[str, str]]:
    """How many of these pods each Job has, by namespace and name."""
    found = ((pod.namespace, pod.controller.partition("/")) for pod in victims)
    return Counter((namespace, name) for namespace, (kind, _, name) in found if kind == "Job")


def job_path(namespace: str, name: str) -> str:
    return named(in_namespace("/apis/batch/v1", namespace, "jobs"), name)


def job_problem(reply: Reply, evictions: int) -> str:
    """Why the Job would not go on after so many evictions of its pods; empty if it would."""
    if reply.status != 200:
        return f"cannot be read: {reply.message}"
    try:
        job = _jobs.decode(reply.body)
    except UNREADABLE:
        return "cannot be read: its fields are not as expected"
    if _ignores_evictions(job.spec):
        return ""
    if job.spec.backoff_limit_per_index is not None:
        return "has a backoffLimitPerIndex, and no podFailurePolicy that ignores DisruptionTarget"
    if job.status.failed + evictions > job.spec.backoff_limit:
        return f"would fail: its backoffLimit is {job.spec.backoff_limit}"
    return ""


def _ignores_evictions(spec: _JobSpec) -> bool:
    rules = (spec.pod_failure_policy.rules if spec.pod_failure_policy else None) or ()
    return any(
        rule.action == "Ignore"
        and any(each.type == "DisruptionTarget" for each in rule.on_pod_conditions or ())
        for rule in rules
    )
