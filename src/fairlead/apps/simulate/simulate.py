"""Runs traces under policies, one after the other, and shows their figures side by side."""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

from fairlead.apps.config.run_plan import RunOptions
from fairlead.apps.simulate.by_claims import ClaimedTrace, by_claims
from fairlead.apps.simulate.from_cluster import runs_from_cluster
from fairlead.apps.simulate.placements import placement_profile
from fairlead.apps.simulate.report import html_report
from fairlead.apps.simulate.runs import SimRun, unit_dict
from fairlead.apps.simulate.series_files import read_series
from fairlead.apps.simulate.starts import starts_table
from fairlead.apps.simulate.table import figures_table
from fairlead.engine.events import PricesComputed
from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.placement.prices import compute
from fairlead.sim.traces.registry import read_traces
from fairlead.sim.traces.trace import SimTrace
from fairlead.sim.virtual.cluster import VirtualCluster, simulated_cluster
from fairlead.sim.virtual.figures import figures_of
from fairlead.sim.virtual.forecasts import ForecastMode, SimForecasts, goal_figures
from fairlead.sim.virtual.fragments import FragmentSamples, basis_of
from fairlead.sim.virtual.jobs import SCHEDULER, SimJob
from fairlead.sim.virtual.live_state import AssumedRunTimes
from fairlead.sim.virtual.policies.policy import SimPolicy
from fairlead.sim.virtual.policies.registry import find_policy

_SHOWN_EVERY = 256
_SAMPLES = 500
_NODES = re.compile(r"([1-9]\d{0,4})x([1-9]\d?)")


@dataclass(frozen=True, slots=True)
class SimOptions:
    traces: Sequence[str]
    policies: Sequence[str]
    data: Path | None = None
    #: A profile or score; empty: that of each policy.
    placement: str = ""
    #: How many nodes with how many GPUs, as "8x8", for files.
    nodes: str = "8x8"
    #: Only so many jobs of each trace; 0: all.
    jobs: int = 0
    as_json: bool = False
    #: Where a report is written.
    html: Path | None = None
    is_quiet: bool = False
    #: Files of prices and carbon intensity, as "low-carbon=FILE".
    series: Sequence[str] = ()
    #: What the scheduler knows of them, one run for each.
    forecasts: Sequence[str] = ()
    watts_per_gpu: float = 700.0
    #: The DRA driver that publishes the GPUs; empty: jobs ask for them without claims.
    dra: str = ""


def simulate(options: SimOptions) -> int:
    """Prints figures of every trace under every policy."""
    runs = []
    for run in runs_of(options):
        runs.append(run)
        if options.as_json:
            print(json.dumps(run.as_dict()), flush=True)
    if not options.as_json:
        print(figures_table(runs))
    write_report(runs, options.html)
    return 0


def simulate_cluster(options: SimOptions, access: RunOptions, assumed: AssumedRunTimes) -> int:
    """Prints when the waiting units of a live cluster would start under every policy."""
    runs = asyncio.run(runs_from_cluster(access, options.policies, assumed))
    if options.as_json:
        for run in runs:
            units = [unit_dict(record) for record in run.result.jobs]
            print(json.dumps({**run.as_dict(), "units": units}))
    else:
        print(figures_table(runs), starts_table(runs), sep="\n\n")
    write_report(runs, options.html)
    return 0


def write_report(runs: Sequence[SimRun], file: Path | None) -> None:
    if file is not None:
        file.write_text(html_report(runs), encoding="utf-8")


def runs_of(options: SimOptions) -> Iterator[SimRun]:
    """Every trace under every policy, as each ends."""
    policies = [find_policy(name) for name in options.policies]
    placement_profile(options.placement or policies[0].placement)
    told = list(_forecasts(options))
    chosen = list(product(_traces(options), policies, told))
    with _progress(options) as progress:
        for trace, policy, forecasts in chosen:
            yield _run(trace, policy, options, progress, forecasts)


def _forecasts(options: SimOptions) -> Iterator[SimForecasts]:
    """What the scheduler is told, in each run of a trace."""
    series = read_series(options.series)
    if options.forecasts and not series:
        raise ConfigError("--forecast needs --series, such as --series low-carbon=FILE")
    for word in options.forecasts or [ForecastMode.PERFECT]:
        if word not in list(ForecastMode):
            raise ConfigError(f"--forecast is {word!r}; choose of {', '.join(ForecastMode)}")
        yield SimForecasts(series, ForecastMode(word), options.watts_per_gpu)


def _traces(options: SimOptions) -> Iterator[SimTrace]:
    for word in options.traces:
        yield from read_traces(word, options.data, _nodes_of(options.nodes))


def _nodes_of(word: str) -> tuple[int, int]:
    found = _NODES.fullmatch(word)
    if found is None:
        raise ConfigError(f"--nodes is {word!r}; write how many nodes with how many GPUs, as 8x8")
    return int(found[1]), int(found[2])


def _progress(options: SimOptions) -> Progress:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        *columns,
        console=console,
        transient=True,
        disable=options.is_quiet or not console.is_terminal,
    )


def _run(
    trace: SimTrace,
    policy: SimPolicy,
    options: SimOptions,
    progress: Progress,
    forecasts: SimForecasts,
) -> SimRun:
    placement, jobs = options.placement or policy.placement, trace.jobs[: options.jobs or None]
    task = progress.add_task(f"{trace.name} {policy.name}", total=len(jobs))
    world = by_claims(trace, options.dra) if options.dra else ClaimedTrace(trace)
    began = time.process_time()
    cluster = simulated_cluster({SCHEDULER: placement_profile(placement)}, policy)
    cluster.engine.wall_offset_s = forecasts.begin_s
    cluster.tell(forecasts.feeds())
    _build(cluster, world)
    if (prices := compute(basis_of(trace.nodes, jobs))) is not None:
        cluster.engine.handle(PricesComputed(prices), now=0.0)
    for job in world.trace.jobs[: len(jobs)]:
        cluster.submit(job)
    _run_all(cluster, _samples(jobs), lambda done: progress.update(task, completed=done))
    cpu_s = time.process_time() - began
    progress.remove_task(task)
    figures, goals = figures_of(cluster.result), goal_figures(forecasts, cluster.result.jobs)
    told = forecasts.mode if forecasts.series else ""
    return SimRun(
        trace.name,
        policy.name,
        placement,
        policy.knows,
        figures,
        cluster.result,
        cpu_s,
        goals,
        told,
    )


def _build(cluster: VirtualCluster, world: ClaimedTrace) -> None:
    cluster.add_nodes(world.trace.nodes, world.published)
    cluster.claims.templates |= world.templates
    cluster.claims.gpu_drivers = world.gpu_drivers
    if world.slices:
        cluster.add_devices(world.classes, world.slices)


def _samples(jobs: Sequence[SimJob]) -> FragmentSamples:
    span_s = jobs[-1].submit_s - jobs[0].submit_s if jobs else 0.0
    return FragmentSamples(span_s / _SAMPLES)


def _run_all(
    cluster: VirtualCluster, samples: FragmentSamples, show: Callable[[int], None]
) -> None:
    steps, result = 0, cluster.result
    while cluster.step():
        steps += 1
        samples.look(cluster.engine.cluster, result.meter.total_gpus, cluster.now_s)
        if steps % _SHOWN_EVERY == 0:
            show(result.done)
    result.unusable = samples.mean
