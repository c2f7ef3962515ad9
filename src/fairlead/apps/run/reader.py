"""The process that asks sources and reads their answers, so that decisions never wait for it.

`python -m fairlead.apps.run.reader` gets its orders on standard input and gives its news on
standard output, each as four bytes of length and a MessagePack. It ends when its input does.
"""

import asyncio
import gc
import resource
import struct
import sys
import time
from collections.abc import Mapping

import msgspec

from fairlead.apps.fast_loop import run_in_fast_loop
from fairlead.telemetry import sources
from fairlead.telemetry.sources.alnair import Annotations
from fairlead.telemetry.sources.api import SourcePlan
from fairlead.telemetry.sources.running import News, SourceRunner

HEAD = struct.Struct(">I")


class Orders(msgspec.Struct, array_like=True, frozen=True):
    """Whom to ask. The sources are those of the first orders; nodes come and go."""

    sources: tuple[SourcePlan, ...]
    nodes: Mapping[str, str]
    #: Annotations of nodes that have changed, of those that a source reads.
    notes: Mapping[str, Mapping[str, str]]


def framed(message: Orders | News) -> bytes:
    body = msgspec.msgpack.encode(message)
    return HEAD.pack(len(body)) + body


async def frame(stream: asyncio.StreamReader) -> bytes | None:
    """The next message's bytes; None when the other side has gone."""
    try:
        (length,) = HEAD.unpack(await stream.readexactly(HEAD.size))
        return await stream.readexactly(length)
    except asyncio.IncompleteReadError:
        return None


class Reader:
    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
        self._annotations: list[Annotations] = []
        self._tasks: list[asyncio.Task[None]] = []

    def obey(self, orders: Orders) -> None:
        self._nodes.clear()
        self._nodes.update(orders.nodes)
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._start(plan).run()) for plan in orders.sources]
        for source in self._annotations:
            for node, notes in orders.notes.items():
                source.put(node, notes)
        for task in self._tasks:
            if task.done():
                task.result()  # a defect of ours: end, and let it be seen

    def _start(self, plan: SourcePlan) -> SourceRunner:
        source = sources.make(plan)
        if isinstance(source, Annotations):
            self._annotations.append(source)
        return SourceRunner(source, plan, lambda: self._nodes, _log_news, time.monotonic)


async def read_sources() -> None:
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), sys.stdin.buffer)
    reader, decoder = Reader(), msgspec.msgpack.Decoder(Orders)
    while (order := await frame(stream)) is not None:
        reader.obey(decoder.decode(order))


def _log_news(news: News) -> None:
    """Waits if the other side is slow to read: then it has enough."""
    sys.stdout.buffer.write(framed(news))
    sys.stdout.buffer.flush()


def main() -> None:
    # What is known of GPUs stays and makes no cycles: looking through it would cost for nothing.
    gc.set_threshold(50_000, 20, 100)
    # A connection is kept to every node.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    run_in_fast_loop(read_sources)


if __name__ == "__main__":
    main()
