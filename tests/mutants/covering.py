"""Which tests come to which mutants, recorded once, in a run of the suite without a mutant."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutants.copies import Copy, Ended
from mutants.mutant import Mutant

_FEW = 3


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    seconds: float
    slow: bool
    mutants: frozenset[int]

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]


class Cover:
    """The tests that passed without a mutant, and the mutants that they come to."""

    def __init__(self, file: Path) -> None:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        self.others = [row["test"] for row in rows if not row["passed"]]
        self.cases = [
            Case(row["test"], row["seconds"], row["slow"], frozenset(row["mutants"]))
            for row in rows
            if row["passed"]
        ]
        self._by_name = {test.name: test for test in self.cases}
        self._kills: Counter[str] = Counter()

    def __getitem__(self, name: str) -> Case | None:
        return self._by_name.get(name)

    def killed(self, test: str) -> None:
        self._kills[test] += 1

    def of(self, mutant: Mutant, first: Iterable[str] = ()) -> list[Case]:
        """Those that come to a mutant, the most promising first, and slow ones last.

        Promising is what killed it before, what has words in common with the place, what killed
        others, what comes to few others, and what is short.
        """
        place = _words(f"{mutant.file} {mutant.function}")
        before = set(first)

        def rank(test: Case) -> tuple[bool, bool, bool, int, int, float]:
            is_hit = mutant.number in test.mutants
            common = len(place & _words(test.name)) + min(self._kills[test.name], 2)
            return (test.slow, test.name not in before, not is_hit, -common,
                    len(test.mutants), test.seconds)  # fmt: skip

        return sorted(self._coming(mutant), key=rank)

    def _coming(self, mutant: Mutant) -> list[Case]:
        """Where few come, others of their files may have found in a cache what the first left."""
        hits = [test for test in self.cases if mutant.number in test.mutants]
        files = {test.file for test in hits}
        return hits if len(hits) > _FEW else [test for test in self.cases if test.file in files]


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{3,}", text.lower())) - {"src", "fairlead", "tests", "test"}


def record(copy: Copy, file: Path, arguments: list[str]) -> Ended:
    """Runs the suite, or what the arguments leave of it, without any mutant."""
    folder = copy.folder / "build" / "found"
    folder.mkdir(parents=True)
    ended = copy.pytest(arguments, limit_s=4 * 3600, MUTANTS_FOUND=str(folder))
    rows = [row for part in folder.glob("*.tests") for row in _rows(part)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return ended


def _rows(file: Path) -> list[dict[str, Any]]:
    """The tests of one process of pytest, with what the programs came to that they started."""
    hits: dict[int, set[int]] = {}
    for part in file.parent.glob(f"{file.name.removesuffix('.tests')}.*.hits"):
        for line in part.read_text().splitlines():
            number, mutant = map(int, line.split())
            hits.setdefault(number, set()).add(mutant)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["mutants"] = sorted({*row["mutants"], *hits.get(row["number"], ())})
    return rows
