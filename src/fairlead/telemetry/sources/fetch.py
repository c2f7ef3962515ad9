"""One GET or POST, piece by piece, with limits: what an exporter sends is not to be trusted.

Thousands of nodes are asked every few seconds, so this does only what that needs, on a C parser:
kept-alive connections, no redirects, no cookies, no proxy. Pieces go to the reader as
they come, so a long answer is never held in memory.
"""

import asyncio
import ssl
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

from fairlead.base.http_connection import HttpConnection, connect
from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.sources.api import SourceFault

Sink = Callable[[bytes], None]

_PIECE = 256 * 2**10
#: What may be sent beside the answer itself: headers, and the frames of chunks.
_BESIDE = 2**20


@dataclass(frozen=True, slots=True)
class FetchLimits:
    timeout_s: float
    #: Of the answer, unpacked.
    most_bytes: int


@dataclass(frozen=True, slots=True)
class Address:
    """Where to ask; made once, asked often."""

    host: str
    port: int
    head: bytes
    tls: ssl.SSLContext | None = None

    @classmethod
    def of(cls, url: str, *, ca_file: str = "") -> "Address":
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SourceFault(f"{url!r} is not a valid URL; use http://… or https://…")
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError as error:
            raise SourceFault(f"{url!r}: {error}") from error
        target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
        query = f"?{quote(parts.query, safe='/%:@!$&()*+,;=~-._?')}" if parts.query else ""
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        head = f"{target}{query} HTTP/1.1\r\nHost: {host}:{port}\r\n".encode()
        tls = (
            ssl.create_default_context(cafile=ca_file or None)
            if port and parts.scheme == "https"
            else None
        )
        return cls(parts.hostname, port, head, tls)


def token(path: str) -> Mapping[str, str]:
    """The header that carries the token in a file, read each time: it is replaced while we run."""
    if not path:
        return {}
    try:
        said = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceFault(f"the token in {path} cannot be read: {error}") from error
    if not said.isprintable():
        raise SourceFault(f"the file {path} does not contain a valid token")
    return {"Authorization": f"Bearer {said}"}


class ConnectionPool:
    """Connections, which are kept for the next time if so wanted.

    A server that hung up meanwhile is called again: nothing that we ask changes anything.
    """

    def __init__(self, *, keeps: bool = False) -> None:
        self._keeps = keeps
        self._idle: dict[tuple[str, int], list[_Connection]] = {}

    def close(self) -> None:
        """Ends every connection that is kept."""
        for idle in self._idle.values():
            for line in idle:
                line.close()
        self._idle.clear()

    async def fetch(
        self,
        address: Address,
        sink: Sink,
        limits: FetchLimits,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> None:
        """The body of a 200 goes to `sink`, in pieces. Raises SourceFault for anything else.

        A sink that raises ends it; so does the limit of time, whatever the server does.
        """
        request = _request(address, headers or {}, body)
        idle = self._idle.setdefault((address.host, address.port), [])
        while idle:
            line = idle.pop()
            if not line.usable:
                continue
            try:
                await line.ask(request, sink, limits)
            except _ClosedEarly:
                continue
            break
        else:
            line = await _connect(address, limits.timeout_s)
            await line.ask(request, sink, limits)
        if line.usable and self._keeps:
            idle.append(line)
        else:
            line.close()


class _ClosedEarly(SourceFault):
    """The server closed the connection before it said anything."""


async def _connect(address: Address, timeout_s: float) -> "_Connection":
    try:
        async with asyncio.timeout(timeout_s):
            return await connect(_Connection(), address.host, address.port, tls=address.tls)
    except TimeoutError:
        raise SourceFault(f"cannot connect within {timeout_s:g} s") from None
    except OSError as error:
        raise SourceFault(f"cannot connect: {error.strerror or error}") from error


def _request(address: Address, headers: Mapping[str, str], body: bytes | None) -> bytes:
    lines = [b"POST " if body is not None else b"GET ", address.head]
    lines += [f"{name}: {text}\r\n".encode("latin-1") for name, text in headers.items()]
    if body is not None:
        lines.append(b"Content-Length: %d\r\n" % len(body))
    # Unpacking costs us more than a network inside a cluster does.
    lines.append(b"User-Agent: fairlead\r\nAccept-Encoding: identity\r\n\r\n")
    return b"".join(lines) + (body or b"")


class _Connection(HttpConnection[None]):
    """One request at a time, whose answer goes to a sink."""

    REPLY = "answer"

    def __init__(self) -> None:
        super().__init__()
        self._unpacker: zlib._Decompress | None = None
        self._silent = True
        self._raw_left = 0

    async def ask(self, request: bytes, sink: Sink, limits: FetchLimits) -> None:
        self._silent, self._unpacker = True, None
        self._sink, self._left, self._most = sink, limits.most_bytes, limits.most_bytes
        self._raw_left = limits.most_bytes + _BESIDE
        late = f"no complete answer within {limits.timeout_s:g} s"
        timer = asyncio.get_running_loop().call_later(limits.timeout_s, self.abort, late)
        try:
            await self.send(request)
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()
            del self._sink

    def close(self) -> None:
        self.abort("the connection was closed")

    def lost(self, reason: str) -> Exception:
        return SourceFault(reason)

    # -- called by the event loop ------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Whatever is sent counts: endless headers, or bytes that nothing is unpacked from."""
        self._silent = False
        self._raw_left -= len(data)
        if self._waiting is not None and self._raw_left < 0:
            self.abort(f"the answer is longer than {self._most} bytes")
            return
        super().data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        closed = "the connection was closed in the middle of the answer"
        early = _ClosedEarly("the connection was closed")
        self._fail(early if self._silent else SourceFault(closed))

    # -- called by the parser ----------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() != b"content-encoding" or value in (b"", b"identity"):
            return
        if value.lower() not in (b"gzip", b"x-gzip", b"deflate"):
            self.abort(f"the answer has the encoding {value!r}, which was not requested")
        self._unpacker = zlib.decompressobj(wbits=47)  # finds out which of them

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 300 <= status < 400:
            self.abort(f"it redirects (HTTP {status}); configure the target of the redirect")
        elif status != 200:
            self.abort(f"it answers HTTP {status}")

    def on_body(self, body: bytes) -> None:
        if self._unpacker is None:
            self._give(body)
            return
        while body and self.usable:
            try:
                self._give(self._unpacker.decompress(body, _PIECE))
            except zlib.error as error:
                self.abort(f"the answer cannot be decompressed: {error}")
            if self._unpacker.unused_data:
                self.abort("the compressed answer is followed by something else")
            body = self._unpacker.unconsumed_tail

    def on_message_complete(self) -> None:
        if self._unpacker is not None and not self._unpacker.eof:
            self.abort("the compressed answer is incomplete")
        self._finish(None)

    def _give(self, piece: bytes) -> None:
        self._left -= len(piece)
        if self._left < 0:
            self.abort(f"the answer is longer than {self._most} bytes")
        elif self.usable:
            self._sink(piece)
