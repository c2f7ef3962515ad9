"""Starts of jobs by their service, with one planned start.

The first job that finds no room has a planned start: when enough running jobs have ended. Another
job starts before it if it ends by then, or if the first one still finds room at that time. This is
SSF-EASY. `StartTerms` name what the rule `short-first` does otherwise.

Jobs with the same number of GPUs come in the order of their run times. So if one of them may not
start, no later one of them may: only the first job of each number of GPUs is looked at.
"""

from bisect import insort
from dataclasses import dataclass, field

from counted_room import GpuRoom, Parts
from fairlead.model.start_terms import StartTerms


@dataclass(frozen=True, slots=True, order=True)
class WaitingJob:
    key: float
    #: Of two with the same key, the one that came first comes first.
    number: int
    run_s: float
    gpus: int
    since_s: float = field(compare=False)

    @property
    def service_s(self) -> float:
        return self.run_s * self.gpus


@dataclass(slots=True)
class _Planned:
    """The first job that waits."""

    job: WaitingJob
    start_s: float
    #: GPUs that are free then, by node.
    free: list[int]
    #: When it was first planned, and for when.
    since_s: float
    first_start_s: float
    #: Of the room, when this was planned.
    changes: int


class StartsByService:
    """It says which job is next; the caller starts it and says where."""

    def __init__(self, room: GpuRoom, terms: StartTerms) -> None:
        self.room = room
        self._terms = terms
        self._waiting: dict[int, list[WaitingJob]] = {}
        self._planned: _Planned | None = None

    def came(self, number: int, run_s: float, gpus: int, now_s: float) -> None:
        job = WaitingJob(self._terms.key(run_s, gpus), number, run_s, gpus, now_s)
        insort(self._waiting.setdefault(gpus, []), job)

    def next(self, now_s: float) -> int | None:
        """The number of a job that is to start now. It waits no longer."""
        planned: _Planned | None = None
        if not self.room.total_free:
            return None
        for job in sorted(jobs[0] for jobs in self._waiting.values() if jobs):
            place = self.room.best_fit(job.gpus)
            if place is not None and self._may_start(job, place, planned, now_s):
                self._waiting[job.gpus].pop(0)
                return job.number
            if planned is None and self._terms.has_waited(now_s - job.since_s, job.run_s):
                planned = self._plan(job, now_s)
        return None

    def start_s(self, number: int) -> float | None:
        """The planned start of a job."""
        planned = self._planned
        return planned.start_s if planned and planned.job.number == number else None

    def _plan(self, job: WaitingJob, now_s: float) -> _Planned | None:
        known = self._planned
        if known and known.job is job and known.changes == self.room.changes:
            return known
        found = self.room.first_room(job.gpus, now_s)
        if found is None:
            return None
        since_s, first_s = now_s, found[0]
        if known and known.job is job:
            since_s, first_s = known.since_s, known.first_start_s
        self._planned = _Planned(job, *found, since_s, first_s, self.room.changes)
        return self._planned

    def _may_start(
        self, job: WaitingJob, place: Parts, planned: _Planned | None, now_s: float
    ) -> bool:
        if planned is None:
            return True
        terms = self._terms
        latest_s = terms.latest_s(planned.start_s, planned.first_start_s, planned.since_s)
        if now_s + job.run_s <= latest_s:
            return True
        if not terms.may_outlast(job.service_s, self.room.total, latest_s - now_s):
            return False
        left = list(planned.free)
        for node, gpus in place:
            left[node] -= gpus
        return self.room.best_fit(planned.job.gpus, left) is not None
