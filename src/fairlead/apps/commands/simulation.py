"""Commands for simulated clusters: up, sim."""

from pathlib import Path
from typing import Annotated

import typer

from fairlead.apps.commands.options import ConfigFile, Context, Kubeconfig
from fairlead.base.durations import length_s


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
    teams: Annotated[
        bool, typer.Option("--teams", help="Three teams with queues that contend for the GPUs.")
    ] = False,
    dra: Annotated[
        bool, typer.Option("--dra", help="GPUs by DRA drivers and resource claims.")
    ] = False,
) -> None:
    """Run a simulated GPU cluster on this machine, with a live view of the scheduler."""
    from fairlead.apps import up as upping

    options = upping.UpOptions(
        nodes, workload, speed, kubeconfig_out, port, headless, lasts, real, state, config,
        teams, dra,
    )  # fmt: skip
    raise typer.Exit(upping.up(options))


def sim(
    trace: Annotated[
        list[str] | None,
        typer.Option(help="muri, philly, openb, one of their lists (muri/trace3), or a FILE."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Order of jobs; may be repeated (default: fifo, or current for a cluster)."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder that contains muri/, philly/ and openb/.")
    ] = None,
    placement: Annotated[
        str, typer.Option(help="Profile or score that chooses nodes (default: as the policy says).")
    ] = "",
    nodes: Annotated[str, typer.Option(help="Nodes and GPUs of each, for a FILE.")] = "8x8",
    jobs: Annotated[
        int, typer.Option(min=0, help="Only the first so many jobs of each trace; 0: all.")
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON line for each trace and policy.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a report with plots to this file.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    series: Annotated[
        list[str] | None,
        typer.Option(help="What energy cost or emitted: cheap=FILE, low-carbon=FILE."),
    ] = None,
    forecast: Annotated[
        list[str] | None,
        typer.Option(
            help="What the scheduler knows of it: none, yesterday, week, perfect (default)."
        ),
    ] = None,
    watts_per_gpu: Annotated[
        float, typer.Option(min=1, max=100_000, help="Watts of a GPU with all around it.")
    ] = 700.0,
    dra: Annotated[
        str,
        typer.Option(help="GPUs by a DRA driver, jobs by resource claims: whole, mig or example."),
    ] = "",
    from_cluster: Annotated[
        bool,
        typer.Option("--from-cluster", help="Begin with the live cluster: when does what start?"),
    ] = False,
    unknown: Annotated[
        str, typer.Option(help="Run time of pods that declare none, e.g. 1h (default: for ever).")
    ] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: ConfigFile = None,
) -> None:
    """Run a trace of jobs, or what waits in a cluster, through the scheduler in virtual time."""
    from fairlead.apps import simulate
    from fairlead.apps.config.run_plan import RunOptions
    from fairlead.sim.virtual.live_state import AssumedRunTimes

    if from_cluster == bool(trace):
        raise typer.BadParameter("give --trace or --from-cluster", param_hint="--trace")
    if from_cluster and dra:
        raise typer.BadParameter("a cluster has drivers of its own", param_hint="--dra")
    usual = "current" if from_cluster else "fifo"
    options = simulate.SimOptions(
        trace or [], policy or [usual], data, placement, nodes, jobs, as_json, html, quiet,
        series or [], forecast or [], watts_per_gpu, dra,
    )  # fmt: skip
    if from_cluster:
        run_s = length_s(unknown) if unknown else None
        access = RunOptions(kubeconfig, context, config=config)
        assumed = AssumedRunTimes(run_s, run_s)
        raise typer.Exit(simulate.simulate_cluster(options, access, assumed))
    raise typer.Exit(simulate.simulate(options))
