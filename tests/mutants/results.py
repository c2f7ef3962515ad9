"""The results of mutants, as a file with a line for each."""

import csv
import threading
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from mutants.mutant import Mutant

KILLED = {"killed", "timeout"}
OPEN = "open"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant.

    result  killed; timeout, which is killed too; alive; gone: its line is not in src any more;
            open: some of the tests have passed, the others come later
    by      the kind of test that killed it: plain, slow or server; server also for one that is
            alive after the server tests
    test    which one; of those alive and gone a remark
    """

    number: int
    area: str
    file: str
    line: int
    operator: str
    result: str = ""
    by: str = ""
    test: str = ""
    seconds: float = 0.0

    @property
    def word(self) -> str:
        return f"{self.result} ({self.by})" if self.by else self.result


class Results:
    """A file of results, written anew with each one."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, threading.Lock()
        self._by_number = {result.number: result for result in read(file)}

    def __getitem__(self, mutant: Mutant) -> Result:
        new = Result(mutant.number, mutant.area, mutant.file, mutant.line, mutant.operator)
        return self._by_number.get(mutant.number, new)

    def add(self, result: Result) -> None:
        with self._lock:
            self._by_number[result.number] = result
            new = self._file.with_suffix(".new")
            write((self._by_number[number] for number in sorted(self._by_number)), new)
            new.replace(self._file)


def read(file: Path) -> list[Result]:
    if not file.exists():
        return []
    kinds = {"number": int, "line": int, "seconds": float}
    with file.open(newline="", encoding="utf-8") as stream:
        return [
            Result(**{name: kinds.get(name, str)(value) for name, value in row.items()})
            for row in csv.DictReader(stream)
        ]


def write(results: Iterable[Result], file: Path) -> None:
    names = [field.name for field in fields(Result)]
    with file.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(names)
        rows.writerows([getattr(result, name) for name in names] for result in results)


def lost(before: Iterable[Result], after: Iterable[Result]) -> list[tuple[Result, Result]]:
    """Those that were killed before, and now are not."""
    now = {result.number: result for result in after}
    pairs = [(was, now[was.number]) for was in before if was.number in now]
    return [(was, is_) for was, is_ in pairs if was.result in KILLED and is_.result not in KILLED]
