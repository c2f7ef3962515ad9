"""The sockets of an HTTP session, so that all of them are closed when the session is."""

import asyncio
import contextlib
import socket
import weakref
from typing import Any

#: Turns of the event loop until all are closed; a few are enough.
_MOST_TURNS = 100


class Sockets:
    """`new` is the `socket_factory` of an aiohttp connector.

    A request that is cancelled when its TLS handshake has just ended leaves a connection that no
    session knows of, and that waits for the server's end of TLS for 30 s.
    """

    def __init__(self) -> None:
        self._made = weakref.WeakSet[socket.socket]()

    def new(self, address: tuple[Any, ...]) -> socket.socket:
        made = socket.socket(*address[:3])
        self._made.add(made)
        return made

    async def closed(self) -> None:
        """Ends those that are open, and returns when their transports have closed them."""
        for _ in range(_MOST_TURNS):
            still_open = [each for each in self._made if each.fileno() != -1]
            if not still_open:
                return
            for each in still_open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            await asyncio.sleep(0.001)
