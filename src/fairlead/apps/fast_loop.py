"""The event loop of every program: uvloop where there is one, few collections, an end by signal."""

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine
from typing import Any


def run_in_fast_loop(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(main())
    else:
        uvloop.run(main())


def spare_the_collector() -> None:
    """Pods and nodes live long and make no cycles.

    Looking through all of them for garbage, every few hundred new objects, would cost more than
    scheduling them.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


async def until_signalled(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
