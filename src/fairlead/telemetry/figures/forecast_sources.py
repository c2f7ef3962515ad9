"""One source of a forecast: a file, a ConfigMap, or past values in a Prometheus server."""

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from pathlib import Path

import msgspec

from fairlead.model.forecasts import Forecast
from fairlead.model.lazy_dataclass import dataclass
from fairlead.model.past_forecasts import PAST_DAYS, Sample, forecast_of_past
from fairlead.model.start_times import Window
from fairlead.telemetry.figures.forecast_series import (
    Point,
    read_records,
    rejected_words,
    spans_of,
)
from fairlead.telemetry.sources.api import SourceFault
from fairlead.telemetry.sources.fetch import FetchLimits
from fairlead.telemetry.sources.prometheus_api import PrometheusServer

#: About 10,000 records, which are read in one turn.
_MOST_BYTES = 1 << 20
#: By how much clocks may differ.
_AHEAD_S = 300.0
_FUTURE = "it is dated in the future; it counts as written when it was first read"
#: What is asked of a Prometheus server: a week in steps of a quarter of an hour.
_STEP_S = 900.0
_RANGE = f"[{PAST_DAYS}d:15m]"

#: What a source has, and when that was written, in seconds since 1970; None: it does not say.
Fetched = tuple[bytes, float | None]
Fetch = Callable[[], Awaitable[Fetched]]


@dataclass(frozen=True, slots=True)
class ForecastPlan:
    """One source as it was configured."""

    window: Window
    kind: str
    name: str
    unit: str = ""
    location: str = ""
    file: str = ""
    config_map: tuple[str, str] = ("", "")
    url: str = ""
    query: str = ""
    token_file: str = ""
    ca_file: str = ""
    timeout_s: float = 5.0
    every_s: float = 300.0
    #: Older forecasts are not used; infinite for what does not age.
    max_age_s: float = math.inf


@dataclass(slots=True)
class ForecastStatus:
    """How a source does."""

    plan: ForecastPlan
    #: When its forecast was written or taken, in seconds since 1970; None: never.
    issued_s: float | None = None
    values: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    #: Why nothing, or not all, of it is used; empty if all is.
    problem: str = ""


class ForecastSource:
    """Raises nothing: what goes wrong is in `status`, and a forecast ends when it is too old."""

    def __init__(self, plan: ForecastPlan, fetch: Fetch) -> None:
        self.plan = plan
        self.status = ForecastStatus(plan)
        self._fetch = fetch
        self._due_s = -math.inf
        self._found: Forecast | None = None
        #: Of a forecast that is dated in the future: a hash of it, and when it was first read.
        self._first_read: tuple[int, float] | None = None

    @property
    def end_s(self) -> float:
        """Until when it has values; 0: it has none."""
        return self._found.spans[-1][1] if self._found else 0.0

    def forecast(self, wall_s: float) -> Forecast | None:
        """What it says; None if that is too old, is all in the past, or was never taken."""
        found, issued_s = self._found, self.status.issued_s
        if found is None or issued_s is None:
            return None
        if wall_s - issued_s > self.plan.max_age_s:
            self.status.problem = self.status.problem or "it is too old"
            return None
        if found.spans[-1][1] <= wall_s:
            self.status.problem = self.status.problem or "it ends in the past"
            return None
        return found

    async def take(self, now_s: float, wall_s: float) -> None:
        """Takes the forecast if that is due. `wall_s` is the time of day."""
        if now_s < self._due_s:
            return
        self._due_s = now_s + self.plan.every_s
        try:
            data, issued_s = await self._fetch()
            points, rejected = self._points(data)
            cheap = self.plan.window is Window.CHEAP
            spans = spans_of(points, rejected, may_be_negative=cheap)
        except SourceFault as fault:
            self.status.problem = str(fault)
            return
        self.status.rejected += rejected
        self.status.problem = rejected_words(rejected)
        self.status.issued_s, self.status.values = (
            self._issued_s(data, issued_s, wall_s),
            len(spans),
        )
        self._found = Forecast(self.plan.window, self.plan.name, self.plan.unit, spans)

    def _issued_s(self, data: bytes, said_s: float | None, wall_s: float) -> float:
        """When it was written. A time that lies in the future is not believed: such a forecast
        counts as written when it was first read, so that it becomes old.
        """
        if said_s is None:
            return wall_s
        if said_s <= wall_s + _AHEAD_S or math.isinf(self.plan.max_age_s):
            return min(said_s, wall_s)
        digest = hash(data)
        if self._first_read is None or self._first_read[0] != digest:
            self._first_read = digest, wall_s
        self.status.problem = self.status.problem or _FUTURE
        return self._first_read[1]

    def _points(self, data: bytes) -> tuple[list[Point], Counter[str]]:
        if self.plan.kind == "prometheus":
            return _from_past(data), Counter()
        return read_records(data, self.plan.location)


class FileFetch:
    def __init__(self, plan: ForecastPlan) -> None:
        self._path = Path(plan.file)

    async def __call__(self) -> Fetched:
        try:
            found = self._path.stat()
            if found.st_size > _MOST_BYTES:
                raise SourceFault(f"{self._path} is larger than {_MOST_BYTES >> 20} MiB")
            return self._path.read_bytes(), found.st_mtime
        except OSError as error:
            raise SourceFault(f"{self._path} cannot be read: {error}") from error


class PrometheusFetch:
    def __init__(self, plan: ForecastPlan) -> None:
        self._query = f"({plan.query}){_RANGE}"
        self._server = PrometheusServer(
            plan.url,
            FetchLimits(plan.timeout_s, _MOST_BYTES),
            token_file=plan.token_file,
            ca_file=plan.ca_file,
        )

    async def __call__(self) -> Fetched:
        return await self._server.answer(self._query), None


class _Series(msgspec.Struct):
    values: list[tuple[float, str]] = []


class _Matrix(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: list[_Series] = []


class _Reply(msgspec.Struct):
    status: str = ""
    data: _Matrix = msgspec.field(default_factory=_Matrix)
    error: str = ""


_replies = msgspec.json.Decoder(_Reply)


def _from_past(data: bytes) -> list[Point]:
    """What values of the last days say about the next ones. Raises SourceFault."""
    try:
        reply = _replies.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceFault(f"the answer is not valid Prometheus output: {error}") from error
    if reply.status != "success" or reply.data.result_type != "matrix":
        raise SourceFault(reply.error or "the query has no values over time")
    if len(reply.data.result) != 1:
        found = len(reply.data.result)
        raise SourceFault(f"the query returns {found} series; write one that returns one, as avg()")
    samples = _samples(reply.data.result[0].values)
    end_s = max((at_s for at_s, _ in samples), default=0.0) + _STEP_S
    return [Point(*each) for each in forecast_of_past(samples, end_s, _STEP_S)]


def _samples(values: Sequence[tuple[float, str]]) -> list[Sample]:
    found = []
    for at_s, text in values:
        try:
            value = float(text)
        except ValueError:
            continue
        if math.isfinite(value) and math.isfinite(at_s):
            found.append((at_s, value))
    return found
