"""`python -m fairlead.sim.apiserver`: the embedded server in a process of its own."""

import argparse
import asyncio
import contextlib
import gc
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

from fairlead.sim.apiserver.server import EmbeddedServer, StartError


def main() -> int:
    options = _parse()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    # Stored objects live long: fewer, later looks for garbage cost this process less.
    gc.set_threshold(20_000, 50, 50)
    try:
        _runner()(_serve(options))
    except StartError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fairlead.sim.apiserver", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 chooses a free one")
    parser.add_argument("--kubeconfig-out", type=Path, metavar="FILE")
    parser.add_argument("--state", type=Path, metavar="FILE", help="SQLite file to go on from")
    parser.add_argument(
        "--no-controllers", action="store_true", help="store workloads, make no pods"
    )
    return parser.parse_args()


def _runner() -> Callable[[Coroutine[object, object, None]], None]:
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.run
    return asyncio.run


async def _serve(options: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    serving = EmbeddedServer.start(
        options.port, options.state, options.kubeconfig_out,
        controllers=not options.no_controllers,
    )  # fmt: skip
    async with serving as server:
        print(server.url, flush=True)
        await stopped.wait()


if __name__ == "__main__":
    sys.exit(main())
