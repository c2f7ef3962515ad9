"""How good forecasts of starts are, on the second half of a trace, beside a naive baseline.

    python bench/start_forecasts.py ../shared/data [--policies fifo fifo-easy] [--jobs 2000]

The real engine runs the trace in virtual time. Every ten minutes it forecasts the starts of the
first 32 waiting jobs, as `fairlead run` does. Run times are what jobs declare, wrong by a random
factor of sigma 0.5 (`declared`), or what the engine has learned (`learned`). The first half of the
forecasts only teaches. The baseline expects of every job the median of what was still waited for in
the first half, with a range from its 10 % to its 90 % quantile. One line of JSON for each run.
"""

import argparse
import json
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fairlead.apps.simulate.placements import placement_profile
from fairlead.engine.events import ForecastDue
from fairlead.engine.start_record import TOLERATED_S, ForecastClass, OpenForecast, digest_of
from fairlead.model.run_times import ANNOTATION, RunTime
from fairlead.sim.traces.muri import read_muri
from fairlead.sim.traces.philly import read_philly
from fairlead.sim.traces.trace import SimTrace
from fairlead.sim.virtual.cluster import VirtualCluster, simulated_cluster
from fairlead.sim.virtual.jobs import SCHEDULER, SimJob
from fairlead.sim.virtual.policies.registry import find_policy

_EVERY_S = 600.0
_DEPTH = 32
_SIGMA = 0.5
_SLICE = ("2017-10-01", "2017-12-01")

Made = dict[tuple[bytes, ForecastClass], OpenForecast]


@dataclass(slots=True)
class Score:
    """Of forecasts of one method."""

    errors_s: list[float] = field(default_factory=list)
    held: int = 0

    def add(self, earliest_s: float, expected_s: float, latest_s: float, start_s: float) -> None:
        self.errors_s.append(abs(expected_s - start_s))
        self.held += earliest_s - TOLERATED_S <= start_s <= latest_s + TOLERATED_S

    def figures(self) -> dict[str, float]:
        count = max(1, len(self.errors_s))
        return {
            "mean_abs_error_s": round(sum(self.errors_s) / count),
            "median_abs_error_s": round(sorted(self.errors_s)[count // 2]),
            "held": round(self.held / count, 3),
        }


def declared(jobs: Iterable[SimJob]) -> Iterator[SimJob]:
    chance = random.Random(1)
    for job in jobs:
        said = RunTime(job.run_s * math.exp(_SIGMA * chance.gauss()), None, ANNOTATION)
        yield replace(job, pods=tuple(replace(pod, run_time=said) for pod in job.pods))


def learned(jobs: Iterable[SimJob]) -> Iterator[SimJob]:
    """The namespace is the virtual cluster of the trace."""
    for job in jobs:
        space = job.user or "default"
        pods = (replace(pod, run_time=None, namespace=space) for pod in job.pods)
        yield replace(job, pods=tuple(pods))


def forecasts(cluster: VirtualCluster) -> Made:
    """Runs the trace, and returns each first forecast of a job in each class."""
    engine, made = cluster.engine, Made()
    next_s = 0.0
    while cluster.step():
        if cluster.now_s < next_s:
            continue
        next_s = cluster.now_s + _EVERY_S
        engine.handle(ForecastDue(_DEPTH), now=cluster.now_s)
        for digest, classes in engine.start_record.open():
            for kind, forecast in classes.items():
                made.setdefault((digest, kind), replace(forecast))
    return made


def scored(trace: SimTrace, policy_name: str) -> dict[str, object]:
    policy = find_policy(policy_name)
    cluster = simulated_cluster({SCHEDULER: placement_profile(policy.placement)}, policy)
    cluster.add_nodes(trace.nodes)
    for job in trace.jobs:
        cluster.submit(job)
    began = time.process_time()
    made = forecasts(cluster)
    starts = {digest_of(_key(job)): cluster.result.records[job.name].start_s for job in trace.jobs}
    return {
        "trace": trace.name,
        "policy": policy_name,
        "jobs": len(trace.jobs),
        **_figures(made, starts),
        "cpu_s": round(time.process_time() - began, 1),
    }


def _key(job: SimJob) -> str:
    pod = job.pods[0]
    return pod.gang.gang if pod.gang else pod.uid


def _figures(made: Made, starts: dict[bytes, float | None]) -> dict[str, object]:
    judged = [(forecast, start_s) for (digest, _), forecast in made.items()
              if (start_s := starts[digest]) is not None]  # fmt: skip
    if not judged:
        return {"forecasts": 0}
    half_s = sorted(each.made_s for each, _ in judged)[len(judged) // 2]
    left = sorted(start_s - each.made_s for each, start_s in judged if each.made_s < half_s)
    low_s, middle_s, high_s = (left[int(share * len(left))] for share in (0.1, 0.5, 0.9))
    engine, naive = Score(), Score()
    for each, start_s in judged:
        if each.made_s >= half_s:
            engine.add(each.earliest_s, each.expected_s, each.latest_s, start_s)
            at_s = each.made_s
            naive.add(at_s + low_s, at_s + middle_s, at_s + high_s, start_s)
    return {
        "forecasts": len(engine.errors_s),
        "engine": engine.figures() if engine.errors_s else {},
        "median_wait": naive.figures() if naive.errors_s else {},
    }


def traces(data: Path, most: int) -> Iterator[SimTrace]:
    for file in sorted((data / "muri").glob("trace*.csv")):
        yield read_muri(file)
    if (data / "philly" / "philly.csv").exists():
        yield read_philly(data / "philly" / "philly.csv", *_SLICE)


def main(data: Path, policies: Sequence[str], most: int) -> None:
    ways: dict[str, Callable[[Iterable[SimJob]], Iterator[SimJob]]] = {
        "declared": declared, "learned": learned
    }  # fmt: skip
    for trace in traces(data, most):
        for knows, change in ways.items():
            changed = replace(trace, jobs=tuple(change(trace.jobs[:most])))
            for policy in policies:
                print(json.dumps({"knows": knows, **scored(changed, policy)}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder with muri/ and philly/")
    parser.add_argument("--policies", nargs="+", default=["fifo", "fifo-easy"])
    parser.add_argument("--jobs", type=int, default=2000, help="of each trace, from its beginning")
    chosen = parser.parse_args()
    main(chosen.data, chosen.policies, chosen.jobs)
