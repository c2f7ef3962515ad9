"""Jobs: pods until enough of them have succeeded, with or without an index each."""

from typing import Any

from fairlead.sim.apiserver.clock import now_text, seconds_since
from fairlead.sim.apiserver.controllers import podmaking as pods
from fairlead.sim.apiserver.controllers.loop import Controller

Object = dict[str, Any]
INDEX = "batch.kubernetes.io/job-completion-index"


class JobController(Controller):
    resource = "jobs.batch"

    async def sync(self, key: str) -> None:
        job = self.api.find(self.resource, key)
        if job is None or job["metadata"].get("deletionTimestamp"):
            return
        if _is_finished(job):
            await self._expire(job, key)
            return
        counts = JobCounts(job, self.owners.pods(job["metadata"]["uid"]))
        verdict = self._verdict(job, counts, key)
        if verdict or job["spec"].get("suspend"):
            await self._stop(job, counts)
        else:
            await self._level(job, counts)
        counts = JobCounts(job, self.owners.pods(job["metadata"]["uid"]))
        await pods.set_status(self.api, self.resource, job, counts.status(verdict))

    def _verdict(self, job: Object, counts: "JobCounts", key: str) -> list[tuple[str, str, str]]:
        """Conditions that end the job; none while it goes on."""
        spec = job["spec"]
        if counts.is_complete():
            why = ("CompletionsReached", "Reached expected number of succeeded pods")
            return [("SuccessCriteriaMet", *why), ("Complete", *why)]
        if counts.failed > spec.get("backoffLimit", 6):
            why = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
            return [("FailureTarget", *why), ("Failed", *why)]
        deadline, begun = spec.get("activeDeadlineSeconds"), job.get("status", {}).get("startTime")
        if deadline and begun:
            left = deadline - (seconds_since(begun) or 0)
            if left <= 0:
                why = ("DeadlineExceeded", "Job was active longer than specified deadline")
                return [("FailureTarget", *why), ("Failed", *why)]
            self.later(key, left)
        return []

    async def _stop(self, job: Object, counts: "JobCounts") -> None:
        for pod in counts.active:
            metadata = pod["metadata"]
            await pods.remove(self.api, "pods", metadata["namespace"], metadata["name"])

    async def _level(self, job: Object, counts: "JobCounts") -> None:
        extra = len(counts.active) - counts.wanted_active()
        for pod in pods.least_needed(counts.active)[: max(extra, 0)]:
            await pods.remove(
                self.api, "pods", pod["metadata"]["namespace"], pod["metadata"]["name"]
            )
        for index in counts.missing():
            await self._make(job, index)

    async def _make(self, job: Object, index: int | None) -> None:
        metadata = job["metadata"]
        pod = pods.pod_from(job["spec"]["template"], job, "batch/v1", "Job")
        if index is None:
            pod["metadata"]["generateName"] = f"{metadata['name']}-"
        else:
            _number(pod, metadata["name"], index)
        await pods.make(self.api, "pods", metadata["namespace"], pod)

    async def _expire(self, job: Object, key: str) -> None:
        kept_s = job["spec"].get("ttlSecondsAfterFinished")
        if kept_s is None:
            return
        left = kept_s - (seconds_since(_finished_at(job)) or 0)
        if left > 0:
            self.later(key, left)
            return
        metadata = job["metadata"]
        await pods.remove(self.api, self.resource, metadata["namespace"], metadata["name"])


def _number(pod: Object, job_name: str, index: int) -> None:
    metadata = pod["metadata"]
    metadata["generateName"] = f"{job_name}-{index}-"
    metadata.setdefault("labels", {})[INDEX] = str(index)
    metadata.setdefault("annotations", {})[INDEX] = str(index)
    pod["spec"].setdefault("hostname", f"{job_name}-{index}")
    field = {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": field}}
    for kind in ("initContainers", "containers"):
        for container in pod["spec"].get(kind) or []:
            if not any(each.get("name") == variable["name"] for each in container.get("env", [])):
                container.setdefault("env", []).append(variable)


def _is_finished(job: Object) -> bool:
    conditions = job.get("status", {}).get("conditions") or []
    return any(
        each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions
    )


def _finished_at(job: Object) -> str:
    ends = [
        each["lastTransitionTime"]
        for each in job["status"]["conditions"]
        if each["type"] in ("Complete", "Failed")
    ]
    return str(ends[0])


class JobCounts:
    """How far a job has come. What has succeeded stays counted when its pod is deleted."""

    def __init__(self, job: Object, owned: list[Object]) -> None:
        self._job, self._spec, self._old = job, job["spec"], job.get("status") or {}
        self.indexed = self._spec.get("completionMode") == "Indexed"
        self.active = [pod for pod in owned if pods.is_active(pod)]
        self._ended = [pod for pod in owned if not pods.is_active(pod)]
        self._done = self._done_indexes()
        won = sum(_phase(pod) == "Succeeded" for pod in owned)
        counted = max(won, self._old.get("succeeded", 0))
        self.succeeded = len(self._done) if self.indexed else counted
        self.failed = max(sum(_phase(pod) == "Failed" for pod in owned), self._old.get("failed", 0))

    def _done_indexes(self) -> set[int]:
        if not self.indexed:
            return set()
        done = _read_ranges(self._old.get("completedIndexes", ""))
        return done | {_index(pod) for pod in self._ended if _phase(pod) == "Succeeded"}

    def is_complete(self) -> bool:
        completions = self._spec.get("completions")
        if completions is None:
            return self.succeeded > 0 and not self.active
        return bool(self.succeeded >= completions)

    def wanted_active(self) -> int:
        parallel: int = self._spec.get("parallelism", 1)
        completions = self._spec.get("completions")
        if completions is None:
            return parallel if not self.succeeded else len(self.active)
        return int(min(parallel, completions - self.succeeded))

    def missing(self) -> list[int | None]:
        """One entry for each pod to make: its index, or None where there are none."""
        count = max(self.wanted_active() - len(self.active), 0)
        if not self.indexed:
            return [None] * count
        taken = self._done | {_index(pod) for pod in self.active}
        free = (index for index in range(self._spec["completions"]) if index not in taken)
        return [index for index, _ in zip(free, range(count), strict=False)]

    def status(self, verdict: list[tuple[str, str, str]]) -> Object:
        moment = now_text()
        status: Object = {
            "startTime": self._old.get("startTime") or moment, "terminating": 0,
            "uncountedTerminatedPods": {}, "ready": sum(pods.is_ready(pod) for pod in self.active),
        }  # fmt: skip
        counts = {"active": len(self.active), "succeeded": self.succeeded, "failed": self.failed}
        status |= {name: count for name, count in counts.items() if count}
        if self._done:
            status["completedIndexes"] = _write_ranges(self._done)
        conditions = _suspension(self._job, moment) + [
            _condition(type_, reason, message, moment) for type_, reason, message in verdict
        ]
        if conditions:
            status["conditions"] = conditions
        if any(type_ == "Complete" for type_, _, _ in verdict):
            status["completionTime"] = moment
        if self._spec.get("suspend"):
            status.pop("startTime")
        return status


def _suspension(job: Object, moment: str) -> list[Object]:
    known = [
        each
        for each in job.get("status", {}).get("conditions") or []
        if each["type"] == "Suspended"
    ]
    suspended = bool(job["spec"].get("suspend"))
    if known and (known[0]["status"] == "True") == suspended:
        return known
    if suspended:
        return [_condition("Suspended", "JobSuspended", "Job suspended", moment)]
    return (
        [{**_condition("Suspended", "JobResumed", "Job resumed", moment), "status": "False"}]
        if known
        else []
    )


def _condition(type_: str, reason: str, message: str, moment: str) -> Object:
    return {
        "type": type_, "status": "True", "lastProbeTime": moment, "lastTransitionTime": moment,
        "reason": reason, "message": message,
    }  # fmt: skip


def _phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", ""))


def _index(pod: Object) -> int:
    return int(pod["metadata"].get("annotations", {}).get(INDEX, -1))


def _read_ranges(text: str) -> set[int]:
    found: set[int] = set()
    for part in (part for part in text.split(",") if part):
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    return found


def _write_ranges(numbers: set[int]) -> str:
    """`0,2-4`: as the status shows completed indexes."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(_run(low, high) for low, high in runs)


def _run(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low},{high}" if high == low + 1 else f"{low}-{high}"
