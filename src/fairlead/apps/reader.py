"""The process that asks sources and reads their answers, so that decisions never wait for it.

`python -m fairlead.apps.reader` gets its orders on standard input and gives its news on standard
output, each as four bytes of length and a MessagePack. It ends when its input does.
"""

import asyncio
import struct
import sys
import time
from collections.abc import Mapping

import msgspec

from fairlead.apps.fast_loop import run_in_fast_loop
from fairlead.telemetry import sources
from fairlead.telemetry.sources.api import SourcePlan
from fairlead.telemetry.sources.running import News, Running

HEAD = struct.Struct(">I")


class Orders(msgspec.Struct, array_like=True, frozen=True):
    """Whom to ask. The sources are those of the first orders; nodes come and go."""

    sources: tuple[SourcePlan, ...]
    nodes: Mapping[str, str]


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


async def read_sources() -> None:
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin.buffer)
    nodes: dict[str, str] = {}
    tasks: list[asyncio.Task[None]] = []
    decoder = msgspec.msgpack.Decoder(Orders)
    while (order := await frame(orders)) is not None:
        told = decoder.decode(order)
        nodes.clear()
        nodes.update(told.nodes)
        if not tasks:
            tasks = [asyncio.create_task(_running(plan, nodes).run()) for plan in told.sources]
        for task in tasks:
            if task.done():
                task.result()  # a defect of ours: end, and let it be seen


def _running(plan: SourcePlan, nodes: Mapping[str, str]) -> Running:
    return Running(sources.make(plan), plan, lambda: nodes, _tell, time.monotonic)


def _tell(news: News) -> None:
    """Waits if the other side is slow to read: then it has enough."""
    sys.stdout.buffer.write(framed(news))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    run_in_fast_loop(read_sources)
