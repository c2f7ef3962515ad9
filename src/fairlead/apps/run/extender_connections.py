"""Connections to HTTP extenders that end where an answer is mostly not its body."""

from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

#: What may be sent beside the body, and as much again as the body: headers, interim answers, the
#: frames of chunks. To read so much takes some milliseconds, of each connection in each turn.
_BESIDE = 16 * 2**10
_PIECE = 4 * 2**10


class ExtenderConnector(aiohttp.TCPConnector):
    """Create it inside the event loop."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        made: partial[Any] = partial(_BoundedHandler, loop=self._loop)
        self._factory = made


class _BoundedHandler(ResponseHandler):
    _raw = 0

    def set_response_params(self, **params: Any) -> None:
        self._raw = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """In pieces: the parser goes through all that it is given before it can be stopped."""
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            self._raw += len(piece)
            super().data_received(piece)
            if self._raw > _BESIDE + 2 * self._of_body:
                if self.transport is not None:
                    self.transport.abort()  # who waits for the answer is told by `connection_lost`
                return

    @property
    def _of_body(self) -> int:
        return getattr(self._payload, "total_bytes", 0)
