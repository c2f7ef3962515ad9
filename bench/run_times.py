"""How good forecasts of run times are: on the second half of traces, learned as it goes.

    python bench/run_times.py ../shared/data/philly/philly.csv ../shared/data/muri/trace*.csv

Each job is forecast when it is submitted, from the jobs that have ended by then; the first half of
the time only teaches. Jobs shorter than a minute are left out, as they are when learning. Jobs of
Philly are alike by virtual cluster and GPUs, those of Muri by model (as an image) and GPUs. Two
baselines expect the same of every job: the median of the first half, which no scheduler can know
before its end, and the median of the last 1,000 jobs that have ended. Their ranges go from the 10 %
to the 90 % quantile. A job of Muri is taken to start when it is submitted. One line of JSON each.
"""

import argparse
import csv
import heapq
import json
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path

from fairlead.engine.run_history import SHORTEST_S, RunHistory
from fairlead.model.unit_kinds import UnitKind

#: Jobs that have ended last, of which the second baseline is the median.
_LATEST = 1000


@dataclass(frozen=True, slots=True)
class Job:
    """`kind`: which jobs are alike."""

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
    read = _of_philly if "timestamp" in rows[0] else _of_muri
    long = (job for job in map(read, rows) if job.ran_s >= SHORTEST_S)
    return sorted(long, key=lambda job: job.submitted_s)


def _of_philly(row: dict[str, str]) -> Job:
    kind = UnitKind(row["cluster"], "Job", "", 1000 * int(row["num_gpus"]))
    return Job(datetime.fromisoformat(row["timestamp"]).timestamp(), float(row["duration"]), kind)


def _of_muri(row: dict[str, str]) -> Job:
    """The time is that of the artifact: see `fairlead.sim.traces.muri`."""
    ran_s = float(row["iterations"]) * float(row["iteration_time"]) * 1.015 / 1000
    kind = UnitKind("muri", "Job", row["model_name"], 1000 * int(row["num_gpu"]))
    return Job(float(row["submit_time"]) / 1000, ran_s, kind)


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
    low, middle, high = _quantiles(before)
    history, learned, naive, latest = RunHistory(), Score(), Score(), Score()
    ended_s: deque[float] = deque(maxlen=_LATEST)
    began = time.process_time()
    for job, ended in in_turn(jobs):
        if ended:
            history.learn(job.kind, job.ran_s)
            ended_s.append(job.ran_s)
        elif job.submitted_s >= from_s and (made := history.forecast(job.kind)) is not None:
            learned.add(made.least_s, made.expected_s, made.most_s, job.ran_s)
            naive.add(low, middle, high, job.ran_s)
            latest.add(*_quantiles(sorted(ended_s)), job.ran_s)
    took_s = time.process_time() - began
    return {
        "jobs": len(learned.errors_s),
        "kinds": len(history),
        "learned": learned.figures(),
        "median_of_first_half": naive.figures(),
        "median_of_latest": latest.figures(),
        "us_per_job": round(1e6 * took_s / len(jobs)),
    }


def _quantiles(ordered: Sequence[float]) -> tuple[float, float, float]:
    low, middle, high = (ordered[int(share * len(ordered))] for share in (0.1, 0.5, 0.9))
    return low, middle, high


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path, nargs="+", help="philly.csv, or traces of Muri")
    for trace in parser.parse_args().traces:
        print(json.dumps({"trace": trace.stem, **scored(jobs_of(trace))}), flush=True)
