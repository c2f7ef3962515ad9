"""Rows of a trace with their line numbers, and values that are checked as they are read."""

import csv
import json
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from fairlead.model.lazy_dataclass import dataclass
from fairlead.sim.traces.errors import TraceError

#: A century: longer run times and later submit times are taken for mistakes.
MOST_S = 100 * 365.25 * 86400.0
MOST_GPUS = 100_000


@dataclass(frozen=True, slots=True)
class TraceRow:
    file: str
    line: int
    values: Mapping[str, Any]

    def error(self, problem: str) -> TraceError:
        return TraceError(f"{self.file}, line {self.line}: {problem}")

    def text(self, column: str, default: str = "") -> str:
        value = self.values.get(column)
        return default if value is None or value == "" else str(value)

    def number(self, column: str, *, least: float = 0.0, most: float = MOST_S) -> float:
        """Raises TraceError unless it is a number in this range."""
        word = self.text(column)
        if not word:
            raise self.error(f"{column} is missing")
        try:
            found = float(word)
        except ValueError:
            raise self.error(f"{column} is {word[:40]!r}, not a number") from None
        if not isfinite(found) or not least <= found <= most:
            raise self.error(f"{column} is {word[:40]}, not within {least:g} and {most:g}")
        return found

    def whole(self, column: str, *, least: int = 0, most: int = MOST_GPUS) -> int:
        found = self.number(column, least=least, most=most)
        if found != int(found):
            raise self.error(f"{column} is {found:g}, not a whole number")
        return int(found)


def csv_rows(file: Path, columns: tuple[str, ...]) -> Iterator[TraceRow]:
    """Of a file with a header that has at least these columns."""
    try:
        with file.open(newline="", encoding="utf-8") as text:
            reader = csv.DictReader(text)
            absent = [column for column in columns if column not in (reader.fieldnames or ())]
            if absent:
                raise TraceError(f"{file.name} has no column {', '.join(absent)} in its first line")
            for values in reader:
                yield TraceRow(file.name, reader.line_num, values)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{file} cannot be read: {error}") from error


def json_rows(file: Path) -> Iterator[TraceRow]:
    """Of a file with one JSON object on each line."""
    try:
        with file.open(encoding="utf-8") as text:
            for line, written in enumerate(text, start=1):
                if written.strip():
                    yield TraceRow(file.name, line, _object(file, line, written))
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{file} cannot be read: {error}") from error


def _object(file: Path, line: int, written: str) -> Mapping[str, Any]:
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TraceError(f"{file.name}, line {line}: this is no JSON object")
    return found
