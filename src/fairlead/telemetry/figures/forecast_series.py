"""A forecast as sources write it: a list of times and values, checked before any of it is used.

Records of the carbon-aware exporter, the Carbon Aware SDK, WattTime, Electricity Maps and the UK's
grid are read as they are, and CSV files with a header. A time needs a time zone: hours that come
twice, or not at all, when clocks are changed have no other sign.
"""

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice, pairwise
from statistics import median
from typing import Any

import msgspec

from fairlead.model.forecasts import HIGHEST, MOST_SPANS
from fairlead.model.lazy_dataclass import dataclass
from fairlead.telemetry.sources.api import SourceFault

#: Names of the fields, in lower case.
_TIMES = ("time", "point_time", "datetime", "from", "start", "timestamp")
_VALUES = ("value", "rating", "carbonintensity", "price", "intensity", "forecast")
_LOCATIONS = ("location", "zone", "region")
#: Lists within an answer.
_LISTS = ("data", "forecast", "history")
#: So many times the median is an error; half of the values that are errors make all of them one.
_JUMP = 1000.0
_MOST_REJECTED = 0.5
#: A value holds until the next one, if that comes within so many steps.
_BRIDGED = 2.0
_HOUR_S = 3600.0
#: More records are not read in one turn.
_MOST_RECORDS = 20_000
#: Numbers beyond this are milliseconds since 1970.
_MILLIS = 1e11

Span = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Point:
    start_s: float
    value: float
    #: None: until the next one.
    length_s: float | None = None


def read_records(
    data: bytes, location: str = "", most: int = _MOST_RECORDS
) -> tuple[list[Point], Counter[str]]:
    """What the bytes say, and how many records are not used, by why. Raises SourceFault."""
    rows = _rows(data, most)
    places = {str(place) for row in rows if (place := _first(row, _LOCATIONS))}
    if location:
        rows = [row for row in rows if str(_first(row, _LOCATIONS) or "") == location]
    elif len(places) > 1:
        raise SourceFault(f"it is about {len(places)} locations; name one of them in `location`")
    rejected: Counter[str] = Counter()
    points = [point for row in rows if (point := _point(row, rejected)) is not None]
    return points, rejected


def _rows(data: bytes, most: int) -> list[Mapping[str, Any]]:
    """With names in lower case."""
    try:
        text = data.decode("utf-8-sig").strip()
        rows = _listed(msgspec.json.decode(text)) if text[:1] in ("[", "{") else _lines(text, most)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, csv.Error) as error:
        raise SourceFault(f"it cannot be read: {error}") from error
    if len(rows) > most:
        raise SourceFault(f"it has more than {most} records")
    found = [row for row in rows if isinstance(row, dict)]
    return [{str(key).lower(): value for key, value in row.items()} for row in found]


def _listed(found: Any) -> Sequence[Any]:
    while isinstance(found, dict):
        found = next((found[key] for key in _LISTS if key in found), [])
    return found if isinstance(found, list) else []


def _lines(text: str, most: int) -> Sequence[Any]:
    read = csv.DictReader(line for line in text.splitlines() if line.strip())
    return list(islice(read, most + 1))


def _point(row: Mapping[str, Any], rejected: Counter[str]) -> Point | None:
    start_s, value = _time(_first(row, _TIMES)), _number(_first(row, _VALUES))
    why = "" if start_s is not None else "no time with a time zone"
    why = why or ("" if value is not None else "not a number")
    if why or start_s is None or value is None:
        rejected[why] += 1
        return None
    minutes = _number(row.get("duration"))
    return Point(start_s, value, 60.0 * minutes if minutes and 0 < minutes <= 1440 else None)


def _first(row: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _time(said: Any) -> float | None:
    if isinstance(said, (int, float)):
        number = _number(said) or 0.0
        seconds = number / 1000.0 if number > _MILLIS else number
        return seconds if 0 < seconds < _MILLIS else None
    try:
        found = datetime.fromisoformat(str(said)[:64])
        return found.timestamp() if found.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _number(said: Any) -> float | None:
    if isinstance(said, dict):  # the UK's grid: a forecast, and what it was
        said = said.get("forecast")
    try:
        found = float(said)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def spans_of(
    points: Sequence[Point],
    rejected: Counter[str],
    *,
    may_be_negative: bool,
    most: int = MOST_SPANS,
) -> tuple[Span, ...]:
    """What is used of them, in order. Raises SourceFault if too little is."""
    given = len(points) + rejected.total()
    found = _checked(points, rejected, may_be_negative=may_be_negative, most=most)
    if not found:
        raise SourceFault(f"it has no usable values{_words(rejected)}")
    if rejected.total() > _MOST_REJECTED * given:
        raise SourceFault(f"more than half of its values cannot be used{_words(rejected)}")
    return tuple(_spans(sorted(found.items())))


def _checked(
    points: Sequence[Point], rejected: Counter[str], *, may_be_negative: bool, most: int
) -> dict[float, Point]:
    usual = median(abs(point.value) for point in points) if points else 0.0
    found: dict[float, Point] = {}
    for point in points:
        why = _fault(point, found, usual, may_be_negative=may_be_negative)
        if not why and point.start_s not in found and len(found) >= most:
            why = "too many"
        if why:
            rejected[why] += 1
        else:
            found.setdefault(point.start_s, point)
    return found


def _fault(
    point: Point, found: Mapping[float, Point], usual: float, *, may_be_negative: bool
) -> str:
    before = found.get(point.start_s)
    if before is not None:
        return "" if before.value == point.value else "two values for one time"
    if point.value < 0 and not may_be_negative:
        return "negative"
    if abs(point.value) > HIGHEST or (usual and abs(point.value) > _JUMP * usual):
        return "too much"
    return ""


def _spans(points: Sequence[tuple[float, Point]]) -> Iterator[Span]:
    starts = [start_s for start_s, _ in points]
    steps = [after - before for before, after in pairwise(starts)]
    step_s = median(steps) if steps else _HOUR_S
    for number, (start_s, point) in enumerate(points):
        next_s = starts[number + 1] if number + 1 < len(starts) else math.inf
        length_s = point.length_s or step_s
        bridged = next_s - start_s <= _BRIDGED * length_s
        yield start_s, next_s if bridged else min(next_s, start_s + length_s), point.value


def _words(rejected: Counter[str]) -> str:
    words = ", ".join(f"{n} {why}" for why, n in sorted(rejected.items()))
    return f": {words}" if words else ""


def rejected_words(rejected: Counter[str]) -> str:
    """For people; empty if all is used."""
    return f"values that are not used{_words(rejected)}" if rejected else ""
