"""The command: live on a terminal; one picture with `--once`; plain text elsewhere."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any, TextIO

import msgspec
from rich.console import Console, ConsoleDimensions, Group
from rich.live import Live
from rich.text import Text

from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.apps.live.running_scheduler import kubectl_options, running_scheduler
from fairlead.apps.top.claim_rows import claim_lines, claim_rows
from fairlead.apps.top.cluster_listing import FromSources
from fairlead.apps.top.history import FromPrometheus
from fairlead.apps.top.report_source import FromScheduler, ReportSource
from fairlead.apps.top.selection import Selection, narrowed, select_rows
from fairlead.apps.top.view import render_usage
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.report import UsageReport, total
from fairlead.telemetry.sources import make


@dataclass(frozen=True, slots=True)
class TopOptions:
    """What the command line said."""

    run: RunOptions
    selection: Selection
    scheduler: str = ""
    output: str = "text"
    once: bool = False
    every_s: float = 5.0
    prometheus: str = ""
    since_s: float = 86400.0


async def top(options: TopOptions) -> None:
    """Until Ctrl-C if it is live; else one picture."""
    access = load_access(options.run.kubeconfig, options.run.context)
    client = Client(access, user_agent="fairlead-top")
    try:
        if options.selection.by == "claims":
            await _show_claims(client, options)
            return
        async with _source(options, client) as source:
            await _show(source, options)
    finally:
        await client.close()


async def _show_claims(client: Client, options: TopOptions) -> None:
    """Listed from the API server: a scheduler knows no more about them."""

    async def lines(width: int | None) -> list[Text]:
        return claim_lines(await claim_rows(client, options.selection), width)

    if options.output == "json":
        rows = await claim_rows(client, options.selection)
        sys.stdout.write(json.dumps({"claims": [asdict(row) for row in rows]}, indent=2) + "\n")
    elif options.once or not sys.stdout.isatty():
        console = Console()
        _write(await lines(console.width if console.is_terminal else None), console)
    else:
        await _refresh(lambda size: lines(size.width), options.every_s)


async def _show(source: ReportSource, options: TopOptions) -> None:
    if options.output == "json":
        _write_json(await source.report(), options.selection, sys.stdout)
    elif options.once or not sys.stdout.isatty():
        show(await source.report(), options.selection, Console())
    else:
        await _show_live(source, options)


@asynccontextmanager
async def _source(options: TopOptions, client: Client) -> AsyncIterator[ReportSource]:
    """What the user named; else the scheduler that the kubeconfig names; else a look of our own."""
    if options.prometheus:
        yield FromPrometheus(client, options.prometheus, options.since_s)
        return
    where = options.scheduler or ("" if options.run.config else client.access.scheduler)
    if not where:
        yield FromSources(client, [make(each) for each in plan(options.run).sources])
        return
    kubectl = kubectl_options(options.run.kubeconfig, options.run.context)
    async with running_scheduler(where, client.access.credentials, kubectl) as scheduler:
        yield FromScheduler(scheduler, options.selection.namespace)


def show(report: UsageReport, selection: Selection, console: Console) -> None:
    """One picture: as wide as the terminal, or as wide as it takes."""
    seen = narrowed(report, selection)
    width = console.width if console.is_terminal else None
    _write(render_usage(seen, select_rows(seen, selection), width, None), console)


def _write(lines: Sequence[Text], console: Console) -> None:
    for line in lines:
        if console.is_terminal:
            console.print(line, no_wrap=True, crop=False)
        else:
            console.file.write(line.plain.rstrip() + "\n")


async def _show_live(source: ReportSource, options: TopOptions) -> None:
    async def lines(size: ConsoleDimensions) -> list[Text]:
        seen = narrowed(await source.report(), options.selection)
        return render_usage(seen, select_rows(seen, options.selection), *size)

    await _refresh(lines, options.every_s)


async def _refresh(
    lines: Callable[[ConsoleDimensions], Awaitable[list[Text]]], every_s: float
) -> None:
    """Until Ctrl-C."""
    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as view:
        while True:
            view.update(Group(*await lines(console.size)), refresh=True)
            await asyncio.sleep(every_s)


def as_data(report: UsageReport, selection: Selection) -> dict[str, Any]:
    """What `-o json` prints: sums over all that the filters let through, and the rows."""
    seen = narrowed(report, selection)
    chosen = select_rows(seen, selection)
    rows: list[Any] = msgspec.to_builtins(list(chosen.rows))
    totals: dict[str, Any] = msgspec.to_builtins(total(seen.pods, seen.held))
    totals |= {"name": "total", "gpus": len(seen.gpus)}
    return {
        "sinceS": round(seen.since_s, 1),
        "notes": seen.notes,
        "total": totals,
        selection.by: rows,
    }


def _write_json(report: UsageReport, selection: Selection, out: TextIO) -> None:
    out.write(json.dumps(as_data(report, selection), indent=2) + "\n")
