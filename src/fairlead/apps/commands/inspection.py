"""Commands that look and change nothing: explain, doctor, queue, top, and others."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from fairlead.apps.commands.options import (
    AskedScheduler,
    ConfigFile,
    Context,
    Kubeconfig,
    Output,
    ProfileName,
    SchedulerName,
    refuse_other_outputs,
)
from fairlead.base.durations import seconds
from fairlead.model.behaviour import KNOWN, Behaviour


def explain(
    pod: Annotated[
        str,
        typer.Argument(
            metavar="POD",
            help="POD, NAMESPACE/POD, or KIND/NAME such as deploy/web, job/train or podgroup/train "
            "(a pending pod of it).",
        ),
    ],
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", help="Namespace of the pod (default: the context's)."),
    ] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerName = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    scheduler: AskedScheduler = "",
    output: Output = "text",
) -> None:
    """Show why a pod is not scheduled, node by node, from the live cluster."""
    from fairlead.apps.config.run_plan import RunOptions
    from fairlead.apps.explain import explain as explaining
    from fairlead.apps.explain import targets

    refuse_other_outputs(output)
    options = RunOptions(kubeconfig, context, scheduler_name, profile, config)
    target = targets.parse(pod, namespace)
    answer = asyncio.run(explaining.explain_pod(options, target, scheduler))
    explaining.show(answer, output, sys.stdout)


def defrag(
    plan: Annotated[
        bool, typer.Option("--plan", help="Show the plans. This command carries out none.")
    ] = False,
    unit: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="UNIT",
            help="Only for POD, NAMESPACE/POD or gang/NAME (default: all that wait with GPUs).",
        ),
    ] = "",
    namespace: Annotated[
        str,
        typer.Option("--namespace", "-n", help="Namespace of UNIT (default: the context's)."),
    ] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerName = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    output: Output = "text",
) -> None:
    """Show which moves of running pods would let waiting pods and gangs start.

    Moves are carried out by `fairlead run` where its configuration has consolidation.enabled.
    """
    from fairlead.apps.config.run_plan import RunOptions
    from fairlead.apps.defrag import defrag as defragging
    from fairlead.apps.explain import targets

    refuse_other_outputs(output)
    if not plan:
        raise typer.BadParameter(
            "add --plan; to carry plans out, run the scheduler with consolidation.enabled: true",
            param_hint="--plan",
        )
    options = RunOptions(kubeconfig, context, scheduler_name, profile, config)
    target = targets.parse(unit, namespace) if unit else None
    answers = asyncio.run(defragging.plans(options, target))
    defragging.show(answers, output, sys.stdout)


def goals(
    drain: Annotated[
        bool,
        typer.Option("--drain", help="Show nodes that could be removed, and the moves before."),
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerName = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    report: Annotated[
        bool,
        typer.Option("--report", help="Show what queues and jobs came to, by month; -o csv, too."),
    ] = False,
    month: Annotated[
        str, typer.Option(help="With --report: only this month, such as 2026-11 (UTC).")
    ] = "",
    output: Output = "text",
) -> None:
    """Show goals, what nodes cost, what queues and jobs use of it, and what could be saved."""
    from fairlead.apps.config.run_plan import RunOptions
    from fairlead.apps.goals import goals_command

    options = RunOptions(kubeconfig, context, scheduler_name, profile, config)
    if report:
        from fairlead.apps.goals import report_view

        if output != "csv":
            refuse_other_outputs(output)
        told = asyncio.run(goals_command.report(options, month))
        report_view.show_report(told, output, sys.stdout)
        return
    refuse_other_outputs(output)
    told = asyncio.run(goals_command.goals(goals_command.GoalsOptions(options, drain)))
    goals_command.show(told, output, sys.stdout)


def audit(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: ConfigFile = None,
    output: Output = "text",
) -> None:
    """Show bound pods that the rules of the configuration would not allow on their node now.

    Exits with 1 if there are any. Nothing is changed.
    """
    from fairlead.apps import audit as auditing
    from fairlead.apps.config.run_plan import RunOptions

    refuse_other_outputs(output)
    found = asyncio.run(auditing.breaches(RunOptions(kubeconfig, context, config=config)))
    auditing.show(found, output, sys.stdout)
    if found:
        raise typer.Exit(1)


def doctor(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    wait: Annotated[
        str, typer.Option(help="Look twice, this far apart; show what both looks find. 0s: once.")
    ] = "5s",
    output: Output = "text",
) -> None:
    """Show faults of resource claims and of the devices that drivers publish, with advice.

    Exits with 1 if there are any. Nothing is changed.
    """
    from fairlead.apps.config.run_plan import RunOptions
    from fairlead.apps.doctor import doctor as doctoring

    refuse_other_outputs(output)
    wait_s = _at_least("--wait", wait, 0.0)
    found = asyncio.run(doctoring.examine(RunOptions(kubeconfig, context), wait_s))
    doctoring.show(found, output, sys.stdout)
    if found:
        raise typer.Exit(1)


def queue(
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME]", help="One queue with its units (default: all queues)."),
    ] = "",
    resource: Annotated[
        str, typer.Option(help="Resource to show: gpu, cpu, memory, fairlead.dev/gpu-MODEL, ...")
    ] = "gpu",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: ConfigFile = None,
    scheduler: AskedScheduler = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until stopped.")] = False,
    every: Annotated[str, typer.Option(help="Refresh interval.")] = "2s",
    start: Annotated[
        bool,
        typer.Option("--start", help="Show when waiting units are expected to start."),
    ] = False,
    output: Output = "text",
) -> None:
    """Show queues: what is guaranteed, used, borrowed and due to each, and what waits in it."""
    from fairlead.apps.config.run_plan import RunOptions
    from fairlead.apps.queues import queue_command, starts
    from fairlead.apps.queues.amounts import full_name

    refuse_other_outputs(output)
    if start:
        if watch:
            raise typer.BadParameter("--start lists the cluster once", param_hint="--start")
        chosen = RunOptions(kubeconfig, context, config=config)
        starts.show_starts(asyncio.run(starts.queue_starts(chosen, name)), output, sys.stdout)
        return
    options = queue_command.QueueOptions(
        RunOptions(kubeconfig, context, config=config),
        name,
        full_name(resource),
        scheduler,
        output,
        watch,
        _at_least("--every", every, 1.0),
    )
    with suppress(KeyboardInterrupt):
        asyncio.run(queue_command.queue(options))


def compare(
    workload: Annotated[
        Path | None,
        typer.Option(help="Nodes and pods as Kubernetes objects (YAML; default: an example)."),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Use the live cluster and its pending pods.")
    ] = False,
    profile: Annotated[
        list[str] | None, typer.Option(help="Built-in profile; may be repeated (default: all).")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Output = "text",
) -> None:
    """Compare where profiles would place the same pods, and on which GPUs; bind nothing."""
    from fairlead.apps import compare as comparing
    from fairlead.apps.config.run_plan import RunOptions

    refuse_other_outputs(output)
    if live and workload:
        raise typer.BadParameter("choose --live or --workload", param_hint="--live")
    chosen = RunOptions(kubeconfig, context)
    scene = asyncio.run(comparing.live_scene(chosen)) if live else comparing.read_scene(workload)
    comparing.show(comparing.compare(scene, profile), output, sys.stdout)


def top(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: ConfigFile = None,
    scheduler: AskedScheduler = "",
    prometheus: Annotated[
        str, typer.Option(metavar="URL", help="Prometheus server to query for past usage.")
    ] = "",
    since: Annotated[str, typer.Option(help="How far back, with --prometheus.")] = "24h",
    by: Annotated[
        str, typer.Option(help="Rows: pods, gpus, nodes, namespaces, owners or claims.")
    ] = "pods",
    sort: Annotated[
        str, typer.Option(help="Sort by name, used, booked, wasted, idle, memory or power.")
    ] = "",
    node: Annotated[str, typer.Option(help="Only this node.")] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Only pods of this namespace.")
    ] = "",
    once: Annotated[bool, typer.Option("--once", help="Print one report and exit.")] = False,
    every: Annotated[str, typer.Option(help="Refresh interval.")] = "5s",
    output: Output = "text",
) -> None:
    """Show GPU usage, the pods that have each GPU, and the size that would be enough."""
    from fairlead.apps.config.run_plan import RunOptions
    from fairlead.apps.top import top as topping
    from fairlead.apps.top.selection import Selection

    refuse_other_outputs(output)
    every_s = _at_least("--every", every, 1.0)
    since_s = _at_least("--since", since, 60.0)
    options = topping.TopOptions(
        RunOptions(kubeconfig, context, config=config),
        Selection(by, sort, node, namespace),
        scheduler,
        output,
        once,
        every_s,
        prometheus,
        since_s,
    )
    with suppress(KeyboardInterrupt):
        asyncio.run(topping.top(options))


def _versions(wanted: str) -> tuple[Behaviour, ...]:
    """The known version of that name; all of them if none is named."""
    found = tuple(known for known in KNOWN if wanted in ("", known.name))
    if not found:
        names = ", ".join(known.name for known in KNOWN)
        raise typer.BadParameter(f"choose one of {names}", param_hint="--kubernetes")
    return found


def check_config(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    kubernetes: Annotated[
        str,
        typer.Option(metavar="X.Y", help="Version of the API server (default: any known version)."),
    ] = "",
    output: Output = "text",
) -> None:
    """Check a configuration file of Fairlead, or a KubeSchedulerConfiguration.

    Exits with status 1 if `fairlead run --config FILE` would not start with it.
    """
    from fairlead.apps.config import check_config as checking

    refuse_other_outputs(output)
    report = checking.check(file, _versions(kubernetes))
    checking.show(report, output, sys.stdout)
    raise typer.Exit(0 if report.ok else 1)


def _at_least(option: str, text: str, least_s: float) -> float:
    found = seconds(text)
    if found is None or found < least_s:
        raise typer.BadParameter(f"use a time of at least {least_s:g}s", param_hint=option)
    return found
