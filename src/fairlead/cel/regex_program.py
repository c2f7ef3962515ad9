"""Regular expressions as programs: letters to read, choices and conditions."""

import string
from collections.abc import Callable
from typing import Any

from fairlead.cel.errors import CelEvaluationError

Program = list[tuple[Any, ...]]
Ranges = list[tuple[str, str]]
Test = Callable[[str], bool]
LETTER, MATCH = "letter", "match"
WORD = frozenset(string.ascii_letters + string.digits + "_")
_LONGEST = 1000


def _bounded(program: Program) -> Program:
    if len(program) > _LONGEST:
        raise CelEvaluationError("error parsing regexp: expression too large")
    return program


# -- programs of programs: places are relative until they are joined -------------------------------


def _moved(program: Program, by: int) -> Program:
    return [
        (step[0], *(place + by for place in step[1:])) if step[0] in ("jump", "split") else step
        for step in program
    ]


def joined(left: Program, right: Program) -> Program:
    return _bounded(left + _moved(right, len(left)))


def either(left: Program, right: Program) -> Program:
    end = len(left) + len(right) + 2
    body = [("split", 1, len(left) + 2), *_moved(left, 1), ("jump", end)]
    return _bounded(body + _moved(right, len(left) + 2))


def _maybe(body: Program, *, greedy: bool) -> Program:
    ways = (1, len(body) + 1) if greedy else (len(body) + 1, 1)
    return [("split", *ways), *_moved(body, 1)]


def _many(body: Program, *, greedy: bool) -> Program:
    loop = [*body, ("jump", -1)]
    return _maybe(loop, greedy=greedy)


def repeated(body: Program, least: int, most: int | None, *, greedy: bool) -> Program:
    found: Program = []
    for _ in range(least):
        found = joined(found, body)
    if most is None:
        return joined(found, _many(body, greedy=greedy))
    tail: Program = []
    for _ in range(most - least):
        tail = _bounded(_maybe(joined(body, tail), greedy=greedy))
    return joined(found, tail)


# -- letters and conditions ------------------------------------------------------------------------


def reads(ranges: Ranges, flags: frozenset[str], *, negated: bool = False) -> Program:
    return [(LETTER, _folded(ranges, negated) if "i" in flags else _tests(ranges, negated))]


def _tests(ranges: Ranges, negated: bool) -> Test:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1] and not negated:
        only = ranges[0][0]
        return lambda letter: letter == only
    return lambda letter: any(low <= letter <= high for low, high in ranges) is not negated


def _folded(ranges: Ranges, negated: bool) -> Test:
    inside = _tests(ranges, False)
    return lambda letter: (
        any(inside(form) for form in (letter, letter.lower(), letter.upper()) if len(form) == 1)
        is not negated
    )


def _at_word_edge(text: str, index: int) -> bool:
    before = index > 0 and text[index - 1] in WORD
    after = index < len(text) and text[index] in WORD
    return before is not after


_CONDITIONS: dict[str, Callable[[str, int], bool]] = {
    "start": lambda _, index: index == 0,
    "end": lambda text, index: index == len(text),
    "line start": lambda text, index: index == 0 or text[index - 1] == "\n",
    "line end": lambda text, index: index == len(text) or text[index] == "\n",
    "b": _at_word_edge,
    "B": lambda text, index: not _at_word_edge(text, index),
}


def requires(name: str) -> Program:
    return [("assert", _CONDITIONS[name])]
