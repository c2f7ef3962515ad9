"""What a controller of pods, such as a Job, declares about how long they run."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from fairlead.kube.kueue_workloads import QUEUE_NAME
from fairlead.kube.run_times import read_run_time
from fairlead.model.consolidation import time_of
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.run_times import (
    DEADLINE,
    JOB_DEADLINE,
    POD_DEADLINE,
    VOLCANO,
    RunTime,
    checked_s,
    duration_s,
)


class _Owner(msgspec.Struct):
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _RunPolicy(msgspec.Struct, rename="camel"):
    active_deadline_seconds: int | None = None


class _Spec(msgspec.Struct, rename="camel"):
    active_deadline_seconds: int | None = None
    #: Of Kubeflow's jobs.
    run_policy: _RunPolicy | None = None
    #: Of Volcano's jobs.
    running_estimate: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    start_time: str | None = None


class _Job(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_jobs = msgspec.json.Decoder(_Job)


@dataclass(frozen=True, slots=True)
class OwnerSaid:
    """One controller: what it declares, and the kind and name of its own controller, if any."""

    run_time: RunTime | None
    #: When it started, which its deadline counts from; empty: unknown.
    started: str = ""
    controller: tuple[str, str] = ("", "")
    #: Its uid, if Kueue admits it.
    kueue_uid: str = ""


def read_owner(raw: bytes, kind: str = "Job") -> OwnerSaid:
    """Raises msgspec.MsgspecError."""
    job = _jobs.decode(raw)
    policy = job.spec.run_policy or _RunPolicy()
    deadlines = job.spec.active_deadline_seconds, policy.active_deadline_seconds
    deadline_s = min((each for each in deadlines if each is not None and each > 0), default=None)
    found = read_run_time(job.metadata.labels, job.metadata.annotations, deadline_s)
    if found is not None:
        source = JOB_DEADLINE if kind == "Job" else f"{kind} {DEADLINE}"
        found = replace(found, source=found.source.replace(POD_DEADLINE, source))
    if job.spec.running_estimate is not None:
        found = _with_estimate(found or RunTime(), job.spec.running_estimate)
    owners = (each for each in job.metadata.owner_references or () if each.controller)
    above = next(((each.kind, each.name) for each in owners), ("", ""))
    uid = job.metadata.uid if QUEUE_NAME in (job.metadata.labels or ()) else ""
    return OwnerSaid(found, job.status.start_time or "", above, uid)


def _with_estimate(said: RunTime, word: str) -> RunTime:
    """Volcano writes durations as Go does; an annotation counts before that."""
    if said.estimate_s is not None:
        return said
    seconds, problem = checked_s(VOLCANO, word, duration_s(word))
    if seconds is None:
        return replace(said, problem=said.problem or problem)
    source = " and ".join(each for each in (VOLCANO, said.source) if each)
    return replace(said, estimate_s=seconds, source=source)


def run_time_of_chain(owners: Sequence[OwnerSaid]) -> tuple[RunTime | None, str]:
    """What a chain of controllers declares, the nearest first; and when the bound counts from.

    The nearest estimate counts, and the bound that ends first.
    """
    times = [each.run_time for each in owners if each.run_time is not None]
    estimate = next((each for each in times if each.estimate_s is not None), None)
    ending = min((each for each in owners if _has_bound(each)), key=_end_s, default=None)
    if not times:
        return None, owners[0].started if owners else ""
    problem = next((each.problem for each in times if each.problem), "")
    bound = ending.run_time if ending and ending.run_time else RunTime()
    sources = dict.fromkeys(each.source for each in (estimate, bound) if each and each.source)
    return RunTime(
        estimate.estimate_s if estimate else None,
        bound.bound_s,
        " and ".join(sources),
        bound.enforced,
        problem,
    ), (ending or owners[0]).started


#: Later than any start.
_LATER_S = 1e11


def _has_bound(owner: OwnerSaid) -> bool:
    return owner.run_time is not None and owner.run_time.bound_s is not None


def _end_s(owner: OwnerSaid) -> tuple[bool, float]:
    """Bounds that a controller enforces first; one whose start is unknown counts from now on."""
    known = owner.run_time or RunTime()
    return not known.enforced, (time_of(owner.started) or _LATER_S) + (known.bound_s or 0.0)
