"""The command `fairlead`."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer
from typer.models import CommandInfo

from fairlead import __version__
from fairlead.apps.commands import inspection, logs_of_decisions, outlooks, servers, simulation
from fairlead.apps.quick_start import load_structlog
from fairlead.model.errors import FairleadError

#: The exit status of a program that SIGINT ended, in a shell.
_INTERRUPTED = 130

app = typer.Typer(
    name="fairlead",
    help="A GPU scheduler for Kubernetes that can always say why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Plain help: boxes cut long option names off on a terminal of 80 columns.
    rich_markup_mode=None,
)
app.command(short_help="Schedule pods until stopped.")(servers.run)
app.command(short_help="Answer the API server's reviews of new pods.")(servers.webhook)
app.command(short_help="Serve as an extender of kube-scheduler.")(servers.extender)
app.command(short_help="List and measure the GPUs of this node.")(servers.agent)
app.command(short_help="Show why a pod is not scheduled, node by node.")(inspection.explain)
app.command(short_help="Show which moves would let waiting pods start.")(inspection.defrag)
app.command(short_help="Show bound pods that break a rule.")(inspection.audit)
app.command(short_help="Show faults of claims and devices.")(inspection.doctor)
app.command("what-if", short_help="Show what a change of the cluster would do.")(outlooks.what_if)
app.command(short_help="Show queues and what waits in them.")(inspection.queue)
app.command(short_help="Show what nodes cost, and what could be saved.")(inspection.goals)
app.command(short_help="Compare where profiles would place the same pods.")(inspection.compare)
app.command(short_help="Show GPU usage by pod.")(inspection.top)
app.command("check-config", short_help="Check a configuration file.")(inspection.check_config)
app.command(short_help="Repeat the decisions of a log, and compare.")(logs_of_decisions.replay)
app.command(short_help="Run a simulated GPU cluster on this machine.")(simulation.up)
app.command(short_help="Run a trace of jobs in virtual time.")(simulation.sim)


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"fairlead {__version__}")
        raise typer.Exit


def main() -> None:
    """Errors of our own are one line on standard error, and exit status 1."""
    app.registered_commands = _asked(sys.argv[1:])
    for command in app.registered_commands:
        command.callback = _until_interrupted(command.callback) if command.callback else None
    try:
        app()
    except FairleadError as error:
        print(f"fairlead: {error}", file=sys.stderr)
        sys.exit(1)


def _asked(words: list[str]) -> list[CommandInfo]:
    """The command that is asked for; all if none is, for help and for what is misspelt.

    Reading the options of all of them takes longer than most commands do.
    """
    named = [each for each in app.registered_commands if words[:1] == [_name_of(each)]]
    return named or app.registered_commands


def _name_of(command: CommandInfo) -> str:
    function = command.callback
    return command.name or (function.__name__.replace("_", "-") if function else "")


def _until_interrupted(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command loads most of its code itself: a Ctrl-C meanwhile ends it without a message."""

    @wraps(command)
    def run(*args: object, **options: object) -> object:
        try:
            load_structlog()
            return command(*args, **options)
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None

    return run
