"""What a Job declares about how long its pods run."""

from dataclasses import replace

import msgspec

from fairlead.kube.run_times import read_run_time
from fairlead.model.run_times import JOB_DEADLINE, POD_DEADLINE, RunTime


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    active_deadline_seconds: int | None = None


class _Status(msgspec.Struct, rename="camel"):
    start_time: str | None = None


class _Job(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_jobs = msgspec.json.Decoder(_Job)


def read_owner(raw: bytes) -> tuple[RunTime | None, str]:
    """What it declares, and when it started; its deadline counts from then.

    Raises msgspec.MsgspecError.
    """
    job = _jobs.decode(raw)
    deadline_s = job.spec.active_deadline_seconds
    found = read_run_time(job.metadata.labels, job.metadata.annotations, deadline_s)
    if found is not None:
        found = replace(found, source=found.source.replace(POD_DEADLINE, JOB_DEADLINE))
    return found, job.status.start_time or ""
