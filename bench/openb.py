"""The FGD benchmark through the real engine: GPUs allocated, for every policy and trace.

python bench/openb.py DATA [--traces default …] [--policies GapPrice …] [--seeds 42 …] [--jobs 2]

Pods come one at a time, and one that fits nowhere is gone. Figures are percent of all GPUs that are
allocated when as many were asked for as there are (100 %), and at the end (130 %), the mean of the
seeds, beside what the paper's artifact has (USENIX ATC'23). `--departures` lets pods leave, too.
Every run is audited by bench/audit.py, which knows only the traces and the decisions.
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np

import openb_published as published
from audit import Audit
from departures import ARRIVALS, mean_allocated
from fairlead.model.prices import Prices
from fairlead.placement.prices import compute
from openb_picture import draw
from replay import Replay
from traces import Trace, a_pod, names, read

LOADS = (1.0, 1.2)
SEEDS_WITH_DEPARTURES = (21, 22)


@dataclass(frozen=True, slots=True)
class Job:
    folder: Path
    trace: str
    policy: str
    seed: int
    departures: bool = False
    arrivals: int = ARRIVALS


@dataclass(frozen=True, slots=True)
class Run:
    """One JSON line of OUT. With departures: the mean at load 1.0 and 1.2 in place of the two."""

    trace: str
    seed: int
    policy: str
    at100: float
    at130: float
    refused: int
    seconds: float
    departures: bool
    #: Percent allocated by percent arrived.
    curve: tuple[float, ...] = ()


@lru_cache(maxsize=1)
def _trace(folder: Path, name: str) -> tuple[Trace, Prices | None]:
    trace = read(folder, name)
    return trace, compute(trace.basis())


def run(job: Job) -> Run:
    started = time.perf_counter()
    found = _with_departures(job) if job.departures else _filling_up(job)
    at100, at130, refused, curve = found
    took = round(time.perf_counter() - started, 1)
    return Run(
        job.trace, job.seed, job.policy, at100, at130, refused, took, job.departures, curve
    )  # fmt: skip


def _filling_up(job: Job) -> tuple[float, float, int, tuple[float, ...]]:
    trace, prices = _trace(job.folder, job.trace)
    nodes, order = trace.order(job.seed)
    replay, audit = Replay(nodes, prices, job.policy, job.seed), Audit(job.folder, job.trace)
    arrived = np.cumsum(trace.milli[order])
    taken = np.zeros(len(order))
    for number, at in enumerate(order.tolist()):
        found = replay.offer(a_pod(trace.requests[at], number))
        if found is not None:
            audit.given(found.pod, at, found.node, found.gpus)
            taken[number] = trace.milli[at]
    allocated = np.cumsum(taken)
    assert int(allocated[-1]) == audit.allocated_milli, "the auditor counts otherwise"
    curve = _curve(arrived, allocated, trace.capacity_milli)
    refused = int(((taken == 0) & (trace.milli[order] > 0)).sum())
    return curve[min(100, len(curve) - 1)], curve[-1], refused, tuple(curve)


def _curve(arrived: np.ndarray, allocated: np.ndarray, capacity: int) -> list[float]:
    """The mean of percent allocated for each percent arrived, rounded as in the artifact."""
    percent = np.rint(100 * arrived / capacity).astype(int)
    count = np.bincount(percent)
    total = np.bincount(percent, weights=100 * allocated / capacity)
    with_gaps = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    known = np.flatnonzero(count)
    filled = np.interp(np.arange(len(count)), known, with_gaps[known])
    return [round(float(value), 4) for value in filled]


def _with_departures(job: Job) -> tuple[float, float, int, tuple[float, ...]]:
    trace, prices = _trace(job.folder, job.trace)
    means = []
    for load in LOADS:
        replay = Replay(trace.nodes, prices, job.policy, job.seed)
        audit = Audit(job.folder, job.trace)
        mean = mean_allocated(trace, replay, audit, job.seed, load, job.arrivals)
        means.append(round(mean, 4))
    return means[0], means[1], 0, ()


def _all(jobs: list[Job], workers: int) -> Iterator[Run]:
    if workers == 1:
        yield from map(run, jobs)
        return
    with ProcessPoolExecutor(workers) as pool:
        for done in as_completed([pool.submit(run, job) for job in jobs]):
            yield done.result()


def main() -> None:
    options = _options()
    runs: list[Run] = []
    jobs = _jobs(options)
    for done in _all(jobs, options.jobs):
        runs.append(done)
        if options.out:
            with options.out.open("a") as out:
                out.write(json.dumps(asdict(done)) + "\n")
        print(
            f"{len(runs)}/{len(jobs)}  {done.trace} seed {done.seed} {done.policy}: "
            f"{done.at100:.2f} {done.at130:.2f}  ({done.seconds} s)",
            file=sys.stderr,
            flush=True,
        )
    _report(runs)
    if options.picture and not options.departures:
        options.picture.write_text(draw([asdict(done) for done in runs]))


def _report(runs: list[Run]) -> None:
    found = defaultdict(list)
    for done in runs:
        found[done.trace, done.policy].append((done.at100, done.at130))
    left, right = ("load 1.0", "load 1.2") if runs[0].departures else ("at 100 %", "at 130 %")
    print(f"{'trace':12} {'policy':22} {'seeds':>5} {left:>9} {'known':>7} {right:>9} {'known':>7}")
    for (trace, policy), pairs in sorted(found.items()):
        known = None if runs[0].departures else published.figures(trace, policy)
        at100, at130 = np.mean(pairs, axis=0)
        said = [f"{figure:7.2f}" for figure in known] if known else ["      -"] * 2
        print(
            f"{trace:12} {policy:22} {len(pairs):5} {at100:9.2f} {said[0]} {at130:9.2f} {said[1]}"
        )


def _jobs(options: argparse.Namespace) -> list[Job]:
    traces = options.traces or names(options.data)
    jobs = []
    for trace in traces:
        known = SEEDS_WITH_DEPARTURES if options.departures else read(options.data, trace).seeds
        seeds = options.seeds or known[:10]
        for policy, seed in product(options.policies, seeds):
            jobs.append(
                Job(options.data, trace, policy, seed, options.departures, options.arrivals)
            )
    return jobs


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    known = list(published.POLICIES)
    parser.add_argument("data", type=Path, help="a folder in the layout of bench/traces.py")
    parser.add_argument("--traces", nargs="+", help="(all in the folder)")
    parser.add_argument("--policies", nargs="+", choices=known, default=known, metavar="POLICY")
    parser.add_argument("--seeds", type=int, nargs="+", help="(the first ten that have an order)")
    parser.add_argument("--departures", action="store_true", help="pods leave, too")
    parser.add_argument("--arrivals", type=int, default=ARRIVALS, help="with departures")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="one JSON line for each run is added here")
    parser.add_argument("--picture", type=Path, help="draw the curves here, as SVG")
    return parser.parse_args()


if __name__ == "__main__":
    main()
