"""`fairlead up`: a whole cluster at work on this machine, to look at and to try.

Server, nodes and workload are simulated; the scheduler is the one that `fairlead run` runs. Ends
with status 0 after Ctrl-C, SIGTERM or `--for`; with 1 when it could not start, or when nothing was
bound in a headless run.
"""

import asyncio
import signal
import sys
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from fairlead import __version__
from fairlead.apps.config.run_plan import DEFAULT_ADDRESS, RunOptions, RunPlan, plan
from fairlead.apps.explain.explanation import Explainer
from fairlead.apps.fast_loop import run_in_fast_loop
from fairlead.apps.queues.reader import QueueReader
from fairlead.apps.run.options import SchedulerOptions, planned_options
from fairlead.apps.run.run import open_decision_log
from fairlead.apps.run.scheduler import Scheduler
from fairlead.apps.serving import connections, health
from fairlead.apps.serving.access import AllowAll
from fairlead.apps.serving.details import Details
from fairlead.apps.up import logs as up_logs
from fairlead.apps.up import report as up_report
from fairlead.apps.up import workload as up_workload
from fairlead.apps.up.cluster import Ground, embedded, real
from fairlead.apps.up.dra_driver import publish
from fairlead.apps.up.kubeconfig import kubeconfig_place, record_scheduler_url
from fairlead.apps.up.learning import make_learned_place
from fairlead.apps.up.load_generator import LoadRunner
from fairlead.apps.up.watching import Watching
from fairlead.base.durations import DurationError, length_s
from fairlead.engine.engine import Engine
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.kube.leadership.presence import Presence
from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.dra.shapes import with_drivers
from fairlead.sim.kubelets import Kubelets
from fairlead.sim.machines import DEFAULT_MACHINES, Machine, machines
from fairlead.sim.workload import LoadGenerator, Workload
from fairlead.telemetry.metrics import Metrics

_SETTLE_S = 2.0
_MEASURE_EVERY_S = 2.0
_NODES_AT_ONCE = 250
_ENOUGH_S = 15.0


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What the command line said."""

    nodes: int = DEFAULT_MACHINES
    workload: Path | None = None
    speed: float = 1.0
    kubeconfig_out: Path | None = None
    port: int = 0
    headless: bool = False
    lasts: str | None = None
    real: bool = False
    state: Path | None = None
    config: Path | None = None
    teams: bool = False
    dra: bool = False


@dataclass(frozen=True, slots=True)
class UpPlan:
    """The options, checked and read."""

    options: UpOptions
    machines: list[Machine]
    workload: Workload
    lasts_s: float | None
    prepared: RunPlan

    @property
    def live(self) -> bool:
        return not self.options.headless and sys.stdout.isatty()


def prepare(options: UpOptions) -> UpPlan:
    """Finds everything that is wrong before anything starts."""
    if options.real and (options.state or options.port):
        raise ConfigError("--state and --port belong to the embedded server; leave out --real")
    try:
        lasts_s = length_s(options.lasts) if options.lasts else None
    except DurationError as error:
        raise ConfigError(f"--for: {error}") from error
    if options.teams and options.workload:
        raise ConfigError("--teams is a workload of its own; leave out --workload")
    if options.teams and options.dra:
        raise ConfigError("--teams and --dra are workloads of their own; choose one")
    workload = _workload(options)
    prepared = plan(RunOptions(config=options.config))
    there = machines(options.nodes)
    if options.dra:
        there = with_drivers(there)
    return UpPlan(options, there, workload, lasts_s, prepared)


def _workload(options: UpOptions) -> Workload:
    if options.workload:
        return up_workload.read(options.workload)
    if options.dra:
        return up_workload.dra()
    return up_workload.teams() if options.teams else up_workload.default()


def up(options: UpOptions) -> int:
    """Runs until the time is over or it is stopped; returns the exit status."""
    # Until the event loop takes over, a SIGTERM unwinds like a Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plan = prepare(options)
    watching = Watching()
    with ExitStack() as stack:
        up_logs.set_up(live=plan.live)
        kubeconfig = stack.enter_context(kubeconfig_place(options.kubeconfig_out))
        try:
            _run(plan, watching, kubeconfig, stack)
        except KeyboardInterrupt:  # before the event loop took over the signals
            return 0
        except ExceptionGroup as errors:
            raise _first(errors) from errors
    if not watching.followed:
        return 0
    up_report.summarise(watching.totals())
    for text in watching.refused_devices:
        print(f"fairlead: {text}", file=sys.stderr)
    if watching.refused_devices:
        return 1
    return 1 if options.headless and not watching.bound else 0


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    """The one to report to the user, out of what ended the parts that ran together."""
    first: Exception = errors
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return first


def _run(plan: UpPlan, watching: Watching, kubeconfig: Path, stack: ExitStack) -> None:
    if plan.options.real:
        ground = stack.enter_context(real(plan.machines, kubeconfig))
        run_in_fast_loop(lambda: _work(plan, watching, ground))
    else:
        run_in_fast_loop(lambda: _work_embedded(plan, watching, kubeconfig))


async def _work_embedded(plan: UpPlan, watching: Watching, kubeconfig: Path) -> None:
    options = plan.options
    async with embedded(
        plan.machines, kubeconfig, port=options.port, state=options.state, speed=options.speed
    ) as ground:
        await _work(plan, watching, ground)


async def _work(plan: UpPlan, watching: Watching, ground: Ground) -> None:
    up_report.announce(ground, plan.machines, queues=bool(plan.workload.queues))
    client = Client(load_access(str(ground.kubeconfig)), user_agent=f"fairlead-up/{__version__}")
    try:
        if plan.options.dra:
            await publish(client, plan.machines)
        profiles = plan.prepared.profiles
        told = await _scheduler_options(plan, client)
        scheduler = Scheduler(
            client, profiles, told, metrics=Metrics(), on_instruction=watching.note
        )
        watching.follow(scheduler.engine)
        # Pods live for seconds here, and not for days.
        scheduler.usage.every_s, scheduler.usage.enough_s = _MEASURE_EVERY_S, _ENOUGH_S
        served = await _serve(scheduler, ground)
        # KWOK has no speed: there the pods run for a shorter time.
        pod_speed = 1.0 if ground.kubelets else plan.options.speed
        load = LoadRunner(
            client, LoadGenerator(plan.workload, plan.options.speed), watching, pod_speed
        )
        async with asyncio.TaskGroup() as parts:
            asking = parts.create_task(load.run())
            others = [
                parts.create_task(each)
                for each in (
                    Presence(client, profiles).during(scheduler.run),
                    up_report.show(watching, ground, live=plan.live),
                    *([ground.kubelets.run()] if ground.kubelets else []),
                    *([_measure(scheduler, ground.kubelets)] if ground.kubelets else []),
                )
            ]
            await _until_asked(plan.lasts_s)
            asking.cancel()
            await _settle(scheduler.engine)
            for each in others:
                each.cancel()
        if ground.kubelets:
            watching.refused_devices = ground.kubelets.refused_devices
        await served.cleanup()
    finally:
        await client.close()


async def _scheduler_options(plan: UpPlan, client: Client) -> SchedulerOptions:
    decisions = open_decision_log(
        RunOptions(config=plan.options.config), plan.prepared, elects=False
    )
    place = await make_learned_place(client)
    return replace(planned_options(plan.prepared), learned_in=place, decisions=decisions)


async def _serve(scheduler: Scheduler, ground: Ground) -> connections.Port:
    """Health, metrics and usage as `fairlead run` has them, on a port that the kubeconfig names."""
    engine = scheduler.engine
    details = Details(
        AllowAll(),
        scheduler.usage,
        Explainer(engine, scheduler.pod),
        queues=QueueReader(engine),
    )
    registry = scheduler.metrics.registry
    app = health.make_app(registry, scheduler.unready_because, details=details)
    served = await connections.serve(app, DEFAULT_ADDRESS, 0)
    record_scheduler_url(ground.kubeconfig, f"http://{DEFAULT_ADDRESS}:{served.number}")
    return served


async def _measure(scheduler: Scheduler, kubelets: Kubelets) -> None:
    """Tells the scheduler what the simulated GPUs do, some nodes at a time; many, less often."""
    while True:
        told = kubelets.node_readings()
        parts = 0
        while some := tuple(islice(told, _NODES_AT_ONCE)):
            scheduler.take_readings(some)
            parts += 1
            await asyncio.sleep(0)
        await asyncio.sleep(max(1, parts) * _MEASURE_EVERY_S)


async def _until_asked(lasts_s: float | None) -> None:
    """Until the time is over, or a signal comes."""
    asked = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    with suppress(TimeoutError):
        async with asyncio.timeout(lasts_s):
            await asked.wait()


async def _settle(engine: Engine) -> None:
    """Binds under way get a moment to come to an end, so that the summary counts them."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_SETTLE_S):
            while any(held.assumed for held in engine.cluster.holdings.values()):
                await asyncio.sleep(0.02)
