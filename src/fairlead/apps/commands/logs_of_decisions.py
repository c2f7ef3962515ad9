"""The command that reads decision logs: replay."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fairlead.apps.commands.options import Output, refuse_other_outputs

#: The exit status where the replay differs from the log.
DIFFERENT = 3


def replay(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="All files of one run, or a directory: the newest run in it."
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Option("--config", help="Configuration to use in place of the one in the log."),
    ] = None,
    anonymise: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Write a copy without names that repeats the same."),
    ] = None,
    pod: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE/NAME",
            help="Show what was decided about this pod: its node, what goals counted, its waits.",
        ),
    ] = "",
    output: Output = "text",
) -> None:
    """Give the events of a decision log to a fresh engine, and compare what it decides.

    Exits with status 0 if every instruction is the same, 3 at the first one that differs, and 1 if
    the log cannot be read.
    """
    from fairlead.apps.decision_log import replay_view
    from fairlead.apps.decision_log.frames import LogReader, files_in
    from fairlead.apps.decision_log.replay import replay as repeat

    refuse_other_outputs(output)
    reader = LogReader(files_in(files))
    if anonymise is not None:
        from fairlead.apps.decision_log.anonymise import anonymise as write_copy

        print(f"{write_copy(reader, anonymise, config)} words replaced in {anonymise}")
        reader = LogReader([anonymise])
    report = repeat(reader, config, pod=pod)
    replay_view.show(report, output, sys.stdout)
    raise typer.Exit(DIFFERENT if report.difference else 0)
