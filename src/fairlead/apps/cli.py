"""The command `fairlead`."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fairlead import __version__
from fairlead.apps import logs
from fairlead.apps.run import Options, from_environment
from fairlead.apps.run import run as run_scheduler
from fairlead.model.errors import FairleadError

app = typer.Typer(
    name="fairlead",
    help="A GPU scheduler for Kubernetes that can always say why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Kubeconfig = Annotated[
    str | None,
    typer.Option(help="Kubeconfig file; else KUBECONFIG, ~/.kube/config, or the pod's own access."),
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig to use.")]
SchedulerName = Annotated[
    str | None,
    typer.Option(
        envvar="SCHEDULER_NAME",
        help="Serve only pods with this schedulerName [default: gpu-scheduler and toyscheduler].",
    ),
]
ProfileName = Annotated[
    str | None, typer.Option(help="Built-in profile that serves the name; any can serve any.")
]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="Configuration file (YAML).")]


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"fairlead {__version__}")
        raise typer.Exit


@app.command()
def run(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerName = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    address: Annotated[
        str | None, typer.Option(help="Where to serve health and metrics [default: 127.0.0.1].")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port for them; 0 takes a free one [default: 8080].")
    ] = None,
    log_level: Annotated[
        str, typer.Option(envvar="LOG_LEVEL", help="debug, info, warning or error.")
    ] = "info",
) -> None:
    """Schedule pods until told to stop."""
    logs.set_up(log_level)
    run_scheduler(Options(kubeconfig, context, scheduler_name, profile, config, address, port))


@app.command()
def explain(
    pod: Annotated[str, typer.Argument(metavar="[NAMESPACE/]POD")],
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerName = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Say why a pod is not placed, node by node, from the live cluster."""
    from fairlead.apps import explain as explaining

    if output not in ("text", "json"):
        raise typer.BadParameter("choose text or json", param_hint="--output")
    namespace, _, name = pod.rpartition("/")
    options = Options(kubeconfig, context, scheduler_name, profile, config)
    answer = asyncio.run(explaining.explain_pod(options, namespace or "default", name))
    explaining.show(answer, output, Console())


def main() -> None:
    """Errors of our own are one line on standard error, and exit status 1."""
    try:
        app()
    except FairleadError as error:
        print(f"fairlead: {error}", file=sys.stderr)
        sys.exit(1)


__all__ = ["app", "from_environment", "main"]
