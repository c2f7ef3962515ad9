"""Completion times and waits on the Muri and Philly traces, through the real engine.

python bench/jct.py DATA [--out FILE] [--policies …] [--sigma 0.5 1.0] [--at-once]

Every trace*.csv of DATA/muri runs on 8 nodes with 8 GPUs, the jobs of October and November 2017 of
DATA/philly/philly.csv on 64. No job is preempted. Policies know the run times, exactly or with
`--sigma`: times a log-normal factor, for order and planned starts. `--at-once`: all jobs of a Muri
trace are also submitted at time 0. Each run is one JSON line of OUT, and is audited: no node holds
more jobs than it has GPUs, and each job starts once, after its submission, for its run time.
"""

import argparse
import json
import math
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fairlead.apps.simulate.placements import placement_profile
from fairlead.model.run_times import ANNOTATION, RunTime
from fairlead.sim.traces.muri import read_muri
from fairlead.sim.traces.philly import read_philly
from fairlead.sim.traces.trace import SimTrace
from fairlead.sim.virtual.cluster import simulated_cluster
from fairlead.sim.virtual.figures import figures_of
from fairlead.sim.virtual.jobs import SCHEDULER, JobRecord, SimJob, gpu_amount
from fairlead.sim.virtual.policies.registry import find_policy
from jct_picture import draw

BASELINE = "ssf-easy"
SLICE = ("2017-10-01", "2017-12-01")
MOST_RATIO, MOST_WAIT_S, MOST_P99_S = 0.95, 4400.0, 45_000.0


@dataclass(frozen=True, slots=True)
class Task:
    file: Path
    policy: str
    sigma: float = 0.0
    at_once: bool = False

    @property
    def is_philly(self) -> bool:
        return self.file.parent.name == "philly"


@dataclass(frozen=True, slots=True)
class Line:
    """One JSON line of OUT. Times in seconds."""

    trace: str
    policy: str
    jct_s: float
    wait_avg_s: float
    wait_p99_s: float
    makespan_s: float
    wait_p999_s: float
    utilisation: float
    jobs: int
    #: What it knew about run times.
    knows: str
    cpu_s: float


def run(task: Task) -> Line:
    trace = _trace(task)
    policy = find_policy(task.policy)
    began = time.process_time()
    cluster = simulated_cluster({SCHEDULER: placement_profile(policy.placement)}, policy)
    cluster.add_nodes(trace.nodes)
    for job in trace.jobs:
        cluster.submit(job)
    found = cluster.run()
    cpu_s = round(time.process_time() - began, 1)
    _audit(trace, found.records)
    figures = figures_of(found)
    knows = f"run times with sigma {task.sigma:g}" if task.sigma else "exact run times"
    if policy.knows == "nothing":
        knows = "nothing"
    return Line(
        trace.name, task.policy, round(figures.jct_s, 1), round(figures.wait_avg_s, 1),
        round(figures.wait_p99_s, 1), round(figures.makespan_s, 1), round(figures.wait_p999_s, 1),
        round(figures.utilisation, 4), figures.jobs, knows, cpu_s,
    )  # fmt: skip


def _trace(task: Task) -> SimTrace:
    trace = read_philly(task.file, *SLICE) if task.is_philly else read_muri(task.file)
    jobs: Iterable[SimJob] = trace.jobs
    if task.at_once:
        jobs = (replace(job, submit_s=0.0) for job in jobs)
    if task.sigma:
        jobs = _guessed(jobs, task.sigma)
    return replace(trace, name=trace.name + "'" * task.at_once, jobs=tuple(jobs))


def _guessed(jobs: Iterable[SimJob], sigma: float) -> Iterator[SimJob]:
    """Pods declare a wrong run time."""
    chance = random.Random(1)
    for job in jobs:
        said = RunTime(job.run_s * math.exp(sigma * chance.gauss()), None, ANNOTATION)
        yield replace(job, pods=tuple(replace(pod, run_time=said) for pod in job.pods))


def _audit(trace: SimTrace, records: Mapping[str, JobRecord]) -> None:
    """From the trace and the records alone."""
    changes = defaultdict(list)
    for job in trace.jobs:
        record = records[job.name]
        assert record.start_s is not None, f"{job.name} never started"
        assert record.end_s is not None, f"{job.name} never ended"
        assert record.start_s >= job.submit_s, f"{job.name} started before it came"
        assert abs(record.end_s - record.start_s - job.run_s) < 1e-3, f"{job.name} ran otherwise"
        assert not record.evictions, f"{job.name} was evicted"
        for pod, node in zip(job.pods, record.nodes, strict=True):
            gpus = gpu_amount(pod.request)
            changes[node] += [(record.start_s, gpus), (record.end_s, -gpus)]
    gpus_of = {node.name: len(node.inventory.gpus) for node in trace.nodes if node.inventory}
    for name, found in changes.items():
        held = 0.0
        for _, gpus in sorted(found):  # at one time, ends come first
            held += gpus
            assert held <= gpus_of[name], f"{name} holds {held:g} GPUs"


def tasks(args: argparse.Namespace) -> list[Task]:
    """The longest first."""
    philly = args.data / "philly" / "philly.csv"
    files = [philly] if philly.exists() and not args.no_philly else []
    files += sorted((args.data / "muri").glob("trace*.csv"))
    if not files:
        sys.exit(f"there is neither philly/philly.csv nor a muri/trace*.csv in {args.data}")
    return [
        Task(file, policy, sigma, at_once)
        for file in files
        for sigma in (0.0, *args.sigma)
        for policy in args.policies
        for at_once in (False, *([True] if args.at_once and file is not philly else []))
    ]


def _all(todo: Sequence[Task], workers: int) -> Iterator[Line]:
    if workers == 1:
        yield from map(run, todo)
        return
    with ProcessPoolExecutor(workers) as pool:
        for done in as_completed([pool.submit(run, task) for task in todo]):
            yield done.result()


def show(line: Line) -> None:
    print(
        f"{line.trace:14} {line.policy:12} {line.knows:26} jct {line.jct_s:12,.0f}  wait "
        f"{line.wait_avg_s:12,.0f}  p99 {line.wait_p99_s:12,.0f}  makespan {line.makespan_s:12,.0f}"
        f"  ({line.cpu_s:.0f} s CPU)",
        flush=True,
    )


def summary(lines: Sequence[Line]) -> Iterator[str]:
    """Every policy beside SSF-EASY with exact run times."""
    base = {
        line.trace: line.jct_s
        for line in lines
        if line.policy == BASELINE and line.knows == "exact run times"
    }
    groups = defaultdict(list)
    for line in lines:
        if line.trace in base and line.trace.startswith("muri"):
            groups[line.policy, line.knows].append(line.jct_s / base[line.trace])
    for (policy, knows), ratios in groups.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        verdict = f" (at most {MOST_RATIO:g}: {_said(mean <= MOST_RATIO)})"
        yield (
            f"muri: {policy}, {knows}: jct {mean:.4f} of {BASELINE}, geometric mean of "
            f"{len(ratios)}{verdict if policy == 'short-first' else ''}"
        )
    for line in lines:
        if line.policy == "short-first" and line.trace == "philly" and "sigma" not in line.knows:
            fits = line.wait_avg_s <= MOST_WAIT_S and line.wait_p99_s <= MOST_P99_S
            bounds = f"wait at most {MOST_WAIT_S:,.0f}, p99 at most {MOST_P99_S:,.0f}"
            yield f"philly: short-first: {bounds}: {_said(fits)}"


def _said(fits: bool) -> str:
    return "met" if fits else "missed"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--policies", nargs="+", default=[BASELINE, "short-first"])
    parser.add_argument("--sigma", nargs="*", type=float, default=[])
    parser.add_argument("--at-once", action="store_true")
    parser.add_argument("--no-philly", action="store_true")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--picture", type=Path, help="draw the ratios")
    args = parser.parse_args()
    lines = []
    for line in _all(tasks(args), args.jobs):
        lines.append(line)
        show(line)
        if args.out:
            text = "".join(json.dumps(asdict(each)) + "\n" for each in lines)
            args.out.write_text(text)
    for each in summary(lines):
        print(each)
    if args.picture:
        args.picture.write_text(draw([asdict(each) for each in lines], BASELINE))


if __name__ == "__main__":
    main()
