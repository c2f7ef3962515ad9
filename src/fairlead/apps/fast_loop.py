"""The event loop of every program here: uvloop where there is one."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


def run_in_fast_loop(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(main())
    else:
        uvloop.run(main())
