"""Commands about the future: what-if."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from fairlead.apps.commands.options import (
    ConfigFile,
    Context,
    Kubeconfig,
    Output,
    SchedulerName,
    refuse_other_outputs,
)
from fairlead.base.durations import seconds

#: The exit status where what was asked about does not start within the time looked at.
DOES_NOT_START = 3


def what_if(
    manifest: Annotated[
        Path | None,
        typer.Option(
            "--filename",
            "-f",
            help="Manifests of a job: Pods, Jobs, JobSets, Deployments, PodGroups, ... (YAML).",
        ),
    ] = None,
    add_nodes: Annotated[int, typer.Option(help="Add so many nodes.")] = 0,
    like: Annotated[
        str,
        typer.Option(metavar="NODE", help="Of the kind of this node, or of this instance type."),
    ] = "",
    without_node: Annotated[
        list[str] | None, typer.Option(help="Remove this node; may be repeated.")
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=KEY=N,...",
            help="Change weight, limit, guaranteed (GPUs) or priority of a queue.",
        ),
    ] = None,
    priority: Annotated[
        list[str] | None,
        typer.Option(metavar="POD=N", help="Change the priority of a pod; may be repeated."),
    ] = None,
    profile: Annotated[str, typer.Option(help="Place all pods by this built-in profile.")] = "",
    backfill: Annotated[
        str, typer.Option(help="Plan starts by this mode: none, easy, conservative or short-first.")
    ] = "",
    within: Annotated[str, typer.Option(help="How far to look ahead.")] = "24h",
    unknown: Annotated[
        str, typer.Option(help="Run time of pods of which none is known (default: for ever).")
    ] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Show all waiting units, not only what changes.")
    ] = False,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace (default: the context's).")
    ] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerName = None,
    config: ConfigFile = None,
    output: Output = "text",
) -> None:
    """Show what would change in the live cluster: who starts when and where, and who loses.

    Nothing is written. Exits with status 3 if the manifests would not start within the time.
    """
    from fairlead.apps.config.run_plan import RunOptions
    from fairlead.apps.what_if import what_if as asking
    from fairlead.apps.what_if import what_if_view
    from fairlead.apps.what_if.changes import Changes
    from fairlead.apps.what_if.outlook import Horizon

    refuse_other_outputs(output)
    if bool(add_nodes) != bool(like):
        raise typer.BadParameter("--add-nodes and --like belong together", param_hint="--like")
    changes = Changes(
        add_nodes, like, tuple(without_node or ()), tuple(queue or ()), tuple(priority or ())
    )
    horizon = Horizon(_time("--within", within), _time("--unknown", unknown) if unknown else None)
    options = asking.WhatIfOptions(
        RunOptions(kubeconfig, context, scheduler_name, config=config),
        manifest, changes, profile, backfill, namespace, horizon,
    )  # fmt: skip
    answer = asyncio.run(asking.what_if(options))
    what_if_view.show(answer, output, sys.stdout, everything=everything)
    raise typer.Exit(0 if answer.starts else DOES_NOT_START)


def _time(option: str, text: str) -> float:
    found = seconds(text)
    if found is None or not 0 < found <= 366 * 86400:
        raise typer.BadParameter("use a time such as 90m or 24h", param_hint=option)
    return found
