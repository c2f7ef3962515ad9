"""One query to a Prometheus server, as its HTTP API answers it."""

from urllib.parse import urlencode

import msgspec

from fairlead.telemetry.sources.api import SourceFault
from fairlead.telemetry.sources.fetch import Address, ConnectionPool, FetchLimits, token


class QuerySample(msgspec.Struct):
    #: The labels, as JSON.
    metric: msgspec.Raw
    #: When, and the value as text.
    value: tuple[float, str]


class QueryData(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: list[QuerySample] = []


class QueryReply(msgspec.Struct):
    status: str
    data: QueryData = msgspec.field(default_factory=QueryData)
    error: str = ""
    warnings: list[str] = []

    @property
    def problem(self) -> str:
        """Why it has no vector; empty if it has one."""
        if self.status == "success" and self.data.result_type == "vector":
            return ""
        return self.error or f"it returns a {self.data.result_type}, not a vector"


_replies = msgspec.json.Decoder(QueryReply)


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

    async def query(self, expression: str) -> QueryReply:
        """Raises SourceFault if there is no answer, or one that cannot be read."""
        answer = await self.answer(expression)
        try:
            return _replies.decode(answer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise SourceFault(f"the answer is not valid Prometheus output: {error}") from error

    async def answer(self, expression: str) -> bytes:
        """As it comes, of any type. Raises SourceFault if there is none."""
        pieces: list[bytes] = []
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        headers |= token(self._token_file)
        timeout = f"{self._limits.timeout_s:g}s"
        body = urlencode({"query": expression, "timeout": timeout}).encode()
        await self._lines.fetch(self._address, pieces.append, self._limits, headers, body)
        return b"".join(pieces)
