"""What a job costs on spot and on-demand capacity if it has to end in time: SPOT-COST.

python bench/spot_cost.py [--data FOLDER] [--price 0.4] [--run 48h] [--slack 12h] [--jobs 40]

With a folder: each JSON file in it is a trace of availability as published with "Can't Be Late"
({"metadata": {"gap_seconds": 300}, "data": [0, 1, 1, ...]}: how many instances there were), or a
CSV file with the columns time (seconds) and available (0 or 1). Without: generated
traces, which are no measurements: up and down times are drawn from hyperexponential distributions
with a mean availability of 0.3, 0.6 and 0.9, and up times of half an hour in the median.

A job loses 10 minutes with each start. Prices are in those of an on-demand hour. Fairlead is the
engine itself: a pod with `spot-preferred` and a deadline, which waits for spot capacity while its
slack lasts, less a margin of an hour (its time limit); a pod that runs is not moved. Uniform
Progress (NSDI'24) uses on-demand capacity whenever it is behind a steady pace, and moves back to
spot capacity. The optimum knows the trace.
"""

import argparse
import csv
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairlead.apps.config.profiles import built_in
from fairlead.engine import events
from fairlead.engine.engine import Engine
from fairlead.engine.instructions import Bind
from fairlead.model.capacity_types import CapacityTerms
from fairlead.model.nodes import GPU, Node
from fairlead.model.pods import Pod, PodRequest
from fairlead.model.run_times import RunTime, duration_s
from fairlead.model.start_times import StartTimes

STEP_S = 600.0
#: Steps that a start takes before there is progress.
RESTART = 1
#: By how much the time limit of a job is longer than its run.
MARGIN_S = 3600.0
SCHEDULER = "gpu-scheduler"
SPOT, ON_DEMAND = "spot", "on-demand"
Trace = NDArray[np.bool_]


def generated(seed: int, mean: float, steps: int) -> Trace:
    """Whether spot capacity is there, by step."""
    draw, found, up = np.random.default_rng(seed), list[bool](), True
    while len(found) < steps:
        median_s = 1800.0 if up else 1800.0 * (1 - mean) / mean
        long_s = 20 * median_s
        length_s = draw.exponential(long_s if draw.random() < 0.25 else median_s)
        found += [up] * max(1, round(length_s / STEP_S))
        up = not up
    return np.array(found[:steps])


def of_file(path: Path) -> Trace:
    if path.suffix == ".json":
        said = json.loads(path.read_text())
        every_s = float(said.get("metadata", {}).get("gap_seconds", STEP_S))
        there = np.array(said["data"]) > 0
    else:
        rows = list(csv.DictReader(path.open()))
        there = np.array([row["available"] == "1" for row in rows])
        every_s = float(rows[1]["time"]) - float(rows[0]["time"])
    at = np.arange(0, len(there) * every_s, STEP_S) // every_s
    return there[at.astype(int)]


# -- policies: what each costs, and whether the job ended in time ------------------------------


def on_demand(_: Trace, run: int, __: int, ___: float) -> tuple[float, bool]:
    return float(run + RESTART), True


def uniform_progress(there: Trace, run: int, limit: int, price: float) -> tuple[float, bool]:
    """As published: behind a steady pace, or when only on-demand capacity ends in time, it is
    used; spot capacity whenever it is there, unless the job just began on on-demand capacity.
    """
    done, cost, mode, warm = 0.0, 0.0, "", 0
    for step in range(limit):
        if done >= run:
            break
        left = limit - step
        must = left <= run - done + 2 * RESTART
        behind = done < step * run / limit
        if must and mode != SPOT:
            wanted = ON_DEMAND
        elif there[step] and not (mode == ON_DEMAND and must):
            wanted = SPOT
        else:
            wanted = ON_DEMAND if must or behind else ""
        if wanted != mode:
            mode, warm = wanted, RESTART
        if mode:
            cost += price if mode == SPOT else 1.0
            done += warm <= 0
            warm -= 1
    return cost, done >= run


def optimum(there: Trace, run: int, limit: int, price: float) -> tuple[float, bool]:
    """The least cost of any policy that knows the trace: over steps left, progress and place."""
    bad = 1e9
    modes, prices = (SPOT, ON_DEMAND, ""), {SPOT: price, ON_DEMAND: 1.0, "": 0.0}
    #: By place and progress: the least cost from here on.
    ahead = {mode: np.full(run + 1, bad) for mode in modes}
    for mode in modes:
        ahead[mode][run] = 0.0
    for step in range(limit - 1, -1, -1):
        stay = {}
        for mode in modes:
            if mode == SPOT and not there[step]:
                stay[mode] = np.full(run + 1, bad)
                continue
            gain = 1 if mode else 0
            moved = np.concatenate((ahead[mode][gain:], np.full(gain, bad)))
            stay[mode] = moved + prices[mode]
        began = {mode: _begun(ahead, mode, step, there, prices, run) for mode in modes}
        new = {}
        for mode in modes:
            options = [stay[mode], *(began[other] for other in modes if other != mode)]
            new[mode] = np.minimum.reduce(options)
            new[mode][run] = 0.0
        ahead = new
    return float(ahead[""][0]), ahead[""][0] < bad


def _begun(
    ahead: dict[str, NDArray[np.float64]],
    mode: str,
    step: int,
    there: Trace,
    prices: dict[str, float],
    run: int,
) -> NDArray[np.float64]:
    """It begins there in this step, which is lost to the restart."""
    if mode == SPOT and not there[step]:
        return np.full(run + 1, 1e9)
    return ahead[mode] + prices[mode]


class World:
    """The engine with one node of each kind; a job whose node goes is created again."""

    def __init__(self) -> None:
        self.engine, self._numbers = Engine({SCHEDULER: built_in(SCHEDULER)}), count()
        self.now, self._bound = 0.0, dict[str, str]()
        self.show(ON_DEMAND)

    def show(self, kind: str) -> None:
        labels = {"karpenter.sh/capacity-type": kind}
        room = (("cpu", 10**6), ("memory", 10**12), (GPU, 1), ("pods", 100))
        self._feed(events.NodeSeen(Node(kind, kind, labels=labels, allocatable=room)))

    def hide(self, kind: str) -> None:
        self._feed(events.NodeGone(kind))

    def create(self, run_s: float, deadline_s: float) -> Pod:
        name = f"p{next(self._numbers)}"
        terms = CapacityTerms(prefers_spot=True, wait_s=1e9)
        pod = Pod(
            "default",
            name,
            name,
            scheduler=SCHEDULER,
            request=PodRequest(((GPU, 1),), capacity=terms),
            usage=((GPU, 1),),
            start=StartTimes(self.now, deadline_s=deadline_s),
            run_time=RunTime(run_s, run_s + MARGIN_S, "annotation"),
        )
        self._feed(events.PodSeen(pod))
        return pod

    def node_of(self, pod: Pod) -> str:
        self._work()
        return self._bound.get(pod.uid, "")

    def end(self, pod: Pod) -> None:
        self._feed(events.PodGone(replace(pod, node=self._bound.pop(pod.uid, ""))))

    def _work(self) -> None:
        self.engine.tend(now=self.now)
        while (attempt := self.engine.decide(now=self.now)) is not None:
            for made in attempt.instructions:
                if isinstance(made, Bind):
                    self._bound[made.pod.uid] = made.node
                    self._feed(events.BindDone(made.pod.uid))
                    self._feed(events.PodSeen(replace(made.pod, node=made.node)))

    def _feed(self, event: events.Event) -> None:
        self.engine.handle(event, now=self.now)


def fairlead(there: Trace, run: int, limit: int, price: float) -> tuple[float, bool]:
    world, done, cost, warm, was_there = World(), 0, 0.0, RESTART, False
    pod = world.create((run + RESTART) * STEP_S, limit * STEP_S)
    for step in range(limit + run):
        world.now = step * STEP_S
        is_there = step < limit and bool(there[step])
        if was_there and not is_there:
            lost = world.node_of(pod) == SPOT
            if lost:
                world.end(pod)
            world.hide(SPOT)
            if lost:
                warm = RESTART
                pod = world.create((run - done + RESTART) * STEP_S, limit * STEP_S)
        elif is_there and not was_there:
            world.show(SPOT)
        was_there = is_there
        node = world.node_of(pod)
        if node:
            cost += price if node == SPOT else 1.0
            done += warm <= 0
            warm -= 1
        if done >= run:
            return cost, step < limit
    return cost, False


Policy = Callable[[Trace, int, int, float], tuple[float, bool]]
POLICIES: dict[str, Policy] = {
    "on-demand": on_demand,
    "fairlead": fairlead,
    "uniform progress": uniform_progress,
    "optimum": optimum,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--price", type=float, default=0.4, help="of spot, beside on-demand")
    parser.add_argument("--run", default="48h")
    parser.add_argument("--slack", default="12h")
    parser.add_argument("--jobs", type=int, default=40)
    options = parser.parse_args()
    run, slack = (round((duration_s(each) or 0) / STEP_S) for each in (options.run, options.slack))
    limit = run + slack
    files = sorted(options.data.iterdir()) if options.data else []
    traces = {path.name: of_file(path) for path in files} or {
        f"generated: {mean:.0%} there": generated(round(100 * mean), mean, 50 * limit)
        for mean in (0.3, 0.6, 0.9)
    }
    print(f"run {options.run}, slack {options.slack}, spot at {options.price} of on-demand")
    print(f"{'TRACE':24} {'THERE':>6}  {'POLICY':17} {'COST':>6} {'SAVED':>6} {'IN TIME':>8}")
    for name, trace in traces.items():
        starts = np.linspace(0, len(trace) - limit - 1, options.jobs).astype(int)
        for policy, cost_of in POLICIES.items():
            found = [cost_of(trace[at : at + limit], run, limit, options.price) for at in starts]
            cost = float(np.mean([cost for cost, _ in found])) * STEP_S / 3600
            saved = 1 - cost * 3600 / STEP_S / (run + RESTART)
            in_time = float(np.mean([met for _, met in found]))
            row = f"{cost:6.1f} {saved:6.1%} {in_time:8.1%}"
            print(f"{name:24} {trace.mean():6.2f}  {policy:17} {row}", flush=True)


if __name__ == "__main__":
    main()
