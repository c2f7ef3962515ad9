"""How good forecasts of run times are: on the second half of the Philly trace, learned as it goes.

    python bench/run_times.py ../shared/data/philly/philly.csv

Each job is forecast when it is submitted, from the jobs that have ended by then; the first half of
the time only teaches. Jobs shorter than a minute are left out, as they are when learning. The
baseline expects the median of the first half of every job, and its range from the 10 % to the 90 %
quantile. One line of JSON.
"""

import argparse
import csv
import heapq
import json
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path

from fairlead.engine.run_history import SHORTEST_S, RunHistory
from fairlead.model.unit_kinds import UnitKind


@dataclass(frozen=True, slots=True)
class Job:
    """The trace has neither names nor images: jobs are alike by virtual cluster and size."""

    submitted_s: float
    ran_s: float
    kind: UnitKind


@dataclass(slots=True)
class Score:
    """Of forecasts of one method."""

    errors_s: list[float] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)
    held: int = 0

    def add(self, least_s: float, expected_s: float, most_s: float, ran_s: float) -> None:
        self.errors_s.append(abs(expected_s - ran_s))
        self.factors.append(abs(math.log(expected_s / ran_s)))
        self.held += least_s <= ran_s <= most_s

    def figures(self) -> dict[str, float]:
        jobs = len(self.errors_s)
        return {
            "mean_abs_error_s": round(sum(self.errors_s) / jobs),
            "median_abs_error_s": round(sorted(self.errors_s)[jobs // 2]),
            "mean_factor": round(math.exp(sum(self.factors) / jobs), 2),
            "held": round(self.held / jobs, 3),
        }


def jobs_of(path: Path) -> list[Job]:
    """Those of the trace that ran for a minute or longer, by submission."""
    with path.open(newline="") as file:
        rows = [*csv.DictReader(file)]
    jobs = [
        Job(
            datetime.fromisoformat(row["timestamp"]).timestamp(),
            float(row["duration"]),
            UnitKind(row["cluster"], "Job", "", 1000 * int(row["num_gpus"])),
        )
        for row in rows
    ]
    long = (job for job in jobs if job.ran_s >= SHORTEST_S)
    return sorted(long, key=lambda job: job.submitted_s)


def in_turn(jobs: Iterable[Job]) -> Iterator[tuple[Job, bool]]:
    """Submissions, and (True) ends, as they happen."""
    running: list[tuple[float, int, Job]] = []
    numbers = count()
    for job in jobs:
        while running and running[0][0] <= job.submitted_s:
            yield heapq.heappop(running)[2], True
        yield job, False
        heapq.heappush(running, (job.submitted_s + job.ran_s, next(numbers), job))


def scored(jobs: list[Job]) -> dict[str, object]:
    """Both methods, on the jobs of the second half of the time."""
    from_s = (jobs[0].submitted_s + jobs[-1].submitted_s) / 2
    before = sorted(job.ran_s for job in jobs if job.submitted_s < from_s)
    low, middle, high = (before[int(share * len(before))] for share in (0.1, 0.5, 0.9))
    history, learned, naive = RunHistory(), Score(), Score()
    began = time.process_time()
    for job, ended in in_turn(jobs):
        if ended:
            history.learn(job.kind, job.ran_s)
        elif job.submitted_s >= from_s and (made := history.forecast(job.kind)) is not None:
            learned.add(made.least_s, made.expected_s, made.most_s, job.ran_s)
            naive.add(low, middle, high, job.ran_s)
    took_s = time.process_time() - began
    return {
        "jobs": len(learned.errors_s),
        "kinds": len(history),
        "learned": learned.figures(),
        "global_median": naive.figures(),
        "us_per_job": round(1e6 * took_s / len(jobs)),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, help="philly.csv")
    print(json.dumps(scored(jobs_of(parser.parse_args().trace))))
