"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

Kubeconfig = Annotated[
    str | None,
    typer.Option(help="Kubeconfig file (default: KUBECONFIG, ~/.kube/config, or the pod's own)."),
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig to use.")]
SchedulerName = Annotated[
    str | None,
    typer.Option(
        envvar="SCHEDULER_NAME",
        help="Serve only pods with this schedulerName (default: gpu-scheduler and toyscheduler).",
    ),
]
ProfileName = Annotated[
    str | None,
    typer.Option(help="Built-in profile that serves the name. Any profile can serve any name."),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="Configuration file (YAML) of Fairlead or kube-scheduler."),
]
LeaseName = Annotated[str, typer.Option(help="Name of the Lease (default: fairlead).")]
LeaseNamespace = Annotated[
    str, typer.Option(help="Namespace of the Lease (default: the pod's, else kube-system).")
]
LogLevel = Annotated[str, typer.Option(envvar="LOG_LEVEL", help="debug, info, warning or error.")]
AskedScheduler = Annotated[
    str,
    typer.Option(
        envvar="FAIRLEAD_SCHEDULER",
        help="Running scheduler to query: a URL, or NAMESPACE/SERVICE[:PORT] in the cluster.",
    ),
]
ClientCa = Annotated[
    Path | None,
    typer.Option(help="Accept only clients with a certificate from these CAs (PEM file)."),
]
ClientName = Annotated[
    list[str] | None,
    typer.Option(help="Accept only certificates for this name (CN or SAN); may be repeated."),
]
Output = Annotated[str, typer.Option("--output", "-o", help="text or json.")]


def refuse_other_outputs(output: str) -> None:
    if output not in ("text", "json"):
        raise typer.BadParameter("choose text or json", param_hint="--output")
