"""Parts of a program that are started again when they break."""

import asyncio
from collections.abc import Awaitable, Callable

from fairlead.kube.failures import Failures

#: Before a part is started again; doubled each time, and forgotten after a calm time.
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
CALM_S = 600.0


async def supervise(failures: Failures, name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Runs a part of the program, and again after a while if it breaks."""
    pause_s = FIRST_PAUSE_S
    while True:
        started_s = asyncio.get_running_loop().time()
        try:
            return await run()
        except Exception as error:
            failures.note("running", name, error)
        if asyncio.get_running_loop().time() - started_s > CALM_S:
            pause_s = FIRST_PAUSE_S
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
