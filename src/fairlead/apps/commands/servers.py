"""Commands that serve until they are stopped: run, webhook, extender, agent."""

import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from fairlead.apps.commands.options import (
    ClientCa,
    ClientName,
    ConfigFile,
    Context,
    Kubeconfig,
    LeaseName,
    LeaseNamespace,
    LogLevel,
    Output,
    ProfileName,
    SchedulerName,
    refuse_other_outputs,
)
from fairlead.apps.quick_start import load_aiohttp


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
    reservation_image: Annotated[
        str,
        typer.Option(
            help="Image with a shell for pods that reserve GPUs of NVIDIA's device plugin for "
            "shares (default: shares are not assigned there)."
        ),
    ] = "",
    reservation_namespace: Annotated[
        str, typer.Option(help="Namespace of these pods (default: the scheduler's).")
    ] = "",
    reservation_priority_class: Annotated[
        str, typer.Option(help="Priority class of these pods.")
    ] = "",
    reservation_pull_secret: Annotated[
        list[str] | None, typer.Option(help="Secret to pull their image with; may be repeated.")
    ] = None,
    reservation_grace: Annotated[
        str, typer.Option(help="How long a GPU stays reserved without shares (default: 10s).")
    ] = "",
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
    decision_log: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory for a log of all decisions, for `fairlead replay`."
        ),
    ] = None,
    decision_log_size: Annotated[
        str, typer.Option(help="Most bytes of all its files together (default: 256Mi).")
    ] = "",
) -> None:
    """Schedule pods until stopped."""
    load_aiohttp()
    from fairlead.apps import logs
    from fairlead.apps.config.election_options import ElectionOptions
    from fairlead.apps.config.reservation_options import ReservationOptions
    from fairlead.apps.config.run_plan import RunOptions
    from fairlead.apps.run.run import run as run_scheduler

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
            ReservationOptions(
                reservation_image, reservation_namespace, reservation_priority_class,
                tuple(reservation_pull_secret or ()), reservation_grace,
            ),
            decision_log, decision_log_size,
        )
    )  # fmt: skip


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
    gpu_resources: Annotated[
        str,
        typer.Option(
            help="Add requests for fairlead.dev/gpu-milli and gpu-mib: none, parts (to pods with "
            "parts of GPUs), all (also to pods with whole GPUs)."
        ),
    ] = "none",
    log_level: LogLevel = "info",
) -> None:
    """Answer admission reviews of new pods: inject variables, reject invalid requests."""
    load_aiohttp()
    from fairlead.apps import logs
    from fairlead.apps import webhook as webhooks
    from fairlead.apps.config.run_plan import RunOptions
    from fairlead.apps.serving.callers import Callers

    logs.set_up(log_level)
    plan = RunOptions(kubeconfig, context, scheduler_name, profile, config)
    webhooks.run(
        webhooks.WebhookOptions(
            plan, address, port, cert_dir, cert_lifetime, namespace, service, cert_store,
            configuration, tuple(host or ()),
            Callers.of(client_ca, client_name or (), allow_from or ()), gpu_resources,
        )
    )  # fmt: skip


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
    load_aiohttp()
    from fairlead.apps import extender as extending
    from fairlead.apps import logs
    from fairlead.apps.config.election_options import ElectionOptions
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
    unassigned: Annotated[
        str, typer.Option(help="For unassigned processes: report, or withhold their GPU.")
    ] = "withhold",
    unassigned_after: Annotated[
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
    mps: Annotated[
        str, typer.Option(help="GPUs whose shares NVIDIA MPS enforces: all, none, or UUIDs.")
    ] = "none",
    mps_processes: Annotated[
        int, typer.Option(min=1, max=48, help="Processes of one pod that may use an MPS GPU.")
    ] = 1,
    mps_dir: Annotated[
        Path, typer.Option(help="Directory of the sockets of MPS, which pods mount.")
    ] = Path("/run/fairlead/mps"),
    mps_control: Annotated[
        str, typer.Option(help="The control program of MPS.")
    ] = "nvidia-cuda-mps-control",
    resource_slices: Annotated[
        str,
        typer.Option(
            help="ResourceSlices where no DRA driver publishes them: none, whole, mig, withdraw."
        ),
    ] = "none",
    gpu_resources: Annotated[
        str,
        typer.Option(
            help="Resources of the node for autoscalers: none, parts (of GPUs), all (also "
            "nvidia.com/gpu, without a device plugin), withdraw."
        ),
    ] = "none",
    log_level: LogLevel = "info",
) -> None:
    """Publish the GPUs of this node and measure their use, until stopped."""
    load_aiohttp()
    from fairlead.apps import agent as agents
    from fairlead.apps import logs

    refuse_other_outputs(output)
    logs.set_up(log_level)
    options = agents.AgentOptions(
        node or socket.gethostname(), kubeconfig, context, address, port, interval, unassigned,
        unassigned_after, trusted_namespaces, device_plugin, nvml, proc, mig, state,
        pod_metrics, pod_resources, mps, mps_processes, mps_dir, mps_control,
        resource_slices, gpu_resources,
    )  # fmt: skip
    if once:
        agents.show(agents.once(options), output, sys.stdout)
    else:
        agents.run(options)
