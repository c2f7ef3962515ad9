"""A port with a limit of connections: above it, the longest idle connection is closed.

So a probe is answered however many others hold connections open: its own is the newest.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from fairlead.model.errors import ConfigError
from fairlead.model.lazy_dataclass import dataclass

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MakeProtocol = Callable[[], web.RequestHandler]


@dataclass(frozen=True, slots=True)
class PortLimits:
    connections: int = 128
    #: From the connection, or from the last answer, to the end of the next request's head.
    silent_s: float = 20.0
    #: A ServiceAccount's token has about 1 KiB, that of an identity provider up to 10 KiB.
    header_bytes: int = 16 * 1024
    headers: int = 32

    def options(self) -> dict[str, Any]:
        """For aiohttp. None of our requests has a body, so the rest of one is not waited for."""
        return {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": self.silent_s,
            "lingering_time": 0.0,
            "max_field_size": self.header_bytes,
            "max_headers": self.headers,
            "max_line_size": 4096,
            "shutdown_timeout": 1.0,
        }


class Port:
    """A port that is being served; `cleanup` ends it."""

    def __init__(self, runner: web.AppRunner, server: asyncio.Server) -> None:
        self._runner = runner
        self._server = server
        self.number = int(server.sockets[0].getsockname()[1])

    async def cleanup(self) -> None:
        self._server.close()
        await self._runner.cleanup()


async def serve(
    app: web.Application, address: str, port: int, limits: PortLimits | None = None
) -> Port:
    """Starts serving. Raises ConfigError, which says what to do, where that is not possible."""
    limits = limits or PortLimits()
    limit = ConnectionLimit(limits.connections)
    app.middlewares.append(limit.occupied)
    return await open_port(web.AppRunner(app, **limits.options()), limit.limiting, address, port)


async def open_port(
    runner: web.AppRunner,
    limiting: Callable[[web.Server], MakeProtocol],
    address: str,
    port: int,
    **options: Any,
) -> Port:
    """Listens there, with `options` for the socket; a port is chosen if it is 0."""
    await runner.setup()
    assert runner.server is not None
    try:
        server = await asyncio.get_running_loop().create_server(
            limiting(runner.server), address, port, **options
        )
    except OSError as error:
        await runner.cleanup()
        raise ConfigError(
            f"cannot serve on {address}:{port}: {error.strerror or error}; "
            "choose another --port (0 selects a free port) or --address"
        ) from error
    return Port(runner, server)


class ConnectionLimit:
    """Since when each connection has been silent, and which are being answered."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._silent_since: dict[web.RequestHandler, float] = {}
        self._answered: set[web.RequestHandler] = set()

    def __len__(self) -> int:
        """Connections that it remembers."""
        return len(self._silent_since)

    @web.middleware
    async def occupied(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        protocol = request.protocol
        self._answered.add(protocol)
        try:
            return await handler(request)
        finally:
            self._answered.discard(protocol)
            self._silent_since[protocol] = self._clock()

    def limiting(self, server: web.Server) -> MakeProtocol:
        def make() -> web.RequestHandler:
            if len(self._silent_since) >= self._most:
                self._make_room([each for each in server.connections if _is_open(each)])
            protocol = server()
            self._silent_since[protocol] = self._clock()
            return protocol

        return make

    def _make_room(self, connections: list[web.RequestHandler]) -> None:
        """Forgets those that are gone, and closes one if that was not enough."""
        lately_s, there = self._clock() - 1.0, set(connections)
        self._silent_since = {
            each: since
            for each, since in self._silent_since.items()
            if each in there or since > lately_s  # its connection may be about to open
        }
        if len(connections) >= self._most:
            silent = [each for each in connections if each not in self._answered]
            oldest = min(silent, key=lambda each: self._silent_since.get(each, 0.0), default=None)
            if oldest is not None and oldest.transport is not None:
                oldest.transport.abort()


def _is_open(protocol: web.RequestHandler) -> bool:
    return protocol.transport is not None and not protocol.transport.is_closing()
