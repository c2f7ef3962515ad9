"""The embedded server in a thread of the test process."""

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairlead.sim.apiserver import EmbeddedServer

BUILD = Path(__file__).parents[2] / "controlplane" / "build.py"


@contextlib.contextmanager
def serving(kubeconfig: Path, **options: Any) -> Iterator[EmbeddedServer]:
    """Serves while the block runs; `options` are those of `EmbeddedServer.start`."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    held: dict[str, Any] = {}

    async def serve() -> None:
        held["stop"] = asyncio.Event()
        try:
            async with EmbeddedServer.start(kubeconfig_out=kubeconfig, **options) as server:
                held["server"] = server
                ready.set()
                await held["stop"].wait()
        finally:
            ready.set()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(120)
    assert "server" in held, "the server did not start"
    try:
        yield held["server"]
    finally:
        loop.call_soon_threadsafe(held["stop"].set)
        thread.join(30)
        loop.close()


def programs(*names: str) -> Path:
    """The folder of the real control plane's programs, built if they are not yet."""
    command = [sys.executable, str(BUILD), *names]
    if version := os.environ.get("FAIRLEAD_KUBERNETES"):
        command += ["--kubernetes", version]
    built = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Path(built.stdout.strip().splitlines()[-1])
