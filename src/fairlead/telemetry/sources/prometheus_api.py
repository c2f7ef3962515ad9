"""One query to a Prometheus server, as its HTTP API answers it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from fairlead.telemetry.sources.api import SourceFault
from fairlead.telemetry.sources.fetch import Address, ConnectionPool, FetchLimits, token

#: Samples that are read in one turn.
_AT_ONCE = 2000


class QuerySample(msgspec.Struct):
    #: The labels, as JSON.
    metric: msgspec.Raw
    #: When, and the value as text.
    value: tuple[float, str]


S = TypeVar("S")


class QueryData(msgspec.Struct, Generic[S], rename="camel"):
    result_type: str = ""
    result: list[S] = []


class QueryReply(msgspec.Struct, Generic[S]):
    status: str
    data: QueryData[S] = msgspec.field(default_factory=QueryData)
    error: str = ""
    warnings: list[str] = []

    @property
    def problem(self) -> str:
        """Why it has no vector; empty if it has one."""
        if self.status == "success" and self.data.result_type == "vector":
            return ""
        return self.error or f"it returns a {self.data.result_type}, not a vector"


_replies = msgspec.json.Decoder(QueryReply[QuerySample])
#: Samples that are not read yet: the smallest are so many that they are not read in one turn.
_raw_replies = msgspec.json.Decoder(QueryReply[msgspec.Raw])
_samples = msgspec.json.Decoder(QuerySample)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def _unreadable(error: Exception) -> SourceFault:
    return SourceFault(f"the answer is not valid Prometheus output: {error}")


async def in_slices(samples: Sequence[msgspec.Raw], most: int) -> AsyncIterator[QuerySample]:
    """The first of them, as many as are to be read; others get their turn in between."""
    for number, raw in enumerate(samples[:most]):
        if number % _AT_ONCE == _AT_ONCE - 1:
            await asyncio.sleep(0)
        try:
            yield _samples.decode(raw)
        except _UNREADABLE as error:
            raise _unreadable(error) from error


class PrometheusServer:
    def __init__(
        self,
        url: str,
        limits: FetchLimits,
        *,
        token_file: str = "",
        ca_file: str = "",
        keeps: bool = False,
    ) -> None:
        self._lines = ConnectionPool(keeps=keeps)
        self._address = Address.of(f"{url.rstrip('/')}/api/v1/query", ca_file=ca_file)
        self._limits = limits
        self._token_file = token_file

    async def query(self, expression: str) -> QueryReply[QuerySample]:
        """Raises SourceFault if there is no answer, or one that cannot be read."""
        answer = await self.answer(expression)
        try:
            return _replies.decode(answer)
        except _UNREADABLE as error:
            raise _unreadable(error) from error

    async def raw_samples(self, expression: str) -> list[msgspec.Raw]:
        """Samples for `in_slices`. Raises SourceFault, also if the query has no vector."""
        answer = await self.answer(expression)
        try:
            reply = _raw_replies.decode(answer)
        except _UNREADABLE as error:
            raise _unreadable(error) from error
        if reply.problem:
            raise SourceFault(f"query: {reply.problem}; correct it in the configuration")
        return reply.data.result

    async def answer(self, expression: str) -> bytes:
        """As it comes, of any type. Raises SourceFault if there is none."""
        pieces: list[bytes] = []
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        headers |= token(self._token_file)
        timeout = f"{self._limits.timeout_s:g}s"
        body = urlencode({"query": expression, "timeout": timeout}).encode()
        await self._lines.fetch(self._address, pieces.append, self._limits, headers, body)
        return b"".join(pieces)
