"""One GET or POST, piece by piece, with limits: what an exporter sends is not to be trusted.

Thousands of nodes are asked every few seconds, so this does only what that needs, on a C parser:
one connection a request, no redirects, no cookies, no proxy. Pieces go to whoever reads them as
they come, so a long answer is never held in memory.
"""

import asyncio
import ssl
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import httptools

from fairlead.telemetry.sources.api import SourceFault

Sink = Callable[[bytes], None]

_PIECE = 256 * 2**10


@dataclass(frozen=True, slots=True)
class Limits:
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
            raise SourceFault(f"{url!r} is no address of a server; write http://… or https://…")
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
    """The header that carries the token in a file, read anew: it is replaced while we run."""
    if not path:
        return {}
    try:
        said = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceFault(f"the token in {path} cannot be read: {error}") from error
    if not said.isprintable():
        raise SourceFault(f"the token in {path} is no token")
    return {"Authorization": f"Bearer {said}"}


async def fetch(
    address: Address,
    sink: Sink,
    limits: Limits,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> None:
    """The body of a 200 goes to `sink`, in pieces. Raises SourceFault for anything else.

    A sink that raises ends it; so does the limit of time, whatever the server does.
    """
    loop = asyncio.get_running_loop()
    answer = _Answer(sink, limits.most_bytes, loop.create_future())
    request = _request(address, headers or {}, body)
    try:
        async with asyncio.timeout(limits.timeout_s):
            transport, _ = await loop.create_connection(
                lambda: answer, address.host, address.port, ssl=address.tls
            )
            try:
                transport.write(request)
                await answer.done
            finally:
                transport.abort()
    except TimeoutError:
        raise SourceFault(f"no complete answer within {limits.timeout_s:g} s") from None
    except OSError as error:
        raise SourceFault(f"cannot connect: {error.strerror or error}") from error


def _request(address: Address, headers: Mapping[str, str], body: bytes | None) -> bytes:
    lines = [b"POST " if body is not None else b"GET ", address.head]
    lines += [f"{name}: {text}\r\n".encode("latin-1") for name, text in headers.items()]
    if body is not None:
        lines.append(b"Content-Length: %d\r\n" % len(body))
    # Unpacking costs us more than a network inside a cluster does.
    lines.append(b"User-Agent: fairlead\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n")
    return b"".join(lines) + (body or b"")


class _Answer(asyncio.Protocol):
    def __init__(self, sink: Sink, most_bytes: int, done: asyncio.Future[None]) -> None:
        self.done = done
        self._sink = sink
        self._left = most_bytes
        self._most = most_bytes
        self._unpacker: zlib._Decompress | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._complete = False
        self._to_the_end = True

    # -- called by the event loop ------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.done.done():
            return
        try:
            self._parser.feed_data(data)
        except SourceFault as fault:
            self._fail(str(fault))
        except httptools.HttpParserCallbackError as error:
            self._fail(str(error.__context__ or error))
        except httptools.HttpParserError as error:
            self._fail(f"the answer is not HTTP: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self._fail("the connection was closed in the middle")

    # -- called by the parser ----------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() != b"content-encoding" or value in (b"", b"identity"):
            return
        if value.lower() not in (b"gzip", b"x-gzip", b"deflate"):
            raise SourceFault(f"the answer is packed as {value!r}, which nobody asked for")
        self._unpacker = zlib.decompressobj(wbits=47)  # finds out which of them

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 300 <= status < 400:
            raise SourceFault(f"it redirects (HTTP {status}); configure where it leads to")
        if status != 200:
            raise SourceFault(f"it answers HTTP {status}")

    def on_body(self, body: bytes) -> None:
        if self._unpacker is None:
            self._give(body)
            return
        while body:
            try:
                self._give(self._unpacker.decompress(body, _PIECE))
            except zlib.error as error:
                raise SourceFault(f"the answer cannot be unpacked: {error}") from error
            body = self._unpacker.unconsumed_tail

    def on_message_complete(self) -> None:
        if self._unpacker is not None and not self._unpacker.eof:
            raise SourceFault("the packed answer ends in the middle")
        if not self.done.done():
            self.done.set_result(None)

    def _give(self, piece: bytes) -> None:
        self._left -= len(piece)
        if self._left < 0:
            raise SourceFault(f"the answer is longer than {self._most} bytes")
        self._sink(piece)

    def _fail(self, problem: str) -> None:
        if not self.done.done():
            self.done.set_exception(SourceFault(problem))
