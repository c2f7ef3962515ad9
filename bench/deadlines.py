"""Which share of jobs meets its deadline, by the order of the queue: DEADLINE.

python bench/deadlines.py --data FOLDER [--jobs 4000] [--nodes 64] [--seeds 1]

The jobs are those of the Philly trace from October 2017 on (philly/philly.csv in the folder), on
nodes with 8 GPUs, in virtual time through the engine. Their deadlines are drawn, since no trace has
any: the slack of a job is its run time times a factor between 0.2 and 2, and half an hour at least.
Fewer nodes make more load. All orders but fifo and deadline know the run times.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fairlead.apps.simulate.placements import placement_profile
from fairlead.model.start_times import StartTimes
from fairlead.sim.traces.philly import read_philly
from fairlead.sim.virtual.cluster import simulated_cluster
from fairlead.sim.virtual.forecasts import SimForecasts, goal_figures
from fairlead.sim.virtual.jobs import SCHEDULER, SimJob, equal_nodes
from fairlead.sim.virtual.policies.registry import find_policy

POLICIES = ("fifo", "fifo-easy", "deadline", "ssf-easy", "slack", "slack-easy")
LEAST_SLACK_S = 1800.0
GPUS_OF_NODE = 8


def with_deadlines(jobs: Sequence[SimJob], seed: int) -> list[SimJob]:
    draw = np.random.default_rng(seed)
    factors = draw.uniform(0.2, 2.0, len(jobs))
    found = []
    for job, factor in zip(jobs, factors, strict=True):
        deadline_s = job.submit_s + job.run_s + max(LEAST_SLACK_S, factor * job.run_s)
        times = StartTimes(job.submit_s, job.submit_s, deadline_s=float(deadline_s))
        found.append(replace(job, times=times))
    return found


def met(jobs: Sequence[SimJob], policy: str, nodes: int) -> tuple[float, float, float]:
    """Shares of jobs and of GPU-hours that met their deadline, and the mean wait in seconds."""
    chosen = find_policy(policy)
    cluster = simulated_cluster({SCHEDULER: placement_profile(chosen.placement)}, chosen)
    cluster.add_nodes(equal_nodes(nodes, GPUS_OF_NODE))
    for job in jobs:
        cluster.submit(job)
    records = cluster.run().jobs
    found = goal_figures(SimForecasts(), records)
    in_time = [each for each in records if each.end_s and each.end_s <= (each.deadline_s or 0)]
    worth = sum(each.gpus * each.run_s for each in in_time)
    waits = [each.wait_s for each in records if each.wait_s is not None]
    asked = sum(each.gpus * each.run_s for each in records)
    return found.deadlines_met / found.deadlines, worth / asked, sum(waits) / len(waits)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=4000)
    parser.add_argument("--nodes", type=int, nargs="+", default=[64])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--policy", nargs="+", default=POLICIES)
    options = parser.parse_args()
    trace = read_philly(options.data / "philly" / "philly.csv", first="2017-10-01")
    jobs = trace.jobs[: options.jobs]
    span_s = jobs[-1].submit_s - jobs[0].submit_s
    asked = sum(job.service_s for job in jobs)
    print(f"{'NODES':>5} {'LOAD':>5}  {'ORDER':10} {'MET':>7} {'GPU-H MET':>9} {'MEAN WAIT S':>11}")
    for nodes in options.nodes:
        load = asked / (nodes * GPUS_OF_NODE * span_s)
        for policy in options.policy:
            found = np.mean(
                [met(with_deadlines(jobs, n), policy, nodes) for n in range(options.seeds)], axis=0
            )
            row = f"{found[0]:7.1%} {found[1]:9.1%} {found[2]:11,.0f}"
            print(f"{nodes:5} {load:5.2f}  {policy:10} {row}", flush=True)


if __name__ == "__main__":
    main()
