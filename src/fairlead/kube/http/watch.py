"""A watch as lines: bytes from the wire in, whole JSON lines out."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any

import aiohttp

from fairlead.kube.errors import ReplyLost, Stalled
from fairlead.kube.http.reply import message_of, parse_retry_after

#: etcd holds objects of 1.5 MiB; a line far beyond that comes from something that is no API server.
LONGEST_LINE = 32 * 2**20
_LONGEST_REFUSAL = 64 * 2**10


class LineSplitter:
    """Cuts a stream of bytes into lines, wherever the pieces of the stream begin and end.

    It never looks inside a line, so a piece may end in the middle of a character. What follows
    the last line break is no line: a watch that is cut off leaves half an object there.
    """

    __slots__ = ("_length", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that this piece completes, without their line breaks; empty ones left out."""
        if b"\n" not in piece:
            self._keep(piece)
            return []
        lines = piece.split(b"\n")
        if self._pieces:
            self._pieces.append(lines[0])
            lines[0] = b"".join(self._pieces)
            self._pieces.clear()
        rest = lines.pop()
        self._length = 0
        if rest:
            self._keep(rest)
        return [line for line in lines if line]

    def _keep(self, piece: bytes) -> None:
        # Joined only when the line is complete: adding piece to piece would copy a large object
        # once for every packet it came in.
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length > LONGEST_LINE:
            raise ReplyLost(f"a line of the watch is longer than {LONGEST_LINE >> 20} MiB")


class WatchStream:
    """An open watch, or the server's refusal to open one: look at `status` first."""

    def __init__(
        self, response: aiohttp.ClientResponse, message: str, idle_timeout_s: float
    ) -> None:
        self.status = response.status
        self.retry_after_s = parse_retry_after(response.headers.get("Retry-After"))
        #: Why it was refused, in the server's words; empty for an open watch.
        self.message = message
        self._response = response
        self._splitter = LineSplitter()
        self._idle_timeout_s = idle_timeout_s
        #: When the next whole line must be here; None until a reader waits for it.
        self._due_s: float | None = None

    @classmethod
    async def of(
        cls, response: aiohttp.ClientResponse, idle_timeout_s: float, refused_within_s: float
    ) -> "WatchStream":
        if response.status == 200:
            return cls(response, "", idle_timeout_s)
        body = b""
        with suppress(TimeoutError):  # the status alone says most
            async with asyncio.timeout(refused_within_s):
                body = await guarded(response.content.read(_LONGEST_REFUSAL))
        return cls(response, message_of(response.status, body), idle_timeout_s)

    async def lines(self) -> list[bytes] | None:
        """The lines completed by the next bytes to arrive, maybe none; None when the watch ended.

        Raises ReplyLost if the connection broke, Stalled if no line came for too long. Bytes do not
        count: a line may be sent byte by byte, and an empty one is no event. The time is ours, not
        the transport's: its own stops while it does not read.
        """
        if self._due_s is None:
            self._due_s = asyncio.get_running_loop().time() + self._idle_timeout_s
        try:
            async with asyncio.timeout_at(self._due_s):
                piece = await guarded(self._response.content.readany())
        except TimeoutError:
            raise Stalled(f"no event of the watch came for {self._idle_timeout_s:g} s") from None
        if not piece:
            return None
        lines = self._splitter.feed(piece)
        if lines:
            self._due_s = None
        return lines

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (batch := await self.lines()) is not None:
            for line in batch:
                yield line

    def close(self) -> None:
        """Closes it, from any task; a reader gets ReplyLost or the end."""
        hang_up(self._response)


def hang_up(response: aiohttp.ClientResponse) -> None:
    """Drop the connection of a reply that was not read to its end.

    At once: a proper TLS farewell may wait long for a peer that is no longer there.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


async def guarded(reading: Coroutine[Any, Any, bytes]) -> bytes:
    """What was read, with the transport's errors as ours."""
    try:
        return await reading
    except (aiohttp.ClientError, OSError) as error:
        raise ReplyLost(f"the connection broke off: {describe(error)}") from error


def describe(error: BaseException) -> str:
    return str(error) or type(error).__name__
