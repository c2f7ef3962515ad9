"""The command `fairlead`."""

import asyncio
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from fairlead import __version__
from fairlead.apps import logs
from fairlead.apps.config.election_options import ElectionOptions
from fairlead.apps.config.run_plan import RunOptions
from fairlead.apps.run.run import run as run_scheduler
from fairlead.base.durations import seconds
from fairlead.model.behaviour import KNOWN, Behaviour
from fairlead.model.errors import FairleadError

app = typer.Typer(
    name="fairlead",
    help="A GPU scheduler for Kubernetes that can always say why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help: boxes cut long option names off on a terminal of 80 columns.
    rich_markup_mode=None,
)

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


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"fairlead {__version__}")
        raise typer.Exit


@app.command(short_help="Schedule pods until stopped.")
def run(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerName = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    address: Annotated[
        str | None, typer.Option(help="Address for health and metrics (default: 127.0.0.1).")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port; 0 selects a free port (default: 8080)."),
    ] = None,
    authenticate: Annotated[
        bool | None,
        typer.Option(
            help="Show pods only to users who may list them (default: on, unless on 127.0.0.1)."
        ),
    ] = None,
    expect_variables: Annotated[
        bool,
        typer.Option(
            "--expect-variables",
            help="Warn about GPU pods without CUDA_VISIBLE_DEVICES, which admission injects.",
        ),
    ] = False,
    log_level: LogLevel = "info",
    leader_elect: Annotated[
        bool | None,
        typer.Option(help="Schedule only while holding a Lease (default: on in a pod)."),
    ] = None,
    leader_elect_lease_duration: Annotated[
        str, typer.Option(help="How long standbys wait after the last renewal (default: 15s).")
    ] = "",
    leader_elect_renew_deadline: Annotated[
        str, typer.Option(help="How long the leader retries a renewal (default: 10s).")
    ] = "",
    leader_elect_retry_period: Annotated[
        str, typer.Option(help="How often to renew, or to check the Lease (default: 2s).")
    ] = "",
    leader_elect_resource_name: LeaseName = "",
    leader_elect_resource_namespace: LeaseNamespace = "",
) -> None:
    """Schedule pods until stopped."""
    logs.set_up(log_level)
    electing = ElectionOptions(
        leader_elect,
        leader_elect_lease_duration,
        leader_elect_renew_deadline,
        leader_elect_retry_period,
        leader_elect_resource_name,
        leader_elect_resource_namespace,
    )
    run_scheduler(
        RunOptions(
            kubeconfig, context, scheduler_name, profile, config, address, port, electing,
            authenticate, expect_variables,
        )
    )  # fmt: skip


@app.command(short_help="Answer the API server's reviews of new pods.")
def webhook(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerName = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    address: Annotated[str, typer.Option(help="Address to serve on.")] = "0.0.0.0",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to serve on; 0 selects a free port.")
    ] = 8443,
    cert_dir: Annotated[
        Path | None,
        typer.Option(help="Directory with tls.crt and tls.key (default: created by Fairlead)."),
    ] = None,
    cert_lifetime: Annotated[
        str, typer.Option(help="Validity of certificates that Fairlead creates.")
    ] = "2160h",
    namespace: Annotated[
        str | None, typer.Option(help="Namespace of Service and Secret (default: the pod's).")
    ] = None,
    service: Annotated[
        str, typer.Option(help="Service that the API server calls.")
    ] = "fairlead-webhook",
    host: Annotated[
        list[str] | None, typer.Option(help="Another name or address for the certificates.")
    ] = None,
    client_ca: ClientCa = None,
    client_name: ClientName = None,
    allow_from: Annotated[
        list[str] | None,
        typer.Option(help="Accept reviews from this address or CIDR only; may be repeated."),
    ] = None,
    cert_store: Annotated[
        str, typer.Option(help="Secret for certificates that Fairlead creates.")
    ] = "fairlead-webhook-tls",
    configuration: Annotated[
        str, typer.Option(help="Name of the webhook configurations whose caBundle is updated.")
    ] = "fairlead",
    log_level: LogLevel = "info",
) -> None:
    """Answer admission reviews of new pods: inject variables, reject invalid requests."""
    from fairlead.apps import webhook as webhooks
    from fairlead.apps.serving.callers import Callers

    logs.set_up(log_level)
    plan = RunOptions(kubeconfig, context, scheduler_name, profile, config)
    webhooks.run(
        webhooks.WebhookOptions(
            plan, address, port, cert_dir, cert_lifetime, namespace, service, cert_store,
            configuration, tuple(host or ()),
            Callers.of(client_ca, client_name or (), allow_from or ()),
        )
    )  # fmt: skip


@app.command(short_help="Serve as an extender of kube-scheduler.")
def extender(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    profile: Annotated[str, typer.Option(help="Built-in profile to use.")] = "gpu-scheduler",
    address: Annotated[str, typer.Option(help="Address to serve on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to serve on; 0 selects a free port.")
    ] = 8888,
    cert_dir: Annotated[
        Path | None,
        typer.Option(help="Directory with tls.crt and tls.key; without it, plain HTTP."),
    ] = None,
    client_ca: ClientCa = None,
    client_name: ClientName = None,
    leader_elect: Annotated[
        bool | None,
        typer.Option(help="Answer only while holding a Lease (default: on in a pod)."),
    ] = None,
    leader_elect_resource_name: LeaseName = "",
    leader_elect_resource_namespace: LeaseNamespace = "",
    log_level: LogLevel = "info",
) -> None:
    """Serve as an extender of kube-scheduler: filter, prioritize, preempt, bind."""
    from fairlead.apps import extender as extending
    from fairlead.apps.serving.callers import Callers

    logs.set_up(log_level)
    electing = ElectionOptions(
        leader_elect,
        resource_name=leader_elect_resource_name,
        resource_namespace=leader_elect_resource_namespace,
    )
    extending.run(
        extending.ExtenderOptions(
            kubeconfig,
            context,
            profile,
            address,
            port,
            cert_dir,
            Callers.of(client_ca, client_name or ()),
            electing,
        )
    )


@app.command(short_help="List and measure the GPUs of this node.")
def agent(
    node: Annotated[
        str,
        typer.Option(envvar="NODE_NAME", help="Name of this node (default: the hostname)."),
    ] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    once: Annotated[
        bool, typer.Option("--once", help="Print what would be published, and exit.")
    ] = False,
    output: Output = "text",
    address: Annotated[str, typer.Option(help="Address for health and metrics.")] = "0.0.0.0",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0 selects a free port.")
    ] = 9402,
    interval: Annotated[str, typer.Option(help="How often to read the GPUs.")] = "5s",
    strangers: Annotated[
        str, typer.Option(help="For unassigned processes: report, or withhold their GPU.")
    ] = "withhold",
    stranger_after: Annotated[
        str, typer.Option(help="How long a process may use an unassigned GPU.")
    ] = "30s",
    trusted_namespaces: Annotated[
        str, typer.Option(help="Namespaces whose pods may use any GPU.")
    ] = "kube-system,gpu-operator",
    device_plugin: Annotated[
        bool | None,
        typer.Option(help="A device plugin chooses the GPUs (default: if the node lists GPUs)."),
    ] = None,
    proc: Annotated[Path, typer.Option(help="The proc file system of the host.")] = Path("/proc"),
    nvml: Annotated[
        str, typer.Option(help="Python module to use instead of nvidia-ml-py, for tests.")
    ] = "pynvml",
    mig: Annotated[
        str, typer.Option(help="GPUs to divide into MIG slices for pods: all, none, or UUIDs.")
    ] = "none",
    pod_metrics: Annotated[
        bool, typer.Option("--pod-metrics", help="Label pods by name in metrics, not only by UID.")
    ] = False,
    state: Annotated[
        Path | None, typer.Option(help="Directory for the list of the slices that were created.")
    ] = None,
    pod_resources: Annotated[
        Path | None,
        typer.Option(help="Socket of the kubelet's PodResources API, to know GPUs of a plugin."),
    ] = None,
    log_level: LogLevel = "info",
) -> None:
    """Publish the GPUs of this node and measure their use, until stopped."""
    from fairlead.apps import agent as agents

    _refuse_other_outputs(output)
    logs.set_up(log_level)
    options = agents.AgentOptions(
        node or socket.gethostname(), kubeconfig, context, address, port, interval, strangers,
        stranger_after, trusted_namespaces, device_plugin, nvml, proc, mig, state,
        pod_metrics, pod_resources,
    )  # fmt: skip
    if once:
        agents.show(agents.once(options), output, sys.stdout)
    else:
        agents.run(options)


@app.command(short_help="Show why a pod is not scheduled, node by node.")
def explain(
    pod: Annotated[
        str,
        typer.Argument(
            metavar="POD",
            help="POD, NAMESPACE/POD, or KIND/NAME such as deploy/web (a pending pod of it).",
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
    from fairlead.apps.explain import explain as explaining
    from fairlead.apps.explain import targets

    _refuse_other_outputs(output)
    options = RunOptions(kubeconfig, context, scheduler_name, profile, config)
    target = targets.parse(pod, namespace)
    answer = asyncio.run(explaining.explain_pod(options, target, scheduler))
    explaining.show(answer, output, sys.stdout)


@app.command(short_help="Compare where profiles would place the same pods.")
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

    _refuse_other_outputs(output)
    if live and workload:
        raise typer.BadParameter("choose --live or --workload", param_hint="--live")
    chosen = RunOptions(kubeconfig, context)
    scene = asyncio.run(comparing.live_scene(chosen)) if live else comparing.read_scene(workload)
    comparing.show(comparing.compare(scene, profile), output, sys.stdout)


@app.command(short_help="Show GPU usage by pod.")
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
        str, typer.Option(help="Rows: pods, cards (GPUs), nodes, namespaces or owners.")
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
    from fairlead.apps import top as topping
    from fairlead.apps.top.selection import Selection

    _refuse_other_outputs(output)
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


@app.command("check-config", short_help="Check a configuration file.")
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

    _refuse_other_outputs(output)
    report = checking.check(file, _versions(kubernetes))
    checking.show(report, output, sys.stdout)
    raise typer.Exit(0 if report.ok else 1)


@app.command(short_help="Run a simulated GPU cluster on this machine.")
def up(
    nodes: Annotated[int, typer.Option(min=1, max=5000, help="Number of simulated machines.")] = 12,
    workload: Annotated[
        Path | None, typer.Option(help="Workload file (YAML; default: a built-in mix).")
    ] = None,
    speed: Annotated[
        float, typer.Option(min=0.01, max=1000, help="Speed factor of the workload.")
    ] = 1.0,
    kubeconfig_out: Annotated[
        Path | None,
        typer.Option(help="Path of the kubeconfig (default: ~/.cache/fairlead/up.kubeconfig)."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the API server; 0 selects a free port.")
    ] = 0,
    headless: Annotated[bool, typer.Option("--headless", help="No live view.")] = False,
    lasts: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="Exit after this time, e.g. 60s.")
    ] = None,
    real: Annotated[
        bool, typer.Option("--real", help="Use the real control plane (make control-plane).")
    ] = False,
    state: Annotated[
        Path | None, typer.Option(help="SQLite file that keeps the cluster between runs.")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Run a simulated GPU cluster on this machine, with a live view of the scheduler."""
    from fairlead.apps import up as upping

    options = upping.UpOptions(
        nodes, workload, speed, kubeconfig_out, port, headless, lasts, real, state, config
    )
    raise typer.Exit(upping.up(options))


def _at_least(option: str, text: str, least_s: float) -> float:
    found = seconds(text)
    if found is None or found < least_s:
        raise typer.BadParameter(f"use a time of at least {least_s:g}s", param_hint=option)
    return found


def _refuse_other_outputs(output: str) -> None:
    if output not in ("text", "json"):
        raise typer.BadParameter("choose text or json", param_hint="--output")


def main() -> None:
    """Errors of our own are one line on standard error, and exit status 1."""
    try:
        app()
    except FairleadError as error:
        print(f"fairlead: {error}", file=sys.stderr)
        sys.exit(1)
