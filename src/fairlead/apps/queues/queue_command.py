"""`fairlead queue`: what each team may use, uses and waits for.

Live with `--watch`; else one picture; plain text where the output is no terminal.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from fairlead.apps.config.run_plan import RunOptions, plan
from fairlead.apps.live import live_cluster
from fairlead.apps.live.running_scheduler import kubectl_options, running_scheduler
from fairlead.apps.queues.detail_view import render_queue
from fairlead.apps.queues.queue_source import QueuesOfScheduler, QueueSource
from fairlead.apps.queues.reader import QueueReader
from fairlead.apps.queues.rows import QueueDetail, QueueListing
from fairlead.apps.queues.view import render_queues
from fairlead.engine.engine import Engine
from fairlead.kube.access.kubeconfig import load_access
from fairlead.kube.http.client import Client
from fairlead.model.errors import FairleadError
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.queues import GPUS


class QueuesNotListed(FairleadError):
    """The user may not list what is needed; the text says what to do."""


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """What the command line said."""

    run: RunOptions
    name: str = ""
    resource: str = GPUS
    scheduler: str = ""
    output: str = "text"
    watch: bool = False
    every_s: float = 2.0


async def queue(options: QueueOptions) -> None:
    """One picture, or with `watch` until Ctrl-C."""
    access = load_access(options.run.kubeconfig, options.run.context)
    client = Client(access, user_agent="fairlead-queue")
    try:
        async with _source(options, client) as source:
            await _show(source, options)
    except live_cluster.Forbidden as error:
        raise QueuesNotListed(
            f"{error}; query the running scheduler: --scheduler NAMESPACE/SERVICE, such as "
            "fairlead-system/fairlead, or the URL of a forwarded port"
        ) from error
    finally:
        await client.close()


@asynccontextmanager
async def _source(options: QueueOptions, client: Client) -> AsyncIterator[QueueSource]:
    """What the user named; else the scheduler that the kubeconfig names; else a look of our own."""
    where = options.scheduler or client.access.scheduler
    if not where:
        yield _ListedQueues(client, options.run)
        return
    kubectl = kubectl_options(options.run.kubeconfig, options.run.context)
    async with running_scheduler(where, client.access.credentials, kubectl) as scheduler:
        yield QueuesOfScheduler(scheduler)


class _ListedQueues:
    """What an engine makes of a listing of the cluster. It has not waited for anything yet."""

    def __init__(self, client: Client, options: RunOptions) -> None:
        self._client = client
        self._options = options

    async def listing(self) -> QueueListing:
        return (await self._reader()).listing()

    async def detail(self, name: str) -> QueueDetail:
        return (await self._reader()).detail(name)

    async def _reader(self) -> QueueReader:
        planned = plan(self._options)
        behaviour = await live_cluster.ask_behaviour(self._client)
        planned.meet(behaviour)
        engine = Engine(planned.profiles, topology=planned.topology, reserves=True)
        engine.wall_offset_s = time.time()  # it is fed at time 0
        async for event in live_cluster.events(
            self._client,
            behaviour,
            selectors=False,
            gangs=planned.gang_dialects,
            queues=planned.queue_dialects,
        ):
            engine.handle(event, now=0.0)
        return QueueReader(engine)


async def _show(source: QueueSource, options: QueueOptions) -> None:
    if options.output == "json":
        found = msgspec.to_builtins(await _found(source, options))
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    elif options.watch and sys.stdout.isatty():
        await _show_live(source, options)
    else:
        show(await _found(source, options), options.resource, Console())


async def _found(source: QueueSource, options: QueueOptions) -> QueueListing | QueueDetail:
    return await (source.detail(options.name) if options.name else source.listing())


def _render(found: QueueListing | QueueDetail, resource: str, width: int | None) -> list[Text]:
    if isinstance(found, QueueDetail):
        return render_queue(found, resource, width)
    return render_queues(found, resource, width)


def show(found: QueueListing | QueueDetail, resource: str, console: Console) -> None:
    """One picture: as wide as the terminal, or as wide as it takes."""
    width = console.width if console.is_terminal else None
    for line in _render(found, resource, width):
        if console.is_terminal:
            console.print(line, no_wrap=True, crop=False)
        else:
            console.file.write(line.plain.rstrip() + "\n")


async def _show_live(source: QueueSource, options: QueueOptions) -> None:
    console = Console()
    with Live(console=console, screen=True, auto_refresh=False) as view:
        while True:
            found = await _found(source, options)
            lines = _render(found, options.resource, console.width)
            view.update(Group(*lines[: console.height]), refresh=True)
            await asyncio.sleep(options.every_s)
